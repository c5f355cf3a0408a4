"""Losses over several cycles: what happened between them, as docs/roles.md says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.queues import QueueState
from phalanx.model.reasons import Reason
from phalanx.model.records import GangRecord, PlacedMembers
from phalanx.model.resources import CPU, GPU, MEMORY

from tests.builders import GI, Decided, Scenario
from tests.examples import holds

G = GangId("gang-g")


def started(count: int = 2, **fields: object) -> Scenario:
    """A gang of which the scheduler has placed each member on a node of its own."""
    scenario = Scenario().nodes("n", count, gpu=8).queue("a").queue("b")
    scenario.gang("g", count, gpu=8, queue="a", **fields)
    return scenario.take(scenario.decide())


def fresh(pod: Pod, name: str, **fields: object) -> Pod:
    """A pod that is created in the place of a member."""
    changes = {"node": None, "phase": PodPhase.PENDING, **fields}
    return replace(pod, uid=PodUid(name), name=name, **changes)


def recreate(scenario: Scenario, count: int = 1, **fields: object) -> Scenario:
    """The last members are gone, and others were created in their place."""
    members = scenario.members("g")
    kept, gone = members[: len(members) - count], members[len(members) - count :]
    new = [fresh(pod, f"{pod.name}-new", **fields) for pod in gone]
    scenario.capacity_version += 1
    return scenario.change("g", members=(*kept, *new))


def decide(scenario: Scenario) -> Decided:
    decided = scenario.decide()
    scenario.take(decided)
    return decided


def causes(decided: Decided) -> list[tuple[str, str]]:
    return [(each.group.removeprefix("team/"), each.cause) for each in decided.result.placements]


def with_rival(scenario: Scenario) -> Scenario:
    """An older gang of another queue could use the capacity of a lost member."""
    return scenario.gang("rival", 1, gpu=8, queue="b", created=0)


def test_what_is_bound_is_recorded_with_the_placement() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).gang("g", 3, min=2, gpu=4, role="worker", created=7)
    (start, surplus) = scenario.decide().result.placements
    requests = {CPU: 1000, MEMORY: GI, GPU: 4}
    assert start.record == GangRecord(7, (PlacedMembers("worker", "", requests, bound=3),))
    assert surplus.record == start.record


def test_a_pod_without_a_group_has_no_record() -> None:
    decided = Scenario().nodes("n", 1, gpu=8).pod("p", gpu=8).decide()
    assert (decided.result.placements[0].record, decided.result.memory.records) == (None, {})


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_lost_member_is_replaced_before_older_gangs_of_other_queues(forgotten: bool) -> None:
    """A new leader reads the record."""
    scenario = with_rival(recreate(started()))
    scenario.memory = Memory() if forgotten else scenario.memory
    assert causes(decide(scenario)) == [("g", "replace")]
    assert scenario.memory.records[G].placed[0].bound == 2


def test_members_that_were_never_placed_are_a_start() -> None:
    scenario = started(1, min=1).nodes("n", 2, gpu=8)
    grown = (*scenario.members("g"), fresh(scenario.members("g")[0], "more"))
    with_rival(scenario.change("g", members=grown, min_member=2))
    assert causes(decide(scenario)) == [("rival", "start")]
    assert causes(decide(scenario.remove("rival"))) == [("g", "start")]
    assert scenario.memory.records[G].placed[0].bound == 2


def test_a_larger_pod_does_not_take_the_place_of_a_lost_member() -> None:
    scenario = started(2, role="worker")
    shape = scenario.members("g")[0].shape
    smaller = replace(shape, key=f"{shape.key}-small", requests={**shape.requests, GPU: 1})
    larger = replace(shape, key=f"{shape.key}-large", requests={**shape.requests, CPU: 2000})
    assert causes(decide(with_rival(recreate(scenario, shape=smaller)))) == [("g", "replace")]
    scenario = with_rival(recreate(started(2, role="worker"), shape=larger))
    assert causes(decide(scenario)) == [("rival", "start")]
    assert causes(decide(with_rival(recreate(started(2, role="worker"), role="other")))) == [
        ("rival", "start")
    ]


def test_a_smaller_replacement_leaves_a_smaller_record() -> None:
    scenario = started(2)
    shape = scenario.members("g")[0].shape
    smaller = replace(shape, key=f"{shape.key}-small", requests={**shape.requests, GPU: 1})
    decide(recreate(scenario, shape=smaller))
    assert causes(decide(with_rival(recreate(scenario, shape=shape)))) == [("rival", "start")]


def test_a_loss_lapses_after_ten_minutes_without_a_pod() -> None:
    scenario = started()
    kept, gone = scenario.members("g")
    scenario.change("g", members=(kept,))
    decide(scenario)
    scenario.now += CAPACITY_HOLD_MS
    with_rival(scenario.change("g", members=(kept, fresh(gone, "late"))))
    assert causes(decide(scenario)) == [("rival", "start")]


def test_a_pod_that_waits_keeps_the_loss() -> None:
    scenario = recreate(started())
    scenario.nodes("n", 2, gpu=8, cordoned=True)
    for _ in range(3):
        assert decide(scenario).placed() == []
        scenario.now += CAPACITY_HOLD_MS
    scenario.capacity_version += 1
    with_rival(scenario.nodes("n", 2, gpu=8))
    assert causes(decide(scenario)) == [("g", "replace")]


def test_a_gang_that_lost_all_members_starts_again_as_a_whole_before_others() -> None:
    scenario = with_rival(recreate(started(2), 2))
    decided = decide(scenario)
    assert causes(decided) == [("g", "start")]
    assert decided.nodes("g") == ["n-0", "n-1"]


def test_the_record_outlives_a_moment_without_pods() -> None:
    """The controller of a JobSet deletes all pods, then creates all again."""
    scenario = started(2)
    again = tuple(fresh(pod, f"{pod.name}-again") for pod in scenario.members("g"))
    gang: Gang = scenario.snapshot().gangs[G]
    scenario.remove("g")
    decide(scenario)
    scenario._gangs["g"] = replace(gang, members=again, started=False, starts_over=True, record=None)
    assert causes(decide(with_rival(scenario))) == [("g", "start")]


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_record_of_a_gang_without_pods_lapses(rounds: int) -> None:
    scenario = started(2)
    scenario.remove("g")
    decide(scenario)
    scenario.now += rounds * CAPACITY_HOLD_MS
    records = decide(scenario).result.memory.records
    assert [each.placed for each in records.values()] == ([()] if rounds == 1 else [])


def test_nothing_is_lost_if_all_binds_fail() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).queue("a").queue("b").gang("g", 2, gpu=8, queue="a")
    scenario.memory = scenario.decide().result.memory
    assert causes(decide(with_rival(scenario))) == [("rival", "start")]


def test_members_whose_binds_failed_beside_others_are_placed_with_them() -> None:
    scenario = started(2)
    first, second = scenario.members("g")
    unbound = replace(second, node=None, phase=PodPhase.PENDING)
    scenario.change("g", members=(first, unbound), started=False)
    assert causes(decide(with_rival(scenario))) == [("g", "start")]


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_member_that_moved_to_another_gang_is_not_lost(*, forgotten: bool) -> None:
    """Its pod still is on its node. The gang that it moved to has no record of it.

    The same if it moved before this leader came.
    """
    scenario = started(2).nodes("n", 3, gpu=8)
    first, moved = scenario.members("g")
    scenario.gang("new", 1, min=2, gpu=8, queue="a", record=None)
    waiting = scenario.members("new")[0]
    scenario.change("new", members=(moved, waiting), record=None)
    scenario.change("g", members=(first, fresh(moved, "again")))
    scenario.memory = Memory() if forgotten else scenario.memory
    assert causes(decide(with_rival(scenario))) == [("rival", "start")]
    assert scenario.memory.records[G].placed[0].bound == 1


@pytest.mark.parametrize("record", [True, False])
def test_a_new_leader_takes_no_other_gang_for_a_moved_member(*, record: bool) -> None:
    """Gangs that run as they are recorded, and pods that were there with their PodGroups, were not moved."""
    scenario = recreate(started()).nodes("m", 2, gpu=8).pod("single", gpu=8, on=("m-0",))
    if record:
        scenario.gang("other", 1, gpu=8, queue="a", on=["m-1"])
    else:
        scenario.gang("other", 1, gpu=8, queue="a", on=["m-1"], created=0, record=None)
    scenario.memory = Memory()
    assert causes(decide(with_rival(scenario))) == [("g", "replace")]


def test_a_moved_member_counts_for_one_loss() -> None:
    scenario = started(3).nodes("n", 3, gpu=8)
    first, second, moved = scenario.members("g")
    scenario.gang("new", 1, min=2, gpu=8, queue="a", record=None)
    scenario.change("new", members=(moved, scenario.members("new")[0]), record=None)
    scenario.change("g", members=(first, fresh(second, "two"), fresh(moved, "three")))
    scenario.memory = Memory()
    assert causes(decide(with_rival(scenario))) == [("g", "replace")]
    assert scenario.memory.records[G].placed[0].bound == 2


@pytest.mark.parametrize("gpu", [2, 8])
def test_a_foreign_member_that_leaves_again_is_none_of_those_that_were_bound(gpu: int) -> None:
    """A pod that runs in another gang joined this one for a while. It requests the same or less."""
    scenario = started(2).nodes("n", 3, gpu=8)
    members = scenario.members("g")
    scenario.gang("new", 1, gpu=gpu, queue="a", on=["n-2"])
    visitor = scenario.members("new")[0]
    scenario.change("g", members=(*members, visitor))
    scenario.change("new", members=())
    decide(scenario)
    scenario.change("g", members=members)
    scenario.change("new", members=(visitor,))
    decide(scenario)
    assert [each.bound for each in scenario.memory.records[G].placed] == [2]


def test_a_running_member_with_another_role_is_not_lost() -> None:
    scenario = started(2, role="worker").nodes("n", 3, gpu=8)
    first, second = scenario.members("g")
    relabelled = replace(second, role="other")
    scenario.change("g", members=(first, relabelled, fresh(second, "again")), min_member=3)
    assert causes(decide(with_rival(scenario))) == [("rival", "start")]


def test_an_eviction_for_others_ends_the_losses() -> None:
    scenario = started(2)
    scenario.gang("urgent", 2, gpu=8, queue="a", priority=1, created=0)
    decided = scenario.decide()
    assert decided.evicted() == ["g-0", "g-1"]
    scenario.take(decided)
    decide(scenario)
    assert scenario.memory.records[G].placed == ()
    scenario.remove("urgent")
    assert causes(decide(with_rival(scenario)))[:1] == [("rival", "start")]


def test_an_eviction_is_recorded_until_the_members_have_left() -> None:
    scenario = started(2)
    scenario.gang("urgent", 2, gpu=8, queue="a", priority=1, created=0)
    decided = scenario.decide()
    assert decided.result.memory.records[G].evicting == 2
    scenario.take(decided)
    assert decide(scenario).result.memory.records[G].evicting == 0


@holds(100)
@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_a_new_leader_takes_no_evicted_member_for_a_lost_one(
    stays: int, evicted: int, leaving: int, gone: int, lost: int
) -> None:
    """Evicted members are still there, are being deleted, or are gone; others are lost.

    As many members that left count as evicted as were to be evicted. Of a gang without members nothing is
    lost if some were evicted.
    """
    count = stays + evicted + leaving + gone + lost
    if not count:
        return
    scenario = started(count)
    members = scenario.members("g")
    disrupted = {"deleting": True, "disruption": EvictionReason.PREEMPTED.value}
    there = members[: stays + evicted]
    left = [replace(pod, **disrupted) for pod in members[stays + evicted :][:leaving]]
    new = [fresh(pod, f"{pod.name}-new") for pod in members[stays + evicted :]]
    record = replace(scenario.memory.records[G], evicting=evicted + leaving + gone)
    scenario.change("g", members=(*there, *left, *new), record=record)
    scenario.memory = Memory()
    session = Session(scenario.snapshot(), SchedulerConfig())
    found = sum(session.records.of(session.gangs[G]).lost.values())
    assert found == (max(0, lost - evicted) if there or not leaving + gone + evicted else 0)


@pytest.mark.parametrize("state", [QueueState.CLOSED, QueueState.HELD])
def test_a_queue_that_is_not_open_replaces_lost_members_only(state: QueueState) -> None:
    scenario = recreate(started(2)).nodes("n", 4, gpu=8)
    more = (*scenario.members("g"), fresh(scenario.members("g")[0], "more"))
    scenario.queue("a", state=state).change("g", members=more, min_member=3)
    decided = decide(scenario)
    assert causes(decided) == [("g", "replace")]
    reason = Reason.QUEUE_CLOSED if state is QueueState.CLOSED else Reason.QUEUE_HELD
    assert decided.reasons() == {"g": reason}


def test_a_held_gang_gets_lost_members_back_but_does_not_grow() -> None:
    scenario = recreate(started(2)).nodes("n", 4, gpu=8)
    more = (*scenario.members("g"), fresh(scenario.members("g")[0], "more"))
    scenario.change("g", members=more, min_member=3, hold=True)
    decided = decide(scenario)
    assert (causes(decided), decided.reasons()) == ([("g", "replace")], {"g": Reason.HELD})


def launch(**fields: object) -> Scenario:
    """The controller of a running workload has made one more pod; an older gang waits in another queue."""
    scenario = Scenario().nodes("n", 1, gpu=8, cpu=2).queue("a").queue("b")
    scenario.gang(
        "g", 1, gpu=8, queue="a", kind=GangKind.WORKLOAD, workload="MPIJob.kubeflow.org", on=["n-0"]
    )
    scenario.role("g", 1, **{"role": "launcher", **fields})
    record = GangRecord(1, (PlacedMembers("", "", {CPU: 1000, MEMORY: GI, GPU: 8}, 1),))
    return scenario.change("g", min_member=2, record=record)


def test_one_pod_without_devices_goes_before_the_starts_of_its_queue_only() -> None:
    own = launch().gang("older", 1, queue="a", created=0)
    assert decide(own).placed() == ["g"]
    other = launch().gang("older", 1, queue="b", created=0)
    assert decide(other).placed() == ["older"]
    assert decide(launch().queue("a", state=QueueState.HELD)).placed() == ["g"]


def test_only_one_pod_of_a_gang_goes_first_so() -> None:
    scenario = launch()
    decide(scenario)
    more = (*scenario.members("g"), fresh(scenario.members("g")[1], "more", role="other"))
    scenario.nodes("n", 1, gpu=8, cpu=3).change("g", members=more, min_member=3)
    scenario.gang("older", 1, queue="a", created=0)
    assert decide(scenario).placed() == ["older"]


def test_a_launcher_with_devices_is_a_start() -> None:
    scenario = launch(gpu=1).nodes("n", 1, gpu=9, cpu=2)
    assert decide(scenario.gang("older", 1, queue="a", created=0)).placed() == ["older"]


def test_gated_pods_are_in_line_since_their_gates_were_removed() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("gated", 1, gpu=8, gated=True, created=1)
    decide(scenario)
    assert scenario.memory.records == {GangId("gang-gated"): GangRecord()}
    scenario.gang("open", 1, gpu=8, created=900)
    (pod,) = scenario.members("gated")
    scenario.change("gated", members=(replace(pod, gated=False),))
    assert decide(scenario).placed() == ["open"]
    assert scenario.memory.records[GangId("gang-gated")].queued_since == scenario.now // 1000


def test_pods_that_are_created_again_keep_the_place_in_line() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8, cordoned=True)
    scenario.gang("g", 1, gpu=8, created=5)
    decide(scenario)
    (pod,) = scenario.members("g")
    scenario.change("g", members=(fresh(pod, "again", created=900),))
    scenario.gang("later", 1, gpu=8, created=800).nodes("n", 1, gpu=8)
    assert decide(scenario).placed() == ["g"]


@pytest.mark.parametrize(("minimum", "expected"), [(3, 10), (2, 20), (1, 30)])
def test_a_gang_is_finishing_since_fewer_than_its_minimum_run(minimum: int, expected: int) -> None:
    scenario = started(3)
    ends = (30, 10, 20)
    done = [
        replace(pod, phase=PodPhase.SUCCEEDED, ran=(5, end))
        for pod, end in zip(scenario.members("g"), ends, strict=True)
    ]
    scenario.change("g", members=tuple(done), min_member=minimum)
    decide(scenario)
    assert scenario.memory.records[G].finishing_since == expected
