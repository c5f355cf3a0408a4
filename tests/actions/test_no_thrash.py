"""Bugs of other schedulers, by issue number: useless evictions and endless cycles of evictions.

Each test runs several cycles: bound pods run, evicted pods are recreated at once.
"""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.names import NodeName, QueueName
from phalanx.model.resources import GPU
from phalanx.model.snapshot import Snapshot

from tests.builders import Decided, Scenario
from tests.examples import holds

RESTARTS = 8
"""An endless cycle of evictions shows after two or three."""


def run(scenario: Scenario, cycles: int = 12) -> list[Decided]:
    """Run this number of cycles, one a minute."""
    decisions = []
    for _ in range(cycles):
        decided = scenario.decide()
        decisions.append(decided)
        scenario.take(decided)
        scenario.capacity_version += bool(decided.evicted())
        scenario.now += 60_000
    return decisions


def evictions(decisions: list[Decided]) -> list[str]:
    return [name for decided in decisions for name in decided.evicted()]


def test_volcano_377_evictions_stop_at_the_fair_share() -> None:
    scenario = Scenario().queue("a").queue("b").nodes("n", 3, gpu=4)
    for index in range(12):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a", on=[f"n-{index // 4}"])
    for index in range(12):
        scenario.gang(f"b{index}", 1, gpu=1, queue="b")
    decisions = run(scenario)
    assert len(evictions(decisions)) == 6
    assert evictions(decisions[4:]) == []
    assert used(scenario.snapshot(), "a") == used(scenario.snapshot(), "b") == 6


def test_volcano_5022_no_pod_is_evicted_when_the_gang_would_not_fit() -> None:
    """One node can be freed, but the gang needs two."""
    scenario = Scenario().nodes("n", 2, gpu=8)
    scenario.gang("low-0", 1, gpu=8, on=["n-0"]).gang("keeps", 1, gpu=8, on=["n-1"], priority=9)
    assert evictions(run(scenario.gang("high", 2, gpu=8, priority=5))) == []


def test_volcano_5067_only_victims_on_the_nodes_of_the_placement_are_evicted() -> None:
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="a").nodes("b", 2, gpu=8, within="b")
    for node in ("a-0", "a-1", "b-0"):
        scenario.gang(f"low-{node}", 1, gpu=8, on=[node])
    decisions = run(scenario.gang("high", 2, gpu=8, priority=5, required="rack"))
    assert evictions(decisions) == ["low-b-0-0"]
    assert decisions[1].where("high") == {"b": 2}


def test_kai_1719_a_discarded_plan_has_no_effect() -> None:
    """No victims help the first gang; the second one may use the same candidates."""
    scenario = Scenario("rack").nodes("a", 1, gpu=8, within="a").nodes("b", 1, gpu=8, within="b")
    scenario.gang("low-0", 1, gpu=8, on=["a-0"]).gang("low-1", 1, gpu=8, on=["b-0"])
    scenario.gang("wide", 2, gpu=8, priority=9, required="rack").gang("small", 1, gpu=8, priority=5)
    decisions = run(scenario)
    assert len(evictions(decisions)) == 1
    assert decisions[1].placed() == ["small"]


def test_kueue_3779_two_queues_do_not_evict_each_other_alternately() -> None:
    """With gangs of this size, one queue is above its share and the other one below it."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 1, gpu=8)
    scenario.gang("a0", 1, gpu=5, queue="a", on=["n-0"]).gang("b0", 1, gpu=5, queue="b")
    assert evictions(run(scenario)) == []


def test_kueue_6947_preemption_and_reclaim_do_not_undo_each_other() -> None:
    scenario = Scenario().queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: 4}).nodes("n", 1, gpu=8)
    scenario.gang("a-low", 1, gpu=4, queue="a", on=["n-0"]).gang(
        "a-mid", 1, gpu=4, queue="a", on=["n-0"], priority=5
    )
    scenario.gang("a-high", 1, gpu=4, queue="a", priority=9).gang("b0", 1, gpu=4, queue="b")
    decisions = run(scenario)
    assert sorted(evictions(decisions)) == ["a-low-0", "a-mid-0"]


def test_kueue_13662_an_evicted_gang_does_not_evict_its_beneficiary() -> None:
    scenario = Scenario().queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: 4}).nodes("n", 2, gpu=4)
    scenario.gang("a0", 2, gpu=4, min=1, queue="a", on=["n-0", "n-1"]).gang("b0", 1, gpu=4, queue="b")
    assert evictions(run(scenario)) == ["a0-1"]


def test_kueue_14682_two_preemptors_evict_different_gangs() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8)
    for index in range(4):
        scenario.gang(f"low-{index}", 1, gpu=8, on=[f"n-{index}"])
    for index in range(2):
        scenario.gang(f"high-{index}", 1, gpu=8, priority=5)
    decisions = run(scenario)
    assert len(evictions(decisions)) == 2
    assert sorted(decisions[1].placed()) == ["high-0", "high-1"]


def test_volcano_5984_one_pod_is_evicted_where_one_is_enough() -> None:
    """The gang has ten members and needs two: it must not lose all ten."""
    scenario = Scenario().nodes("n", 1, gpu=10)
    scenario.gang("low", 10, min=2, gpu=1, on=["n-0"] * 10).gang("high", 1, gpu=1, priority=5)
    decisions = run(scenario)
    assert len(evictions(decisions)) == 1
    assert decisions[1].placed() == ["high"]


@pytest.mark.parametrize("priorities", [(0, 0, 0, 0), (0, 1, 2, 3), (0, 0, 4, 6)])
def test_meta_a_job_that_restarts_repeatedly_preempts_only_once(priorities: tuple[int, ...]) -> None:
    """At Meta, 35 restarts of one job led to 548 preemptions, including those by its victims."""
    scenario = Scenario().nodes("n", 4, gpu=8)
    for index, priority in enumerate(priorities):
        scenario.gang(f"g-{index}", 1, gpu=8, priority=priority, on=[f"n-{index}"])
    scenario.gang("waits", 1, gpu=8, priority=2).gang("high", 2, gpu=8, priority=5)
    decisions = run(scenario, 6)
    first = evictions(decisions)
    assert {each.beneficiary for decided in decisions for each in decided.result.evictions} >= {"team/high"}
    for _ in range(RESTARTS):
        scenario.lose("high", 2)
        assert evictions(run(scenario, 2)) == []
    assert len(first) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("priorities", [(0, 0, 0, 0), (0, 1, 2, 3), (4, 4, 4, 4)])
def test_meta_a_job_whose_node_fails_each_time_evicts_one_each_time(priorities: tuple[int, ...]) -> None:
    """A full cluster loses one node, which comes back later: only the capacity of one node must be freed."""
    scenario = Scenario().nodes("n", 4, gpu=8)
    for index, priority in enumerate(priorities):
        scenario.gang(f"g-{index}", 1, gpu=8, priority=priority, on=[f"n-{index}"])
    run(scenario.gang("waits", 1, gpu=8, priority=2).gang("high", 2, gpu=8, priority=5), 6)
    for _ in range(RESTARTS):
        lost = scenario.members("high")[0].node
        assert lost is not None
        _set_ready(scenario, lost, "Unknown")
        scenario.lose("high", 2)
        assert len(evictions(run(scenario, 4))) == 1
        _set_ready(scenario, lost, "True")
        assert evictions(run(scenario, 4)) == []


def _set_ready(scenario: Scenario, node: NodeName, ready: str) -> None:
    scenario._nodes[node] = replace(scenario._nodes[node], conditions={"Ready": ready})
    scenario.capacity_version += 1


@st.composite
def contended(draw: st.DrawFn) -> Scenario:
    """Up to three queues, with and without guarantees, whose gangs request more than exists; some run."""
    nodes = draw(st.integers(1, 3))
    scenario = Scenario().nodes("n", nodes, gpu=4)
    queues = ["a", "b", "c"][: draw(st.integers(2, 3))]
    for name in queues:
        guarantee = draw(st.integers(0, nodes))
        weight = draw(st.integers(1, 3))
        scenario.queue(name, weight=weight, guarantee={GPU: guarantee} if guarantee else {})
        note(f"queue {name}: weight {weight}, guarantee {guarantee}, {nodes} nodes of 4 GPUs")
    free = {f"n-{index}": 4 for index in range(nodes)}
    for index in range(draw(st.integers(2, 9))):
        gpus = draw(st.integers(1, 4))
        node = next((name for name, left in free.items() if left >= gpus), None)
        on = [node] if node is not None and draw(st.booleans()) else []
        for name in on:
            free[name] -= gpus
        queue, priority = draw(st.sampled_from(queues)), draw(st.integers(0, 2))
        scenario.gang(f"g{index}", 1, gpu=gpus, queue=queue, priority=priority, on=on)
        note(f"g{index}: {gpus} GPUs, queue {queue}, priority {priority}, on {on}")
    return scenario


@given(contended())
@holds(15)
def test_evictions_end_and_every_demanded_guarantee_is_kept(scenario: Scenario) -> None:
    """In the end no queue has lost a part of its guarantee that a waiting gang would need."""
    before = {name: used(scenario.snapshot(), name) for name in queues_of(scenario)}
    decisions = run(scenario, 20)
    assert evictions(decisions[12:]) == []
    snapshot = scenario.snapshot()
    for gang in snapshot.gangs.values():
        queue = snapshot.queues[gang.queue]
        guarantee, holds = queue.guarantee.get(GPU, 0), used(snapshot, queue.name)
        is_covered = holds + gang.members[0].shape.requests[GPU] <= guarantee
        if is_covered and gang.members[0].node is None:
            assert holds >= min(guarantee, before[queue.name], wanted(snapshot, queue.name))


@given(contended())
@holds(15)
def test_a_gang_within_the_guarantee_waits_only_where_no_victims_would_help(scenario: Scenario) -> None:
    """All gangs are single pods: try all allowed victims of one node after the other."""
    run(scenario, 20)
    snapshot = scenario.snapshot()
    for gang in snapshot.gangs.values():
        waits = all(pod.node is None for pod in gang.members)
        asked = gang.members[0].shape.requests[GPU]
        guarantee = snapshot.queues[gang.queue].guarantee.get(GPU, 0)
        if waits and used(snapshot, gang.queue) + asked <= guarantee:
            assert not any(could_be_freed(snapshot, gang.queue, node, asked) for node in snapshot.nodes)


def could_be_freed(snapshot: Snapshot, queue: QueueName, node: str, asked: int) -> bool:
    """Whether pods of other queues on this node, beyond their guarantees, and free capacity are enough."""
    capacity = snapshot.nodes[node].free.get(GPU, 0)
    for other in snapshot.queues.values():
        if other.name == queue:
            continue
        beyond = used(snapshot, other.name) - other.guarantee.get(GPU, 0)
        sizes = [
            pod.shape.requests[GPU]
            for gang in snapshot.gangs.values()
            if gang.queue == other.name
            for pod in gang.members
            if pod.node == node
        ]
        capacity += best_within(sizes, beyond)
    return capacity >= asked


def best_within(sizes: list[int], most: int) -> int:
    """The largest sum of some of these sizes that is not above `most`."""
    sums = {0}
    for size in sizes:
        sums |= {each + size for each in sums if each + size <= most}
    return max(sums)


def used(snapshot: Snapshot, queue: str) -> int:
    return sum(amounts.get(GPU, 0) for amounts in snapshot.queue_usage.get(QueueName(queue), {}).values())


def wanted(snapshot: Snapshot, queue: str) -> int:
    return sum(
        pod.shape.requests.get(GPU, 0)
        for gang in snapshot.gangs.values()
        if gang.queue == queue
        for pod in gang.members
    )


def queues_of(scenario: Scenario) -> list[QueueName]:
    return list(scenario.snapshot().queues)
