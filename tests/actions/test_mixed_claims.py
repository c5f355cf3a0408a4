"""Members of one gang with different claims of their own are placed in one decision."""

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions.problems import placer
from phalanx.model.reasons import Reason
from phalanx.model.supplies.devices.session import cache as device_cache
from phalanx.model.supplies.devices.slots import SlotCounter

from tests.actions.test_device_claims import World
from tests.builders import Decided
from tests.examples import holds
from tests.model.devices import CLASSES, claim_of, device, request

BIG = 'device.attributes["gpu.example.com"].size == "big"'


def asking(world: World, *claims: dict[str, Any], **more: Any) -> World:
    """A gang `g` whose members have these requests, each its own."""
    world.gang("g", len(claims))
    world.claiming("g")
    for number, each in enumerate(claims):
        name = f"g-{number}-gpu"
        world.device_claims[name] = replace(world.device_claims[name], spec=claim_of(each, **more).spec)
    return world


def cluster(*nodes: str) -> World:
    """Nodes with these devices: B for a big one, s for a small one, t for a tainted small one."""
    world = World()
    world.nodes("a", len(nodes))
    taint = {"key": "broken", "effect": "NoSchedule"}
    for number, kinds in enumerate(nodes):
        found = [
            device(f"d{index}", size="big" if kind == "B" else "small")
            | ({"taints": [taint]} if kind == "t" else {})
            for index, kind in enumerate(kinds)
        ]
        world.device_slice(f"a-{number}", *found)
    return world


def used(decided: Decided) -> list[tuple[str, str]]:
    """Node and device of each device that members got; no device twice."""
    found = [
        (bind.node, each.device[2])
        for placement in decided.placements("g")
        for bind in placement.binds
        for grant in bind.grants
        for each in (grant.allocation.devices if grant.allocation else ())
    ]
    assert len(found) == len(set(found))
    return found


def test_members_that_ask_for_different_numbers_share_a_node() -> None:
    world = asking(cluster("ssss"), request(), request("other", count=3))
    assert len(used(world.decide())) == 4
    world = asking(cluster("sss"), request(), request("other", count=3))
    assert world.decide().verdict("g").reason is Reason.ABOVE_CLUSTER_CAPACITY


def test_members_whose_claims_match_some_of_the_same_devices_share_a_node() -> None:
    """The one that could take any device leaves the only big one to the other."""
    wanted = request(), request("big", BIG)
    assert sorted(used(asking(cluster("Bs"), *wanted).decide())) == [("a-0", "d0"), ("a-0", "d1")]
    found = asking(cluster("Bs", "B"), *wanted, request()).decide()
    assert len(used(found)) == 3
    refused = asking(cluster("Bs"), *wanted, request()).decide()
    assert refused.verdict("g").reason is Reason.ABOVE_CLUSTER_CAPACITY


def test_workers_with_constraints_fill_nodes_beside_a_launcher() -> None:
    """Each worker has a device and a network card with the same root, and the launcher has a device."""
    world = World()
    world.nodes("a", 3)
    for number in range(3):
        found = [device(f"{kind}{index}", kind=kind, root=f"r{index}") for kind in "gn" for index in range(4)]
        world.device_slice(f"a-{number}", *found)
    world.gang("g", 12)
    gpu, nic = (f'device.attributes["gpu.example.com"].kind == "{kind}"' for kind in "gn")
    same = [{"matchAttribute": "gpu.example.com/root"}]
    world.claiming("g", request("gpu", gpu), request("nic", nic), constraints=same)
    assert len(used(world.decide())) == 24
    world.device_claims["g-0-gpu"] = replace(
        world.device_claims["g-0-gpu"], spec=claim_of(request("gpu", gpu)).spec
    )
    assert len(used(world.decide())) == 23


def test_members_of_many_kinds_share_a_node() -> None:
    """With these devices, six of one size and two of another, free devices do not tell what fits."""
    same = [{"matchAttribute": "gpu.example.com/size"}]
    wanted = [request(f"r{index}", count=index % 3 + 1, tolerations=tolerations(index)) for index in range(5)]
    assert len(used(asking(cluster("BBBBBBss", "s"), *wanted, constraints=same).decide())) == 9
    refused = asking(cluster("BBBBBsss"), *wanted, constraints=same).decide()
    assert not refused.placements("g")


def test_members_of_very_many_kinds_share_nodes() -> None:
    """What was placed first is corrected."""
    same = [{"matchAttribute": "gpu.example.com/size"}]
    wanted = [request(f"r{index}", count=2, tolerations=tolerations(index)) for index in range(12)]
    assert len(used(asking(cluster(*["BBBBss"] * 4), *wanted, constraints=same).decide())) == 24
    odd = asking(cluster(*["BBBsss"] * 4), *wanted, constraints=same).decide()
    assert not odd.placements("g")
    assert odd.verdict("g").reason is not Reason.ABOVE_CLUSTER_CAPACITY


def test_a_gang_that_might_fit_is_not_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be placed by a correction."""
    same = [{"matchAttribute": "gpu.example.com/size"}]
    wanted = [request(f"r{index}", count=2, tolerations=tolerations(index)) for index in range(12)]
    world = asking(cluster(*["BBBBss"] * 4), *wanted, constraints=same)
    monkeypatch.setattr(placer, "DEVICE_DIVISIONS_MAX", 0)
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message.startswith("no way was found to divide the free devices")


def tolerations(index: int) -> list[dict[str, Any]]:
    """Different for each index, so that claims with them are of different kinds."""
    return [{"key": f"k{index}", "operator": "Exists"}]


@pytest.mark.parametrize(("devices", "fits"), [("ssss", True), ("sss", False)])
def test_members_with_different_claims_share_one_of_the_same_devices(devices: str, fits: bool) -> None:
    world = asking(cluster(devices), request(), request("other", count=2))
    world.sharing("g", "c")
    assert bool(world.decide().placements("g")) is fits


@pytest.mark.parametrize(("devices", "fits"), [("sss", True), ("ss", False)])
def test_members_have_their_own_devices_beside_the_shared_one(devices: str, fits: bool) -> None:
    world = asking(cluster(devices), request(), request())
    world.sharing("g", "c")
    assert bool(world.decide().placements("g")) is fits


def test_counters_of_many_kinds_of_claims_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_cache, "DEVICE_COUNTERS_CACHE_MAX", 2)
    cache = device_cache.DeviceCache()
    for number in range(9):
        spec = claim_of(request("r", f"device.attributes['x'].y == {number}")).spec
        counters = cache.counters(CLASSES)
        counters[spec,] = SlotCounter([spec], classes=CLASSES, matcher=cache.matcher)
        assert len(counters) <= 3


WANTED = (
    request(),
    request("two", count=2),
    request("big", BIG),
    request("bigs", BIG, count=2),
    request("any", tolerations=[{"operator": "Exists"}]),
)
NEEDS = ((1, "Bs"), (2, "Bs"), (1, "B"), (2, "B"), (1, "Bst"))
"""How many devices, and of which kinds."""


@holds(12)
@given(
    st.lists(st.text("Bst", max_size=4), min_size=1, max_size=2),
    st.lists(st.integers(0, len(WANTED) - 1), min_size=1, max_size=4),
)
def test_a_gang_is_placed_exactly_if_its_devices_can_be_divided(nodes: list[str], wanted: list[int]) -> None:
    decided = asking(cluster(*nodes), *(WANTED[each] for each in wanted)).decide()
    found = used(decided)
    exists = any(
        all(
            _fits(kinds, [NEEDS[each] for each, there in zip(wanted, where, strict=True) if there == node])
            for node, kinds in enumerate(nodes)
        )
        for where in itertools.product(range(len(nodes)), repeat=len(wanted))
    )
    assert len(found) == (sum(NEEDS[each][0] for each in wanted) if exists else 0)


@holds(12)
@given(
    st.lists(st.text("Bs", max_size=5), min_size=1, max_size=2),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
def test_devices_of_one_claim_are_of_one_size(nodes: list[str], wanted: list[int]) -> None:
    """Claims for so many devices, which must be of one size."""
    claims = [request(f"r{each}", count=each) for each in wanted]
    same = [{"matchAttribute": "gpu.example.com/size"}]
    found = used(asking(cluster(*nodes), *claims, constraints=same).decide())
    blocks = [count for kinds in nodes for count in Counter(kinds).values()]
    exists = any(
        all(
            sum(each for each, there in zip(wanted, where, strict=True) if there == block) <= count
            for block, count in enumerate(blocks)
        )
        for where in itertools.product(range(len(blocks)), repeat=len(wanted))
    )
    assert len(found) == (sum(wanted) if exists else 0)


def _fits(kinds: str, needs: list[tuple[int, str]]) -> bool:
    """Whether devices of these kinds can be divided so, by trial."""
    if not needs:
        return True
    (count, allowed), *rest = needs
    for some in itertools.combinations(range(len(kinds)), count):
        if all(kinds[index] in allowed for index in some):
            left = "".join(kind for index, kind in enumerate(kinds) if index not in some)
            if _fits(left, rest):
                return True
    return False


@pytest.mark.parametrize("size", [3, 5])
def test_a_mixed_gang_of_two_roles_fills_the_nodes(size: int) -> None:
    """A launcher with one device and workers with two each."""
    world = asking(cluster(*["ssss"] * size), request(), *[request("two", count=2)] * (2 * size - 1))
    assert len(used(world.decide())) == 4 * size - 1


@pytest.mark.parametrize(("devices", "is_evicted"), [("BBBBss", True), ("BBBsss", False)])
def test_nothing_is_evicted_for_members_that_would_get_no_devices(devices: str, is_evicted: bool) -> None:
    """Six devices are enough in number. Of each size there must be a multiple of two."""
    same, world = [{"matchAttribute": "gpu.example.com/size"}], World()
    world.nodes("a", 1, cpu=4)
    sizes = ["big" if kind == "B" else "small" for kind in devices]
    world.device_slice("a-0", *(device(f"d{index}", size=size) for index, size in enumerate(sizes)))
    world.gang("low", 1, cpu=4, on=["a-0"])
    wanted = [request(f"r{index}", count=2, tolerations=tolerations(index)) for index in range(3)]
    asking(world, *wanted, constraints=same)
    world.change("g", priority=5)
    assert bool(world.decide().evicted()) is is_evicted
