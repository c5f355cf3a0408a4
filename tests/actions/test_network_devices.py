"""Claims of single pods with devices that several nodes can use: each device is given once."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.pods import PodClaim
from phalanx.model.reasons import Reason
from phalanx.model.supplies.devices.claims import Allocation

from tests.actions.test_device_claims import World
from tests.actions.test_shared_beside_own import GPU, cluster
from tests.builders import Decided
from tests.examples import holds
from tests.model.devices import claim_of, request

NIC = "nic"
ANY = "any"

Wanted = tuple[tuple[str, int], ...]
"""The requests of a pod, each in a claim of its own: of local devices, of the network, or of either."""


def _request(kind: str, count: int) -> dict[str, Any]:
    if kind == NIC:
        return request(device_class="nic", count=count)
    return request("r", *([GPU] if kind == "gpu" else []), count=count)


def asking(world: World, members: Sequence[Wanted], *, gang: str = "g", **more: Any) -> World:
    """A gang of these members."""
    world.gang(gang, len(members), **more)
    pods = []
    for pod, wanted in zip(world.members(gang), members, strict=True):
        entries = []
        for number, (kind, count) in enumerate(wanted):
            name = f"{pod.name}-{number}"
            claim = replace(claim_of(_request(kind, count)), namespace="team", name=name, uid=f"uid-{name}")
            world.device_claims[name] = replace(claim, owner=pod.uid)
            entries.append(PodClaim(name, name, is_own=True))
        pods.append(replace(pod, device_claims=tuple(entries)))
    world.change(gang, members=tuple(pods))
    return world


def allocations(decided: Decided, gang: str = "g") -> list[tuple[int, Allocation]]:
    """The number of its node and the allocation of each claim."""
    return [
        (int(bind.node.removesuffix("-0")[1:]), grant.allocation)
        for placement in decided.placements(gang)
        for bind in placement.binds
        for grant in bind.grants
        if grant.allocation is not None
    ]


def check(decided: Decided, links: Sequence[Sequence[int]], members: Sequence[Wanted]) -> bool:
    """Whether the gang is placed. Nothing is given twice, or to a node that cannot use it."""
    found = allocations(decided)
    devices = [each.device for _, one in found for each in one.devices]
    assert len(devices) == len(set(devices))
    for node, one in found:
        for each in one.devices:
            pool = each.device[1]
            assert node in links[int(pool[1:])] if pool.startswith("l") else pool == f"n{node}-0"
    if found:
        assert len(devices) == sum(count for wanted in members for _, count in wanted)
    return bool(found)


def exists(gpus: Sequence[int], links: Sequence[Sequence[int]], members: Sequence[Wanted]) -> bool:
    """Whether devices can be given to all members on some nodes, by trial."""
    units = [
        (index, kind) for index, some in enumerate(members) for kind, count in some for _ in range(count)
    ]
    local = [node for node, count in enumerate(gpus) for _ in range(count)]

    def usable(kind: str, node: int) -> list[int]:
        own = [number for number, owner in enumerate(local) if owner == node and kind != NIC]
        reached = [number for number, nodes in enumerate(links) if node in nodes and kind != "gpu"]
        return own + [len(local) + number for number in reached]

    def matched(where: Sequence[int]) -> bool:
        owner: dict[int, int] = {}

        def give(unit: int, tried: set[int]) -> bool:
            index, kind = units[unit]
            for device in usable(kind, where[index]):
                if device not in tried:
                    tried.add(device)
                    if device not in owner or give(owner[device], tried):
                        owner[device] = unit
                        return True
            return False

        return all(give(unit, set()) for unit in range(len(units)))

    return any(matched(where) for where in itertools.product(range(len(gpus)), repeat=len(members)))


def test_a_pool_of_all_nodes_serves_as_many_pods_as_it_has_devices() -> None:
    links = [[0, 1, 2]] * 3
    pods: list[Wanted] = [((NIC, 1),)] * 3
    assert check(asking(cluster([0, 0, 0], links), pods).decide(), links, pods)
    decided = asking(cluster([0, 0, 0], links), [*pods, ((NIC, 1),)]).decide()
    assert not decided.placements("g")
    verdict = decided.verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert verdict.message.startswith("3 of 4 pods fit the empty cluster")
    assert "devices for the claims of 4 pods" in verdict.message


def test_gangs_of_a_cycle_and_claims_that_are_allocated_leave_the_rest() -> None:
    world = cluster([0, 0], [[0, 1]] * 3)
    asking(world, [((NIC, 1),)] * 2)
    asking(world, [((NIC, 1),)] * 2, gang="h")
    decided = world.decide()
    assert len(allocations(decided)) == 2
    verdict = decided.verdict("h")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message == "1 of 2 pods fit now; devices are free for the claims of 1 of 2 pods"


def test_devices_of_a_node_and_of_the_network_in_one_claim_leave_the_node() -> None:
    world = cluster([1, 1], [[0, 1], [0, 1]])
    asking(world, [(("gpu", 1),)] * 2)
    for pod in world.members("g"):
        name = f"{pod.name}-0"
        spec = claim_of(request("gpu", GPU), request(NIC, device_class="nic")).spec
        world.device_claims[name] = replace(world.device_claims[name], spec=spec)
    found = allocations(world.decide())
    assert sorted((node, one.nodes.node) for node, one in found) == [(0, "n0-0"), (1, "n1-0")]
    assert len({each.device for _, one in found for each in one.devices}) == 4


def test_a_claim_of_the_network_alone_can_be_used_from_its_nodes() -> None:
    world = asking(cluster([0, 0, 0], [[0, 1]]), [((NIC, 1),)])
    ((_, allocation),) = allocations(world.decide())
    nodes = world.snapshot().nodes.items()
    assert {str(name) for name, state in nodes if allocation.nodes.allows(state.node)} == {"n0-0", "n1-0"}


def test_a_pod_leaves_the_device_of_the_network_that_another_node_needs() -> None:
    """The first one in order can be used from both nodes, the second one from one of them."""
    links: list[list[int]] = [[0, 1], [0]]
    pods: list[Wanted] = [((NIC, 1),)] * 2
    assert check(asking(cluster([0, 0], links, cpu=1), pods).decide(), links, pods)


def test_the_devices_of_a_domain_bound_the_pods_of_a_gang_there() -> None:
    """All pods in one zone: only the second one has enough devices."""
    links = [[0, 1], [2, 3], [2, 3], [2, 3]]
    pods: list[Wanted] = [((NIC, 1),)] * 3
    assert check(in_zones(links, pods).decide(), links, pods)
    verdict = in_zones(links[:3], pods).decide().verdict("g")
    assert verdict.message.startswith("2 of 3 pods fit the empty cluster")
    assert verdict.next_step == "Prefer zone instead of requiring it, or lower minMember to 2"


def in_zones(links: Sequence[Sequence[int]], pods: Sequence[Wanted]) -> World:
    """Two zones of two nodes, and a gang that requires one of them."""
    world = World("zone")
    for number in range(4):
        world.nodes(f"n{number}", 1, labels={"n": str(number)}, within=f"z{number // 2}")
    world.slices = cluster([0] * 4, links).slices
    return asking(world, pods, required="zone")


def test_a_gang_whose_devices_do_not_suffice_together_is_named() -> None:
    """Each node has a device for its pod, and all nodes have enough, but two of them have one together."""
    world = cluster([0, 0, 9], [[0, 1, 2]], cpu=1)
    world.nodes("n2", 1, labels={"n": "2"}, cordoned=True)
    verdict = asking(world, [((ANY, 1),), ((ANY, 1),)]).decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message == (
        "devices that several nodes can use do not suffice together for the claims of its pods"
    )


@pytest.mark.parametrize(
    ("gpus", "links", "members"),
    [
        ([0, 2, 0], [[1], [1, 2]], [((ANY, 1),), ((ANY, 1), (NIC, 2))]),
        ([1, 2, 0], [[0, 1], [0, 2], [0, 1, 2]], [((NIC, 2),), ((NIC, 1),), ((ANY, 2),)]),
        ([0, 2, 0], [[1, 2], [1, 2]], [((ANY, 2),), ((ANY, 1), (NIC, 1))]),
    ],
)
def test_nodes_whose_devices_do_not_suffice_are_left_out_one_after_the_other(
    gpus: list[int], links: list[list[int]], members: list[Wanted]
) -> None:
    """The first placement that the counts allow cannot be made."""
    decided = asking(cluster(gpus, links), members).decide()
    assert check(decided, links, members)
    for placement in decided.result.placements:
        assert placement.certificate is not None
        assert placement.certificate.bound <= placement.certificate.objective


REQUESTS = st.tuples(st.sampled_from([ANY, NIC, "gpu"]), st.integers(1, 2))
DISJOINT = st.sampled_from([[], [[0, 1, 2]], [[0, 1, 2]] * 2, [[0], [1, 2]], [[0, 1], [0, 1], [2]]])


@holds(8)
@given(
    st.lists(st.integers(0, 2), min_size=3, max_size=3),
    DISJOINT,
    st.lists(
        st.sampled_from([((NIC, 1),), ((NIC, 2),), (("gpu", 1), (NIC, 1)), (("gpu", 2),), (("gpu", 1),)]),
        min_size=1,
        max_size=4,
    ),
)
def test_a_gang_is_placed_exactly_if_the_devices_suffice(
    gpus: list[int], links: list[list[int]], members: list[Wanted]
) -> None:
    decided = asking(cluster(gpus, links), members).decide()
    assert check(decided, links, members) is exists(gpus, links, members)


@holds(8)
@given(
    st.lists(st.integers(0, 2), min_size=3, max_size=3),
    st.lists(st.sets(st.integers(0, 2), min_size=1).map(sorted), max_size=3),
    st.lists(st.lists(REQUESTS, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3),
)
def test_nothing_is_given_twice_whatever_nodes_can_use_it(
    gpus: list[int], links: list[list[int]], members: list[Wanted]
) -> None:
    decided = asking(cluster(gpus, links), members).decide()
    if check(decided, links, members):
        assert exists(gpus, links, members)


@pytest.mark.parametrize("count", [1, 2])
def test_a_gang_is_evicted_for_devices_of_the_network(count: int) -> None:
    world = cluster([0, 0], [[0, 1]])
    asking(world, [((NIC, 1),)], on=["n0-0"])
    ((pod),) = world.members("g")
    result = {"request": "r", "driver": "nic", "pool": "l0", "device": "link"}
    status = {"allocation": {"devices": {"results": [result]}}}
    used = claim_of(request(device_class="nic"), status=status).allocation
    name = f"{pod.name}-0"
    world.device_claims[name] = replace(world.device_claims[name], allocation=used, reserved_for=(pod.uid,))
    asking(world, [((NIC, 1),)] * count, gang="high", priority=9)
    assert bool(world.decide().result.evictions) is (count == 1)
