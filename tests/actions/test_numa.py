"""NUMA zones in whole cycles: no kubelet rejects a placed pod, and pods that fit together are placed."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU, MEMORY, Resources, add, fits, scale, subtract
from phalanx.model.supplies.numa.zones import as_running_resource, numa_request, zone_capacity

from tests.builders import GI, Decided, Scenario, aligned, numa
from tests.examples import holds

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")
HALF: Resources = {CPU: 32000, GPU: 4}
FOUR: Resources = {CPU: 16000, GPU: 4}


def halves(count: int = 1, **fields: object) -> Scenario:
    """Nodes of eight devices and 64 cores in two zones."""
    return Scenario().nodes("a", count, gpu=8, cpu=64, numa=numa(HALF, HALF), **fields)  # type: ignore[arg-type]


def test_a_gang_gets_one_pod_in_each_zone() -> None:
    decided = halves(2).gang("g", 4, gpu=4, cpu=16, containers=[FOUR]).decide()
    assert decided.nodes("g") == ["a-0", "a-0", "a-1", "a-1"]


def test_free_devices_in_several_zones_do_not_fit_one_pod() -> None:
    """Two pods of three devices leave one device in each zone."""
    three: Resources = {CPU: 1000, GPU: 3}
    scenario = halves().gang("g", 2, gpu=3, containers=[three]).gang("h", 1, gpu=2, containers=[{GPU: 2}])
    decided = scenario.decide()
    assert decided.placed() == ["g"]
    verdict = decided.verdict("h")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert "free capacity is fragmented across NUMA zones" in verdict.message
    assert verdict.evidence[-1].finding == "no NUMA zone with 2 nvidia.com/gpu free"
    assert verdict.next_step == "Wait until gang team/g ends"


def test_a_pod_larger_than_every_zone_has_no_eligible_node() -> None:
    wide: Resources = {CPU: 40000, GPU: 4, MEMORY: GI}
    verdict = halves(3).gang("g", 1, gpu=4, cpu=40, containers=[wide]).decide().verdict("g")
    assert verdict.reason is Reason.NO_ELIGIBLE_NODE
    assert verdict.message == (
        "0 of 3 nodes are eligible: 3 have no NUMA zone with 4 nvidia.com/gpu and 40 cpu together"
    )


def test_a_gang_larger_than_all_zones_is_reported() -> None:
    verdict = halves().gang("g", 3, gpu=2, cpu=20, containers=[{CPU: 20000, GPU: 2}]).decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert "2 of 3 pods fit" in verdict.message


def test_pods_without_aligned_resources_need_no_zone() -> None:
    assert halves().gang("g", 1, gpu=8, cpu=60).decide().where("g") == {"a": 1}


def test_nodes_without_zones_accept_aligned_pods() -> None:
    scenario = halves().nodes("b", gpu=8).gang("g", 1, gpu=8, containers=[{GPU: 8}])
    assert scenario.decide().where("g") == {"b": 1}


def test_a_small_role_may_fragment_either_zone() -> None:
    """The kubelet may give either zone to the small pod before the large ones arrive."""
    small: Resources = {CPU: 1000, GPU: 1}
    fits_beside = halves(2).gang("g", 3, min=4, gpu=4, cpu=16, containers=[FOUR])
    assert fits_beside.role("g", 1, gpu=1, containers=[small]).decide().placed() == ["g"]
    too_many = halves(2).gang("g", 4, min=5, gpu=3, containers=[{CPU: 1000, GPU: 3}])
    assert too_many.role("g", 1, gpu=1, containers=[small]).decide().placed() == []


def test_the_next_cycle_counts_placed_pods_in_every_possible_zone() -> None:
    """The zones of two small pods are unknown: no zone is certainly empty, but six devices are free."""
    scenario = halves().gang("g", 2, gpu=1, containers=[{GPU: 1}])
    scenario.take(scenario.decide())
    scenario.gang("h", 1, gpu=4, containers=[{GPU: 4}]).gang("i", 6, gpu=1, containers=[{GPU: 1}])
    assert scenario.decide().placed() == ["i"]


def test_containers_are_aligned_one_by_one_with_container_scope() -> None:
    pair: Sequence[Resources] = [{GPU: 4}, {GPU: 4}]
    by_pod, by_container = (numa(HALF, HALF, by_container=each) for each in (False, True))
    scenario = Scenario().nodes("a", gpu=8, numa=by_pod).nodes("b", gpu=8, numa=by_container)
    assert scenario.gang("g", 1, gpu=8, containers=pair).decide().where("g") == {"b": 1}


def test_a_statement_refuses_pods_that_a_kubelet_may_reject() -> None:
    scenario = halves().gang("g", 3, gpu=2, containers=[{CPU: 20000, GPU: 2}])
    session = Session(scenario.snapshot(), SchedulerConfig())
    (gang,) = session.gangs.values()
    with pytest.raises(DoesNotFit, match="NUMA zones of node a-0"), session.statement() as statement:
        statement.place(
            gang=gang, assignments=[(NodeName("a-0"), gang.members)], cause="start", certificate=PROOF
        )


# --- a kubelet ----------------------------------------------------------------------------------------------


class Kubelet:
    """The kubelet of one node: each container, or pod, gets the first zone that fits, as in the real one."""

    def __init__(self, zones: Sequence[Resources], *, by_container: bool) -> None:
        self.zones = list(zones)
        self.by_container = by_container

    def admit(self, name: str) -> bool:
        needs = numa_request(name)
        wanted = [size for size, count in needs.containers for _ in range(count)]
        for size in map(dict, wanted if self.by_container else [needs.pod]):
            index = next((i for i, zone in enumerate(self.zones) if fits(size, zone)), None)
            if index is None:
                return False
            self.zones[index] = subtract(self.zones[index], size)
        return True


def play(scenario: Scenario, decided: Decided, kubelets: dict[str, Kubelet], order: list[int]) -> None:
    """Let the kubelets admit the bound pods in this order."""
    names = {pod.uid: pod.shape.numa for gang in scenario.snapshot().gangs.values() for pod in gang.members}
    binds = list(decided.binds.items())
    for place in sorted(range(len(binds)), key=lambda place: order[place % len(order)]):
        uid, node = binds[place]
        assert kubelets[node].admit(names[uid]), f"{uid} is rejected by {node}"


zone_sizes = st.tuples(st.integers(0, 8), st.integers(0, 4))
pods = st.tuples(st.integers(0, 4), st.integers(0, 3)).filter(any)
gangs = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.lists(pods, min_size=1, max_size=2), min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)


def resources(size: tuple[int, int]) -> Resources:
    return {
        name: amount for name, amount in zip((CPU, GPU), (size[0] * 1000, size[1]), strict=True) if amount
    }


@holds(10)
@given(
    st.lists(st.tuples(st.lists(zone_sizes, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=3),
    gangs,
    gangs,
    st.lists(st.integers(0, 99), min_size=1, max_size=12),
)
def test_no_kubelet_rejects_a_placed_pod(
    nodes: list[tuple[list[tuple[int, int]], bool]],
    first: list[tuple[int, list[list[tuple[int, int]]]]],
    second: list[tuple[int, list[list[tuple[int, int]]]]],
    order: list[int],
) -> None:
    """Several gangs of one or two roles in two cycles; pods arrive in any order."""
    scenario, kubelets = Scenario(), {}
    for index, (zones, by_container) in enumerate(nodes):
        offered = [{CPU: cpu * 1000, GPU: gpu} for cpu, gpu in zones]
        zoned = numa(*offered, by_container=by_container)
        cpu, gpu = (sum(column) for column in zip(*zones, strict=True))
        scenario.nodes(f"n{index}", gpu=gpu, cpu=cpu, numa=zoned)
        kubelets[f"n{index}-0"] = Kubelet(offered, by_container=by_container)
    for cycle, wanted in enumerate((first, second)):
        for number, (count, roles) in enumerate(wanted):
            name = f"g{cycle}{number}"
            for role, containers in enumerate(roles):
                whole = [sum(column) for column in zip(*containers, strict=True)]
                fields = {
                    "cpu": whole[0],
                    "gpu": whole[1],
                    "memory": 0,
                    "containers": [*map(resources, containers)],
                }
                if role == 0:
                    scenario.gang(name, count, **fields)
                else:
                    scenario.role(name, 1, **fields)
                    scenario.change(name, min_member=count + 1)
        decided = scenario.decide()
        play(scenario, decided, kubelets, order)
        scenario.take(decided)


@holds(45)
@given(st.lists(zone_sizes, min_size=1, max_size=3), pods, st.integers(1, 12))
def test_exactly_as_many_equal_pods_as_fit_the_zones_are_placed(
    zones: list[tuple[int, int]], pod: tuple[int, int], count: int
) -> None:
    offered = [{CPU: cpu * 1000, GPU: gpu} for cpu, gpu in zones]
    cpu, gpu = (sum(column) for column in zip(*zones, strict=True))
    scenario = Scenario().nodes("a", gpu=gpu, cpu=cpu, numa=numa(*offered))
    scenario.gang("g", count, min=1, cpu=pod[0], gpu=pod[1], memory=0, containers=[resources(pod)])
    holds = sum(min(have // need for have, need in zip(zone, pod, strict=True) if need) for zone in zones)
    assert len(scenario.decide().nodes("g")) == min(count, holds)


lists_of_zones = st.lists(zone_sizes, min_size=1, max_size=3)
kinds_of_pods = st.lists(pods, min_size=1, max_size=2)


@holds(45)
@given(
    st.lists(lists_of_zones, min_size=1, max_size=2),
    st.lists(kinds_of_pods, min_size=1, max_size=3),
    st.lists(st.tuples(kinds_of_pods, st.booleans()), max_size=3),
    st.booleans(),
)
def test_the_linear_projection_never_exceeds_what_a_statement_accepts(
    zones: list[list[tuple[int, int]]],
    wanted: list[list[tuple[int, int]]],
    held: list[tuple[list[tuple[int, int]], bool]],
    by_container: bool,
) -> None:
    """The capacity that the solver sees, against the check of its answer; the second node has other zones."""
    scenario = Scenario()
    for index, offered in enumerate(zones):
        zoned = numa(*[{CPU: cpu * 1000, GPU: gpu} for cpu, gpu in offered], by_container=by_container)
        scenario.nodes(f"n{index}", numa=zoned)
    for index, containers in enumerate(wanted):
        scenario.gang(f"g{index}", 1, containers=[*map(resources, containers)])
    session = Session(scenario.snapshot(), SchedulerConfig())
    members = [gang.members[0] for gang in session.gangs.values()]
    shapes = [pod.shape for pod in members]
    (zones,) = session.facts.needed_supplies(shapes)
    projection = zones.project(shapes)
    free: dict[str, int] = {}
    for containers, runs in held:
        name = aligned(*map(resources, containers))
        name = as_running_resource(name) if runs else name
        free[name] = free.get(name, 0) - 1
    state = session.nodes[NodeName("n0-0")]
    offers, capacity = projection.free(state, free), zone_capacity(state.node, free)
    for counts in product(range(3), repeat=len(members)):
        asked: Resources = {}
        added: Counter[str] = Counter()
        for pod, count in zip(members, counts, strict=True):
            asked = add(asked, scale(projection.request(pod, {}), count))
            added[pod.shape.numa] += count
        if fits(asked, offers):
            assert capacity is not None
            assert capacity.fits({kind: count for kind, count in added.items() if count}), added
