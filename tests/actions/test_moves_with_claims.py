"""Moves of gangs with claims to devices: old claims end with their pods, new ones get what is held."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.gangs import GangKind
from phalanx.model.pods import PodClaim
from phalanx.model.reasons import Reason
from phalanx.model.supplies.devices.pools import NodeChoice

from tests.actions.all_placements import Places, fewest_pods, placements
from tests.actions.test_consolidate import config, recreated, rested
from tests.actions.test_device_claims import World, allocated, on_node
from tests.builders import Decided
from tests.examples import holds
from tests.model.devices import claim_of, device, request, slice_of

ON = config()


class ClaimWorld(World):
    """Nodes with devices, and gangs of which each pod has a claim to some of them."""

    named: frozenset[str] = frozenset()
    """Gangs of which each pod names a claim that was made for no pod."""

    def name_claims(self, *gangs: str) -> Self:
        """From now on these gangs name claims that were made for no pod."""
        self.named |= {*gangs}
        for gang in gangs:
            pods = self.members(gang) if gang in self._gangs else ()
            for pod in pods:
                for each in pod.device_claims:
                    self.device_claims[each.claim] = replace(self.device_claims[each.claim], owner="")
            members = [
                replace(pod, device_claims=tuple(replace(each, is_own=False) for each in pod.device_claims))
                for pod in pods
            ]
            self.change(gang, members=tuple(members))
        return self

    def with_devices(self, node: str, count: int, nics: int = 0) -> Self:
        self.nodes(node.split("-")[0], int(node.split("-")[1]) + 1)
        gpus = [device(f"{node}-x{index}", kind="gpu") for index in range(count)]
        self.device_slice(node, *gpus, *(device(f"{node}-n{index}", kind="nic") for index in range(nics)))
        return self

    def add(self, name: str, count: int, devices: int, *, on: Sequence[str] = (), **fields: Any) -> Self:
        """A gang; members on nodes have the first devices that are free there."""
        self.gang(name, count, on=list(on), **fields)
        return self.claim_again(name, devices).allocate(name, devices)

    def claim_again(self, name: str, devices: int, *expressions: str) -> Self:
        """Each member that waits or runs has a new claim, as the controller makes them."""
        self.claiming(name, request("r", *expressions, count=devices))
        return self.name_claims(name) if name in self.named else self

    def allocate(self, name: str, devices: int, kind: str = "x") -> Self:
        for pod in self.members(name):
            if pod.node is None:
                continue
            used = {
                each.device[2]
                for claim in self.device_claims.values()
                for each in (claim.allocation.devices if claim.allocation else ())
            }
            names = (f"{pod.node}-{kind}{index}" for index in range(9))
            free = [each for each in names if each not in used][:devices]
            results = [
                {"request": "r", "driver": "gpu.example.com", "pool": pod.node, "device": each}
                for each in free
            ]
            where = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pod.node]}]}
            status = {
                "allocation": {
                    "devices": {"results": results},
                    "nodeSelector": {"nodeSelectorTerms": [where]},
                },
                "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
            }
            known = self.device_claims[f"{pod.name}-gpu"]
            self.device_claims[known.name] = replace(
                claim_of(request(), status=status),
                namespace="team",
                name=known.name,
                uid=known.uid,
                spec=known.spec,
                owner=known.owner,
            )
        return self


def two_halves(*, second: int = 4, devices: int = 4, large: float = 1, **fields: Any) -> ClaimWorld:
    """Two nodes with devices, of each of which a gang has one; another gang needs `devices` of a node, and
    `large` cores."""
    world = ClaimWorld().with_devices("a-0", 4).with_devices("a-1", second)
    for index in range(2):
        world.add(f"half-{index}", 1, 1, on=[f"a-{index}"], **fields)
    world.gang("cheap", 1, cpu=0.1, on=["a-0"])
    return world.add("large", 1, devices, cpu=large)


def share(world: ClaimWorld, gang: str, node: str, name: str, *others: str) -> None:
    """The members of these gangs share a claim, which has this device."""
    pods = [pod for each in (gang, *others) for pod in world.members(each)]
    status = on_node(node, name) | {
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid} for pod in pods]
    }
    for each in (gang, *others):
        world.sharing(each, "shared", status=status)


def devices_of_moves(decided: Decided) -> dict[str, list[str]]:
    """What is held for each moved gang, and for the gang that waits."""
    memory = decided.result.memory
    held = [(gang, move.devices) for gang, move in memory.moves.items()]
    held += [(gang, nomination.devices) for gang, nomination in memory.nominations.items()]
    return {
        str(gang).removeprefix("gang-"): sorted(each[2] for some in devices.values() for each in some)
        for gang, devices in held
    }


@pytest.mark.parametrize("named", [(), ("half-0", "half-1", "large")])
def test_a_gang_is_moved_so_that_its_devices_are_free(named: tuple[str, ...]) -> None:
    """A cheaper gang has no devices. So the model must know which gangs have some."""
    decided = rested(two_halves(second=2).name_claims(*named)).decide(ON)
    assert not decided.result.stats.errors
    assert decided.evicted() == ["half-0-0"]
    (plan,) = decided.result.plans
    assert (plan.pods, plan.pods_bound, plan.cost_bound) == (1, 1, plan.cost)
    assert devices_of_moves(decided) == {
        "half-0": ["a-1-x1"],
        "large": ["a-0-x0", "a-0-x1", "a-0-x2", "a-0-x3"],
    }


def test_no_gang_is_moved_where_too_few_devices_are_free() -> None:
    assert not rested(two_halves(second=1)).decide(ON).evicted()


@pytest.mark.parametrize("kind", [GangKind.POD, GangKind.POD_GROUP])
def test_the_moved_gang_and_the_one_that_waited_get_the_devices_that_are_held(kind: GangKind) -> None:
    """The claim of the old pod keeps its device for two more cycles. Others may take none meanwhile."""
    world = two_halves(second=2, kind=kind)
    world.take(world.terminate(rested(world).decide(ON)).decide(ON))
    old = world.device_claims.pop("half-0-0-gpu")
    (name,) = (each for each in recreated(world)._gangs if each.startswith("half-0"))
    world.claim_again(name, 1)
    world.device_claims["old"] = replace(old, name="old", uid="uid-old")
    middle = world.add("late", 1, 1).decide(ON)
    assert allocated(middle, name) == [("a-1", "a-1-x1")]
    assert [*middle.placed()] == [name]
    world.take(middle).allocate(name, 1)
    middle = world.decide(ON)
    assert not middle.placed()
    del world.take(middle).device_claims["old"]
    world.capacity_version += 1
    last = world.decide(ON)
    assert len(allocated(last, "large")) == 4
    assert "late" not in last.placed()


@pytest.mark.parametrize("kind", [GangKind.POD, GangKind.POD_GROUP])
def test_a_moved_gang_that_names_its_claim_waits_until_the_old_pod_has_given_its_devices_back(
    kind: GangKind,
) -> None:
    """It would fit the old node, where the claim has devices until then."""
    world = two_halves(second=2, devices=3, cpu=0, kind=kind).name_claims("half-0", "half-1")
    world.add("more", 1, 1, cpu=0, on=["a-0"], priority=9)
    world.take(world.terminate(rested(world).decide(ON)).decide(ON))
    (name,) = (each for each in recreated(world)._gangs if each.startswith("half-0"))
    pod = world.members(name)[0]
    world.change(name, members=(replace(pod, device_claims=(PodClaim("gpu", "half-0-0-gpu"),)),))
    middle = world.decide(ON)
    assert name not in middle.placed()
    assert middle.verdict(name).reason is Reason.RESOURCE_CLAIM_NOT_READY
    claim = world.device_claims["half-0-0-gpu"]
    world.device_claims[claim.name] = replace(claim, allocation=None, reserved_for=())
    world.take(middle).capacity_version += 1
    last = world.decide(ON)
    [bind] = last.placements(name)[0].binds
    [grant] = bind.grants
    assert grant.allocation is not None
    assert (bind.node, [each.device[2] for each in grant.allocation.devices]) == ("a-1", ["a-1-x1"])
    assert len(allocated(last, "large")) == 3


def test_a_gang_whose_pods_share_a_claim_is_moved_with_it() -> None:
    """Both pods need the same device, and one node for it. It is held until they run again."""
    world = ClaimWorld().with_devices("a-0", 2).with_devices("a-1", 1)
    world.gang("pair", 2, on=["a-0", "a-0"], kind=GangKind.POD_GROUP)
    world.gang("cheap", 1, cpu=0.1, on=["a-0"])
    share(world, "pair", "a-0", "a-0-x0")
    world.add("large", 1, 2)
    decided = rested(world).decide(ON)
    assert sorted(decided.evicted()) == ["pair-0", "pair-1"]
    assert devices_of_moves(decided) == {"pair": ["a-1-x0"], "large": ["a-0-x0", "a-0-x1"]}


def test_what_is_held_for_a_shared_claim_is_for_the_moved_gang() -> None:
    """Another gang may not have the device meanwhile. The new pods wait until the old ones have given theirs
    back."""
    world = ClaimWorld().with_devices("a-0", 2).with_devices("a-1", 1)
    world.gang("pair", 2, on=["a-0", "a-0"], kind=GangKind.POD_GROUP)
    world.gang("cheap", 1, cpu=0.1, on=["a-0"])
    share(world, "pair", "a-0", "a-0-x0")
    world.add("large", 1, 2)
    recreated(world.take(world.terminate(rested(world).decide(ON)).decide(ON)))
    middle = world.add("late", 1, 1).decide(ON)
    assert not middle.placed()
    claim = world.device_claims["shared"]
    world.device_claims["shared"] = replace(claim, allocation=None, reserved_for=())
    world.take(middle).capacity_version += 1
    last = world.decide(ON)
    assert sorted(last.placed()) == ["large", "pair"]
    grants = [bind.grants for placement in last.placements("pair") for bind in placement.binds]
    found = [grant.allocation.devices for [grant] in grants if grant.allocation is not None]
    assert [[each.device[2] for each in some] for some in found] == [["a-1-x0"], ["a-1-x0"]]


@pytest.mark.parametrize("where", ["both", "a-0"])
def test_a_gang_that_shares_a_claim_with_others_is_moved_to_nodes_of_its_devices(where: str) -> None:
    world = ClaimWorld().with_devices("a-0", 2).with_devices("a-1", 1)
    world.gang("half", 1, cpu=40, on=["a-0"])
    world.gang("other", 1, on=["a-0"], priority=9)
    share(world, "half", "a-0", "a-0-x0", "other")
    if where == "both":
        claim = world.device_claims["shared"]
        assert claim.allocation is not None
        found = replace(claim.allocation, nodes=NodeChoice(all_nodes=True))
        world.device_claims["shared"] = replace(claim, allocation=found)
    world.gang("large", 1, cpu=60)
    world.gang("full", 1, cpu=10, on=["a-1"], priority=9)
    decided = rested(world).decide(ON)
    assert decided.evicted() == (["half-0"] if where == "both" else [])
    assert not any(devices_of_moves(decided).values())


def test_a_gang_is_moved_to_another_device_that_several_nodes_can_use() -> None:
    """The pair has the only link of the first node, and could use the other one where it runs."""
    world = ClaimWorld()
    for node in ("a-0", "a-1", "b-0"):
        world.nodes(node, 1, labels={"n": node})
    for name, nodes in (("x", ["b-0", "a-0"]), ("y", ["a-0", "a-1"])):
        own = {"key": "n", "operator": "In", "values": nodes}
        choice = {"nodeSelectorTerms": [{"matchExpressions": [own]}]}
        world.slices.append(slice_of(device(name), name=name, pool={"name": name}, nodeSelector=choice))
    world.gang("pair", 2, on=["a-0-0", "a-0-0"], kind=GangKind.POD_GROUP)
    share(world, "pair", "x", "x")
    claim = world.device_claims["shared"]
    assert claim.allocation is not None
    found = replace(claim.allocation, nodes=NodeChoice(all_nodes=True))
    world.device_claims["shared"] = replace(claim, allocation=found)
    world.gang("cheap", 1, cpu=0.1, on=["a-0-0"])
    world.gang("large", 1, selector={"n": "b-0"})
    world.claim_again("large", 1)
    decided = rested(world).decide(ON)
    assert sorted(decided.evicted()) == ["pair-0", "pair-1"]
    assert devices_of_moves(decided) == {"pair": ["y"], "large": ["x"]}


def test_a_gang_is_not_moved_while_another_one_waits_with_its_claim() -> None:
    """It could get the devices on another node as soon as they are given back."""
    world = two_halves(second=2).name_claims("half-0", "half-1")
    world.gang("late", 1, cpu=64)
    [pod] = world.members("late")
    world.change("late", members=(replace(pod, device_claims=(PodClaim("gpu", "half-0-0-gpu"),)),))
    assert not rested(world).decide(ON).evicted()


def test_gangs_that_share_a_claim_are_not_moved() -> None:
    world = two_halves()
    for index in range(2):
        world.sharing(f"half-{index}", "shared")
    assert not rested(world).decide(ON).evicted()


def test_a_gang_is_not_moved_while_its_claim_is_reserved_for_another_pod_too() -> None:
    world = two_halves(devices=0, large=60, cpu=30)
    assert rested(world).decide(ON).evicted()
    for index in range(2):
        claim = world.device_claims[f"half-{index}-0-gpu"]
        world.device_claims[claim.name] = replace(claim, reserved_for=(*claim.reserved_for, "other"))
    assert not rested(world).decide(ON).evicted()


class Group(Struct, frozen=True):
    """A gang; each pod has a claim to so many devices. Without nodes it waits."""

    name: str
    count: int
    devices: int
    nic: bool
    """Whether its claims ask for network devices."""
    named: bool = False
    """Whether its pods name claims that were made for no pod."""


NODES = {"a-0": (3, 1), "a-1": (3, 2), "a-2": (2, 1)}
"""For each node, how many devices of both kinds it has."""


def is_right(groups: Sequence[Group], places: Places) -> bool:
    """Whether each node has enough devices of each kind."""
    used: Counter[tuple[str, bool]] = Counter()
    for group in groups:
        for node in places.get(group.name, ()):
            used[node, group.nic] += group.devices
    return all(used[node, nic] <= NODES[node][nic] for node, nic in product(NODES, (False, True)))


def fewest_moved(groups: Sequence[Group], places: Places) -> int | None:
    """The fewest pods of running gangs to move so that all gangs fit; None if it is impossible."""
    return fewest_pods(
        list(places),
        places,
        lambda rest, _moved: any(placements(groups, rest, list(NODES), is_right)),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Group], Places]:
    """Up to five running gangs of one or two pods, and one that waits."""
    groups: list[Group] = []
    places: Places = {}
    for index in range(draw(st.integers(3, 5))):
        nodes = tuple(draw(st.lists(st.sampled_from(sorted(NODES)), min_size=1, max_size=2)))
        group = Group(
            f"g{index}",
            len(nodes),
            draw(st.sampled_from((1, 1, 2))),
            draw(st.booleans()),
            draw(st.booleans()),
        )
        if is_right([*groups, group], {**places, group.name: nodes}):
            groups.append(group)
            places[group.name] = nodes
    nic = draw(st.sampled_from((False, False, True)))
    return [*groups, Group("large", 1, draw(st.sampled_from((2,) if nic else (3, 2))), nic)], places


@given(cases())
@holds(10)
def test_the_fewest_gangs_with_claims_are_moved(case: tuple[list[Group], Places]) -> None:
    """A plan is found if there is one, moves the fewest pods, and holds devices that nobody uses."""
    groups, places = case
    world = ClaimWorld()
    for node, (gpus, nics) in NODES.items():
        world.with_devices(node, gpus, nics)
    for group in groups:
        kind, on = 'kind == "nic"' if group.nic else 'kind == "gpu"', places.get(group.name, ())
        world.gang(group.name, group.count, on=list(on), kind=GangKind.POD_GROUP)
        if group.named:
            world.name_claims(group.name)
        world.claim_again(group.name, group.devices, f'device.attributes["gpu.example.com"].{kind}')
        world.allocate(group.name, group.devices, "n" if group.nic else "x")
    fewest, decided = fewest_moved(groups, places), rested(world).decide(ON)
    assert not decided.result.stats.errors
    assert ("large" in decided.placed()) == (fewest == 0)
    plans = decided.result.plans
    assert [plan.pods for plan in plans] == ([fewest] if fewest else [])
    held = devices_of_moves(decided)
    moved = [move.group.removeprefix("team/") for plan in plans for move in plan.moves]
    stays = [
        each.device[2]
        for claim in world.device_claims.values()
        if claim.allocation is not None and claim.name.rsplit("-", 2)[0] not in moved
        for each in claim.allocation.devices
    ]
    names = [each for some in held.values() for each in some] + stays
    assert len(names) == len({*names})
    sizes = {group.name: group.count * group.devices for group in groups}
    assert {name: len(some) for name, some in held.items()} == {
        name: sizes[name] for name in (*moved, *(["large"] if plans else []))
    }
