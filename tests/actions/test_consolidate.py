"""Moves: who is moved so that a gang finds room that lies scattered, and what is kept for whom."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.config import ActionName, ConsolidationConfig, PluginConfig, SchedulerConfig
from phalanx.framework.retry import EVICTION_CHECK_MS, RetryConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.gangs import GangKind
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.queues import Ordering
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario

NOMINATION_MS = RetryConfig().nomination_ms
HOUR_MS = 3_600_000
ACTIONS = (ActionName.RELEASE, ActionName.RECOVER, ActionName.CONSOLIDATE, ActionName.PREEMPT)


ALONE = tuple(PluginConfig(name=name, enabled=False) for name in ("priority-preemption", "reclaim"))


def config(**fields: Any) -> SchedulerConfig:
    """Moves without preemption, so that whoever is evicted is moved."""
    return SchedulerConfig(actions=ACTIONS, plugins=ALONE, consolidation=ConsolidationConfig(**fields))


ON = config()


def rested(scenario: Scenario, *, minutes: int = 120) -> Scenario:
    """Whatever runs has run for so long."""
    scenario.now = max(scenario.now, 10 * HOUR_MS)
    for name, gang in scenario._gangs.items():
        since = scenario.now // 1000 - 60 * minutes
        members = tuple(
            replace(pod, running_since=since) if pod.node and not pod.running_since else pod
            for pod in gang.members
        )
        scenario.change(name, members=members)
    return scenario


def scattered(**fields: Any) -> Scenario:
    """Three nodes of 8 GPUs with half of each taken by a gang; another one wants two nodes whole."""
    scenario = Scenario().nodes("a", 3, gpu=8)
    for index in range(3):
        scenario.gang(f"half-{index}", 2, gpu=2, on=[f"a-{index}"] * 2, **fields)
    return rested(scenario.gang("large", 1, gpu=8))


def anew(scenario: Scenario) -> Scenario:
    """What was being deleted is gone and made anew; a pod without a group is another gang then."""
    for name, gang in list(scenario._gangs.items()):
        members = tuple(
            replace(pod, uid=PodUid(f"{pod.uid}-again"), node=None, deleting=False, running_since=0)
            if pod.deleting
            else pod
            for pod in gang.members
        )
        if gang.kind is GangKind.POD and members != gang.members:
            del scenario._gangs[name]
            fresh = replace(gang, id=GangId(f"{gang.id}-again"), name=f"{name}-again", members=members)
            scenario._gangs[f"{name}-again"] = fresh
        else:
            ended = members != gang.members
            started = gang.started and not ended
            scenario.change(name, members=members, started=started, starts_over=gang.starts_over or ended)
    scenario.capacity_version += 1
    return scenario


def test_one_gang_is_moved_so_that_another_fits() -> None:
    decided = scattered().decide(ON)
    assert sorted(decided.evicted()) == ["half-0-0", "half-0-1"]
    assert {each.reason for each in decided.result.evictions} == {"Consolidated"}
    (plan,) = decided.result.plans
    assert (plan.pods, plan.pods_bound, plan.is_executed) == (2, 2, True)
    assert plan.cost == plan.cost_bound
    (moved,) = plan.moves
    assert sum(moved.nodes.values()) == 2
    assert "a-0" not in moved.nodes
    verdict = decided.verdict("large")
    assert verdict.reason is Reason.EVICTION_IN_PROGRESS
    assert "2 pods of 1 gang" in verdict.message
    assert "fewest pods" in str(verdict.evidence)
    assert [each.name for each in decided.result.nominations] == ["large-0"]


def test_who_could_be_evicted_for_good_is_moved() -> None:
    """Nobody loses by it, and so it comes before preemption."""
    decided = _alone().decide(SchedulerConfig(actions=ACTIONS))
    assert [each.reason for each in decided.result.evictions] == ["Consolidated"]
    assert [each.name for each in decided.result.evictions] == ["half-0-0"]


def test_nobody_is_moved_unless_the_action_is_on() -> None:
    decided = scattered().decide()
    assert not decided.evicted()
    assert decided.verdict("large").reason is Reason.INSUFFICIENT_CAPACITY


def test_all_are_there_again_afterwards() -> None:
    scenario = scattered()
    decided = scenario.decide(ON)
    middle = scenario.dying(decided).decide(ON)
    assert not middle.evicted()
    assert not middle.placed()
    last = anew(scenario).decide(ON)
    assert sorted(last.placed()) == ["half-0", "large"]
    assert not last.evicted()
    assert not last.result.memory.moves
    scenario.take(last)
    assert not scenario.decide(ON).evicted()


def _late(scenario: Scenario, **fields: Any) -> Scenario:
    """A gang that would take the room of who is moved, and leave none for it."""
    return scenario.gang("late", 2, gpu=4, **fields)


@pytest.mark.parametrize("priority", [0, 10])
def test_what_is_kept_is_kept_while_pods_end_and_after(priority: int) -> None:
    scenario = scattered()
    _late(scenario.dying(scenario.decide(ON)), priority=priority, queue="other")
    scenario.queue("other")
    middle = scenario.decide(ON)
    assert not middle.placed()
    assert not middle.evicted()
    gone = anew(scenario)
    members = gone.members("half-0")
    gone.change("half-0", members=())
    without = gone.decide(ON)
    assert without.placed() == ["large"]
    gone.take(without).change("half-0", members=members)
    assert gone.decide(ON).placed() == ["half-0"]


def test_after_its_time_the_room_is_anybodys() -> None:
    scenario = scattered()
    scenario.dying(scenario.decide(ON))
    anew(scenario).change("half-0", members=())
    scenario.take(scenario.decide(ON))
    _late(scenario).now += NOMINATION_MS
    assert scenario.decide(ON).placed() == ["late"]


def test_the_room_of_who_is_moved_is_kept_for_as_long_as_its_pods_may_take_to_end() -> None:
    scenario = scattered()
    scenario.dying(scenario.decide(ON))
    names = [name for name, gang in scenario._gangs.items() if any(pod.deleting for pod in gang.members)]
    for name in names:
        scenario.change(name, members=tuple(replace(pod, grace=3600) for pod in scenario.members(name)))
    scenario.memory = scenario.decide(ON).result.memory
    scenario.now += HOUR_MS
    middle = _late(scenario, priority=-1).decide(ON)
    assert not middle.placed()
    scenario.memory = middle.result.memory
    assert sorted(anew(scenario).decide(ON).placed()) == ["half-0", "large"]


def test_a_dry_run_tells_and_does_nothing() -> None:
    dry = config(dry_run=True)
    scenario = scattered()
    decided = scenario.decide(dry)
    assert not decided.evicted()
    assert not decided.result.nominations
    assert not decided.result.memory.nominations
    assert not decided.result.memory.moves
    (plan,) = decided.result.plans
    assert not plan.is_executed
    verdict = decided.verdict("large")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert "fits if 2 pods of 1 gang move" in str(verdict.evidence)
    scenario.memory = decided.result.memory
    again = scenario.decide(dry)
    assert not again.result.plans
    assert "the gang fits if" in str(again.verdict("large").evidence)
    scenario.memory, scenario.now = again.result.memory, scenario.now + 60_000
    later = scenario.decide(dry)
    assert not later.result.plans
    assert "the gang fits if" in str(later.verdict("large").evidence)


def _alone(**fields: Any) -> Scenario:
    """Two nodes of 8 GPUs with a gang on half of each; `half-1` must stay, fields are of `half-0`."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.gang("half-0", 1, gpu=4, on=["a-0"], **fields)
    scenario.gang("half-1", 1, gpu=4, on=["a-1"], disruption=Disruption(preemptible=False))
    return rested(scenario.gang("large", 1, gpu=8, priority=5))


def test_the_only_one_that_may_be_moved_is() -> None:
    assert _alone().decide(ON).evicted() == ["half-0-0"]
    assert _alone(priority=5).decide(ON).evicted() == ["half-0-0"]
    scenario = _alone(queue="other").queue("other").queue("default")
    assert scenario.decide(ON).evicted() == ["half-0-0"]


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 6},
        {"controller": None},
        {"disruption": Disruption(preemptible=False)},
        {"disruption": Disruption(min_runtime="3h")},
        {"claims": ["gone"]},
        {"assumed": True},
    ],
    ids=str,
)
def test_who_may_not_be_moved_stays(fields: dict[str, Any]) -> None:
    decided = _alone(**fields).decide(ON)
    assert not decided.evicted()
    assert not decided.result.plans


def test_a_gang_rests_after_each_start() -> None:
    scenario = _alone()
    assert not scenario.decide(config(rest_minutes=121)).evicted()
    assert scenario.decide(config(rest_minutes=120)).evicted()


def test_a_gang_with_a_member_that_waits_or_has_succeeded_stays() -> None:
    scenario = _alone()
    (pod,) = scenario.members("half-0")
    waits = replace(pod, uid=PodUid("more"), name="more", node=None, running_since=0)
    scenario.change("half-0", members=(pod, replace(waits, shape=replace(pod.shape), gated=True)))
    assert not scenario.decide(ON).evicted()


def test_a_gang_that_never_preempts_moves_nobody() -> None:
    assert not _alone().change("large", preemption_policy="Never").decide(ON).evicted()


def test_nothing_is_moved_where_room_comes_by_itself() -> None:
    scenario = _alone()
    (pod,) = scenario.members("half-1")
    ending = replace(pod, deleting=True, ended=scenario.now // 1000)
    assert not scenario.change("half-1", members=(ending,)).decide(ON).evicted()


def test_no_more_are_moved_than_the_budget_allows() -> None:
    """Two pods are in the way of the large one, each a gang."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 2, gpu=8)
    for index in range(2):
        scenario.gang(f"in-{index}", 1, gpu=4, on=["a-0"], priority=0)
        scenario.gang(f"out-{index}", 1, gpu=4, on=[f"b-{index}"], priority=9)
    rested(scenario.gang("large", 1, gpu=8, priority=5))
    assert not scenario.decide(config(moves_max=1)).evicted()
    assert sorted(scenario.decide(config(moves_max=2)).evicted()) == ["in-0-0", "in-1-0"]


def test_nothing_is_moved_while_a_node_has_just_turned_bad() -> None:
    scenario = _alone().nodes("c", 1, gpu=1)
    scenario.memory = scenario.decide(SchedulerConfig(actions=(ActionName.RELEASE,))).result.memory
    bad = replace(scenario._nodes[NodeName("c-0")], conditions={"Ready": "False"})
    scenario._nodes[NodeName("c-0")] = bad
    decided = scenario.decide(ON)
    assert not decided.evicted()
    scenario.memory, scenario.now = decided.result.memory, scenario.now + 300_001
    assert scenario.decide(ON).evicted()


def test_nothing_is_moved_onto_a_faulty_node_or_from_one() -> None:
    scenario = _alone()
    scenario._nodes[NodeName("a-0")] = replace(scenario._nodes[NodeName("a-0")], unschedulable=True)
    assert not scenario.decide(ON).evicted()


def test_pods_without_a_group_come_back_as_others() -> None:
    """Their controller makes new ones, which find the room that was kept."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.pod("single", gpu=4, on=["a-0"]).gang(
        "stays", 1, gpu=4, on=["a-1"], disruption=Disruption(preemptible=False)
    )
    rested(scenario.gang("large", 1, gpu=8))
    decided = scenario.decide(ON)
    assert decided.evicted() == ["single-0"]
    anew(scenario.dying(decided)).gang("late", 1, gpu=4)
    last = scenario.decide(ON)
    assert last.placed() == ["large", "single-again"]
    assert not last.result.memory.moves


def test_the_rack_that_a_gang_requires_is_cleared_into_another() -> None:
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="r1").nodes("b", 2, gpu=8, within="r2")
    scenario.gang("pair", 2, gpu=4, on=["a-0", "a-1"], required="rack")
    scenario.gang("rest", 1, gpu=8, on=["b-0"], priority=9)
    rested(scenario.gang("large", 2, gpu=8, required="rack"))
    decided = scenario.decide(ON)
    assert sorted(decided.evicted()) == ["pair-0", "pair-1"]
    (plan,) = decided.result.plans
    assert plan.moves[0].nodes == {"b-1": 2}


def test_room_that_is_reserved_for_others_is_no_room() -> None:
    """What a nomination of an earlier cycle holds is not planned with."""
    scenario = scattered()
    scenario.memory = scenario.decide(ON).result.memory
    assert scenario.memory.nominations[GangId("gang-large")].usage == {
        NodeName("a-0"): {GPU: 8, "cpu": 1000, "memory": 1 << 30, "pods": 1}
    }
    scenario.gang("second", 1, gpu=8)
    assert not scenario.decide(ON).evicted()


def test_a_lost_eviction_is_decided_again() -> None:
    scenario = scattered()
    scenario.memory = scenario.decide(ON).result.memory
    assert not scenario.decide(ON).evicted()
    scenario.now += EVICTION_CHECK_MS
    assert sorted(scenario.decide(ON).evicted()) == ["half-0-0", "half-0-1"]


def test_the_same_answer_whatever_the_order_of_the_input() -> None:
    results = {repr(scattered().decide(ON, shuffle=shuffle).result) for shuffle in range(4)}
    assert len(results) == 1


def test_what_is_to_end_is_meant_for_one_of_them_only() -> None:
    """The large gang and a moved pod will share the node; what is free there already is kept for both."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 1, gpu=2)
    scenario.gang("pair", 2, gpu=2, on=["a-0", "a-0"])
    rested(scenario.gang("large", 1, gpu=6))
    decided = scenario.decide(ON)
    assert decided.result.plans[0].moves[0].nodes == {"a-0": 1, "b-0": 1}
    scenario.dying(decided).queue("other").queue("default").gang("late", 1, gpu=2, queue="other")
    assert not scenario.decide(ON).placed()
    assert sorted(anew(scenario).decide(ON).placed()) == ["large", "pair"]


def test_the_limit_of_a_queue_keeps_what_its_moved_gang_needs() -> None:
    """While it ends and comes back, nobody else of its queue takes its place there."""
    scenario = scattered(queue="small").queue("small", limit={GPU: 12}).queue("default")
    scenario.dying(scenario.decide(ON)).nodes("c", 1, gpu=4).gang("late", 1, gpu=1, queue="small")
    assert not scenario.decide(ON).placed()
    members = anew(scenario).members("half-0")
    without = scenario.change("half-0", members=()).decide(ON)
    assert without.placed() == ["large"]
    scenario.take(without).change("half-0", members=members)
    assert scenario.decide(ON).placed() == ["half-0"]


def test_nobody_is_evicted_for_good_for_a_gang_for_which_others_are_moved() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in range(2):
        scenario.gang(f"half-{index}", 1, gpu=4, on=[f"a-{index}"])
    rested(scenario.gang("large", 1, gpu=8, priority=5)).nodes("b", 1, gpu=8)
    fresh = scenario.gang("fresh", 1, gpu=8, on=["b-0"])
    decided = rested(fresh, minutes=1).decide(SchedulerConfig(actions=ACTIONS))
    assert [each.reason for each in decided.result.evictions] == ["Consolidated"]


def _chain(**fields: Any) -> Scenario:
    """The large gang needs node a. Who is there needs node b, and who is there node c."""
    scenario = Scenario().nodes("a", 1, gpu=4).nodes("b", 1, gpu=4).nodes("c", 1, gpu=2).nodes("d", 1, gpu=2)
    for name, gpu, node in (("first", 4, "a"), ("second", 2, "b")):
        scenario.gang(name, 1, gpu=gpu, on=[f"{node}-0"], queue="moved")
    scenario.gang("prey", 1, gpu=2, on=["d-0"], queue="third", priority=1)
    scenario.queue("moved", **fields).queue("third").queue("default")
    return rested(scenario.gang("large", 1, gpu=4, selector={"group": "a"}, queue="moved"))


def _partly_anew(scenario: Scenario, name: str) -> Scenario:
    """Of those that are being deleted this gang is made anew first."""
    (pod,) = scenario.members(name)
    scenario.capacity_version += 1
    fresh = replace(pod, uid=PodUid("fresh"), node=None, deleting=False, running_since=0)
    return scenario.change(name, members=(fresh,), started=False, starts_over=True)


def test_a_chain_of_moves_is_kept_from_whoever_looks_for_victims() -> None:
    """What the second gang leaves is for the first: another one must find its own way."""
    both = SchedulerConfig(actions=ACTIONS)
    scenario = _chain()
    decided = scenario.decide(both)
    assert decided.evicted() == ["first-0", "second-0"]
    scenario.dying(decided).gang("urgent", 1, gpu=2, queue="third", priority=9)
    middle = scenario.decide(both)
    assert middle.evicted() == ["prey-0"]
    assert not middle.placed()


def test_a_chain_of_moves_is_kept_in_the_cycle_that_decides_it_too() -> None:
    """The urgent one would fit where the second one leaves, were that not for the first one."""
    scenario = Scenario().nodes("a", 1, gpu=4).nodes("b", 1, gpu=4).nodes("c", 1, gpu=3, cpu=4)
    scenario.queue("moved", priority=1).queue("third").nodes("d", 1, gpu=3)
    for name, gpu, node in (("first", 4, "a"), ("second", 3, "b")):
        scenario.gang(name, 1, gpu=gpu, cpu=1, on=[f"{node}-0"], queue="moved")
    scenario.gang("prey", 1, gpu=3, on=["d-0"], queue="third", priority=1)
    scenario.gang("large", 1, gpu=4, selector={"group": "a"}, queue="moved")
    scenario.gang("urgent", 1, gpu=3, cpu=8, queue="third", priority=9)
    decided = rested(scenario).decide(SchedulerConfig(actions=ACTIONS))
    assert decided.evicted() == ["first-0", "second-0", "prey-0"]


def test_whom_moves_help_is_on_the_account_of_its_queue_at_once() -> None:
    """A sibling that its queue's limit keeps out then evicts nobody for it."""
    scenario = Scenario().nodes("a", 2, gpu=8).nodes("b", 1, gpu=8)
    scenario.queue("q", guarantee={GPU: 8}, limit={GPU: 8})
    for index in range(2):
        scenario.gang(f"half-{index}", 1, gpu=4, on=[f"a-{index}"])
    scenario.gang("large", 1, gpu=8, selector={"group": "a"}, queue="q", priority=1)
    scenario.gang("low", 1, gpu=4, on=["b-0"], queue="other").queue("other")
    scenario.gang("keeps", 1, gpu=4, on=["b-0"], queue="other", disruption=Disruption(preemptible=False))
    scenario.gang("sibling", 1, gpu=4, selector={"group": "b"}, queue="q")
    decided = rested(scenario).decide(SchedulerConfig(actions=ACTIONS))
    assert {each.reason for each in decided.result.evictions} == {"Consolidated"}


def test_who_is_moved_never_evicts_while_its_room_is_kept() -> None:
    scenario = _chain()
    scenario.dying(scenario.decide(ON))
    late = _partly_anew(scenario, "first").nodes("e", 1, gpu=4)
    late.gang("low", 1, gpu=4, queue="moved", on=["e-0"], priority=-1)
    decided = late.decide(SchedulerConfig(actions=ACTIONS))
    assert not decided.evicted()
    assert decided.verdict("first").reason is Reason.INSUFFICIENT_CAPACITY


def test_in_a_strict_queue_who_is_moved_does_not_wait_behind_the_one_it_made_room_for() -> None:
    scenario = _chain(ordering=Ordering.STRICT_FIFO)
    scenario.dying(scenario.decide(ON))
    assert _partly_anew(scenario, "second").decide(ON).placed() == ["second"]


def test_budgets_keep_gangs_from_being_moved() -> None:
    scenario = scattered(labels={"app": "x"})
    assert scenario.budget("tight", 1, app="x").decide(ON).evicted() == []
    assert len(scenario.budget("tight", 2, app="x").decide(ON).evicted()) == 2


def test_others_are_moved_than_those_that_a_budget_keeps() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in range(2):
        scenario.gang(f"half-{index}", 1, gpu=4, on=[f"a-{index}"], labels={"app": f"x{index}"})
    rested(scenario.gang("large", 1, gpu=8))
    assert scenario.budget("tight", 0, app="x0").decide(ON).evicted() == ["half-1-0"]
    assert scenario.budget("tight", 0, app="x1").decide(ON).evicted() == ["half-0-0"]


def test_budgets_hold_for_all_gangs_of_a_plan_together() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in range(4):
        scenario.gang(f"g{index}", 1, gpu=2, on=[f"a-{index % 2}"], labels={"app": "x"})
    rested(scenario.gang("large", 1, gpu=8))
    assert scenario.budget("tight", 1, app="x").decide(ON).evicted() == []
    assert len(scenario.budget("tight", 2, app="x").decide(ON).evicted()) == 2
