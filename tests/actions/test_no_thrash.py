"""Cases of other schedulers, by their issues' numbers: evictions that came to nothing, or to no end.

Each runs cycle after cycle: bound pods run, evicted pods are made anew at once.
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


def run(scenario: Scenario, cycles: int = 12) -> list[Decided]:
    """So many cycles; a minute passes between two."""
    told = []
    for _ in range(cycles):
        decided = scenario.decide()
        told.append(decided)
        scenario.take(decided)
        scenario.capacity_version += bool(decided.evicted())
        scenario.now += 60_000
    return told


def evictions(told: list[Decided]) -> list[str]:
    return [name for decided in told for name in decided.evicted()]


def test_volcano_377_twelve_slots_and_twenty_four_jobs() -> None:
    scenario = Scenario().queue("a").queue("b").nodes("n", 3, gpu=4)
    for index in range(12):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a", on=[f"n-{index // 4}"])
    for index in range(12):
        scenario.gang(f"b{index}", 1, gpu=1, queue="b")
    told = run(scenario)
    assert len(evictions(told)) == 6
    assert evictions(told[4:]) == []
    assert used(scenario.snapshot(), "a") == used(scenario.snapshot(), "b") == 6


def test_volcano_5022_nothing_goes_when_the_plan_fails() -> None:
    """Two of three pods would fit if all went: then nobody goes."""
    scenario = Scenario().nodes("n", 2, gpu=8)
    scenario.gang("low-0", 1, gpu=8, on=["n-0"]).gang("keeps", 1, gpu=8, on=["n-1"], priority=9)
    assert evictions(run(scenario.gang("high", 2, gpu=8, priority=5))) == []


def test_volcano_5067_only_victims_of_the_nodes_that_are_used() -> None:
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="a").nodes("b", 2, gpu=8, within="b")
    for node in ("a-0", "a-1", "b-0"):
        scenario.gang(f"low-{node}", 1, gpu=8, on=[node])
    told = run(scenario.gang("high", 2, gpu=8, priority=5, required="rack"))
    assert evictions(told) == ["low-b-0-0"]
    assert told[1].where("high") == {"b": 2}


def test_kai_1719_a_plan_that_was_dropped_leaves_nothing_behind() -> None:
    """The first gang finds no victims that would do; the second one uses what it looked at."""
    scenario = Scenario("rack").nodes("a", 1, gpu=8, within="a").nodes("b", 1, gpu=8, within="b")
    scenario.gang("low-0", 1, gpu=8, on=["a-0"]).gang("low-1", 1, gpu=8, on=["b-0"])
    scenario.gang("wide", 2, gpu=8, priority=9, required="rack").gang("small", 1, gpu=8, priority=5)
    told = run(scenario)
    assert len(evictions(told)) == 1
    assert told[1].placed() == ["small"]


def test_kueue_3779_two_queues_do_not_evict_each_other_in_turn() -> None:
    """Gangs so large that each queue is either above its share or below it."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 1, gpu=8)
    scenario.gang("a0", 1, gpu=5, queue="a", on=["n-0"]).gang("b0", 1, gpu=5, queue="b")
    assert evictions(run(scenario)) == []


def test_kueue_6947_priority_and_share_do_not_undo_each_other() -> None:
    scenario = Scenario().queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: 4}).nodes("n", 1, gpu=8)
    scenario.gang("a-low", 1, gpu=4, queue="a", on=["n-0"]).gang(
        "a-mid", 1, gpu=4, queue="a", on=["n-0"], priority=5
    )
    scenario.gang("a-high", 1, gpu=4, queue="a", priority=9).gang("b0", 1, gpu=4, queue="b")
    told = run(scenario)
    assert sorted(evictions(told)) == ["a-low-0", "a-mid-0"]


def test_kueue_13662_who_was_evicted_does_not_come_back_and_evict() -> None:
    scenario = Scenario().queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: 4}).nodes("n", 2, gpu=4)
    scenario.gang("a0", 2, gpu=4, min=1, queue="a", on=["n-0", "n-1"]).gang("b0", 1, gpu=4, queue="b")
    assert evictions(run(scenario)) == ["a0-1"]


def test_kueue_14682_two_that_want_room_at_once_take_it_from_different_gangs() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8)
    for index in range(4):
        scenario.gang(f"low-{index}", 1, gpu=8, on=[f"n-{index}"])
    for index in range(2):
        scenario.gang(f"high-{index}", 1, gpu=8, priority=5)
    told = run(scenario)
    assert len(evictions(told)) == 2
    assert sorted(told[1].placed()) == ["high-0", "high-1"]


def test_volcano_5984_one_pod_goes_where_one_is_enough() -> None:
    """Of ten members of a gang that needs two, and not all ten."""
    scenario = Scenario().nodes("n", 1, gpu=10)
    scenario.gang("low", 10, min=2, gpu=1, on=["n-0"] * 10).gang("high", 1, gpu=1, priority=5)
    told = run(scenario)
    assert len(evictions(told)) == 1
    assert told[1].placed() == ["high"]


@pytest.mark.parametrize("priorities", [(0, 0, 0, 0), (0, 1, 2, 3), (0, 0, 4, 6)])
def test_a_job_that_is_restarted_again_and_again_preempts_only_once(priorities: tuple[int, ...]) -> None:
    """Meta: 35 restarts of one job led to 548 preemptions, those of whom it preempted among them."""
    scenario = Scenario().nodes("n", 4, gpu=8)
    for index, priority in enumerate(priorities):
        scenario.gang(f"g-{index}", 1, gpu=8, priority=priority, on=[f"n-{index}"])
    scenario.gang("waits", 1, gpu=8, priority=2).gang("high", 2, gpu=8, priority=5)
    told = run(scenario, 6)
    first = evictions(told)
    assert {each.beneficiary for decided in told for each in decided.result.evictions} >= {"team/high"}
    for _ in range(35):
        scenario.lose("high", 2)
        assert evictions(run(scenario, 2)) == []
    assert len(first) <= 3


@pytest.mark.parametrize("priorities", [(0, 0, 0, 0), (0, 1, 2, 3), (4, 4, 4, 4)])
def test_meta_a_job_whose_node_fails_each_time_evicts_one_each_time(priorities: tuple[int, ...]) -> None:
    """Of a full cluster one node is gone, and comes back later: its room is all that must be made."""
    scenario = Scenario().nodes("n", 4, gpu=8)
    for index, priority in enumerate(priorities):
        scenario.gang(f"g-{index}", 1, gpu=8, priority=priority, on=[f"n-{index}"])
    run(scenario.gang("waits", 1, gpu=8, priority=2).gang("high", 2, gpu=8, priority=5), 6)
    for _ in range(35):
        lost = scenario.members("high")[0].node
        assert lost is not None
        _turns(scenario, lost, "Unknown")
        scenario.lose("high", 2)
        assert len(evictions(run(scenario, 4))) == 1
        _turns(scenario, lost, "True")
        assert evictions(run(scenario, 4)) == []


def _turns(scenario: Scenario, node: NodeName, ready: str) -> None:
    scenario._nodes[node] = replace(scenario._nodes[node], conditions={"Ready": ready})
    scenario.capacity_version += 1


@st.composite
def contended(draw: st.DrawFn) -> Scenario:
    """Up to three queues, with and without guarantees, whose gangs want more than there is; some run."""
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
@holds(60)
def test_evictions_end_and_leave_every_guarantee_that_is_wanted(scenario: Scenario) -> None:
    """At rest a queue has lost nothing of its guarantee that a gang which waits would fit in."""
    before = {name: used(scenario.snapshot(), name) for name in queues_of(scenario)}
    told = run(scenario, 20)
    assert evictions(told[12:]) == []
    snapshot = scenario.snapshot()
    for gang in snapshot.gangs.values():
        queue = snapshot.queues[gang.queue]
        guarantee, holds = queue.guarantee.get(GPU, 0), used(snapshot, queue.name)
        is_covered = holds + gang.members[0].shape.requests[GPU] <= guarantee
        if is_covered and gang.members[0].node is None:
            assert holds >= min(guarantee, before[queue.name], wanted(snapshot, queue.name))


@given(contended())
@holds(60)
def test_a_gang_within_the_guarantee_waits_only_where_no_victims_would_do(scenario: Scenario) -> None:
    """Single pods on one node each: whoever could go by the rules is tried one node at a time."""
    run(scenario, 20)
    snapshot = scenario.snapshot()
    for gang in snapshot.gangs.values():
        waits = all(pod.node is None for pod in gang.members)
        asked = gang.members[0].shape.requests[GPU]
        guarantee = snapshot.queues[gang.queue].guarantee.get(GPU, 0)
        if waits and used(snapshot, gang.queue) + asked <= guarantee:
            assert not any(could_go(snapshot, gang.queue, node, asked) for node in snapshot.nodes)


def could_go(snapshot: Snapshot, queue: QueueName, node: str, asked: int) -> bool:
    """Whether pods of other queues on this node, beyond their guarantees, hold enough."""
    room = snapshot.nodes[node].free.get(GPU, 0)
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
        room += best_within(sizes, beyond)
    return room >= asked


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
