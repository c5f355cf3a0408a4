"""Consolidation: which gangs are moved to defragment capacity, and which capacity is held for whom."""

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
    """Consolidation without preemption, so that every evicted pod is moved."""
    return SchedulerConfig(actions=ACTIONS, plugins=ALONE, consolidation=ConsolidationConfig(**fields))


ON = config()


def rested(scenario: Scenario, *, minutes: int = 120) -> Scenario:
    """Let every running pod have run for this time."""
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
    """Three nodes of 8 GPUs with a gang on half of each; another gang needs a whole node."""
    scenario = Scenario().nodes("a", 3, gpu=8)
    for index in range(3):
        scenario.gang(f"half-{index}", 2, gpu=2, on=[f"a-{index}"] * 2, **fields)
    return rested(scenario.gang("large", 1, gpu=8))


def recreated(scenario: Scenario) -> Scenario:
    """Recreate pods that were being deleted; a recreated pod without a group is another gang."""
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


def test_gangs_are_moved_rather_than_preempted() -> None:
    """A move costs less than a preemption, so consolidation comes first."""
    decided = _one_movable().decide(SchedulerConfig(actions=ACTIONS))
    assert [each.reason for each in decided.result.evictions] == ["Consolidated"]
    assert [each.name for each in decided.result.evictions] == ["half-0-0"]


def test_no_gang_is_moved_unless_the_action_is_on() -> None:
    decided = scattered().decide()
    assert not decided.evicted()
    assert decided.verdict("large").reason is Reason.INSUFFICIENT_CAPACITY


def test_moved_gangs_run_again_after_the_move() -> None:
    scenario = scattered()
    decided = scenario.decide(ON)
    middle = scenario.terminate(decided).decide(ON)
    assert not middle.evicted()
    assert not middle.placed()
    last = recreated(scenario).decide(ON)
    assert sorted(last.placed()) == ["half-0", "large"]
    assert not last.evicted()
    assert not last.result.memory.moves
    scenario.take(last)
    assert not scenario.decide(ON).evicted()


def _late(scenario: Scenario, **fields: Any) -> Scenario:
    """A gang that would use the capacity that a moved gang needs."""
    return scenario.gang("late", 2, gpu=4, **fields)


@pytest.mark.parametrize("priority", [0, 10])
def test_capacity_is_held_for_a_moved_gang_while_its_pods_end_and_after(priority: int) -> None:
    scenario = scattered()
    _late(scenario.terminate(scenario.decide(ON)), priority=priority, queue="other")
    scenario.queue("other")
    middle = scenario.decide(ON)
    assert not middle.placed()
    assert not middle.evicted()
    gone = recreated(scenario)
    members = gone.members("half-0")
    gone.change("half-0", members=())
    without = gone.decide(ON)
    assert without.placed() == ["large"]
    gone.take(without).change("half-0", members=members)
    assert gone.decide(ON).placed() == ["half-0"]


@pytest.mark.parametrize(("guarantee", "placed"), [(12, ["owner"]), (11, [])])
def test_a_gang_within_its_guarantee_takes_capacity_that_is_held_for_moves(
    guarantee: int, placed: list[str]
) -> None:
    """It needs the free half of each node: one is nominated, one is held for the moved gang."""
    scenario = scattered()
    scenario.terminate(scenario.decide(ON))
    scenario.queue("b", guarantee={GPU: guarantee}).gang("owner", 3, gpu=4, queue="b")
    assert scenario.decide(ON).placed() == placed


def test_the_hold_for_a_moved_gang_expires() -> None:
    scenario = scattered()
    scenario.terminate(scenario.decide(ON))
    recreated(scenario).change("half-0", members=())
    scenario.take(scenario.decide(ON))
    _late(scenario).now += NOMINATION_MS
    assert scenario.decide(ON).placed() == ["late"]


def test_the_hold_for_a_moved_gang_lasts_for_the_grace_period_of_its_pods() -> None:
    scenario = scattered()
    scenario.terminate(scenario.decide(ON))
    names = [name for name, gang in scenario._gangs.items() if any(pod.deleting for pod in gang.members)]
    for name in names:
        scenario.change(name, members=tuple(replace(pod, grace=3600) for pod in scenario.members(name)))
    scenario.memory = scenario.decide(ON).result.memory
    scenario.now += HOUR_MS
    middle = _late(scenario, priority=-1).decide(ON)
    assert not middle.placed()
    scenario.memory = middle.result.memory
    assert sorted(recreated(scenario).decide(ON).placed()) == ["half-0", "large"]


def test_a_dry_run_reports_a_plan_and_evicts_nothing() -> None:
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


def _one_movable(**fields: Any) -> Scenario:
    """Two nodes of 8 GPUs, half full; `half-1` is not preemptible, `fields` are those of `half-0`."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.gang("half-0", 1, gpu=4, on=["a-0"], **fields)
    scenario.gang("half-1", 1, gpu=4, on=["a-1"], disruption=Disruption(preemptible=False))
    return rested(scenario.gang("large", 1, gpu=8, priority=5))


def test_the_only_movable_gang_is_moved() -> None:
    assert _one_movable().decide(ON).evicted() == ["half-0-0"]
    assert _one_movable(priority=5).decide(ON).evicted() == ["half-0-0"]
    scenario = _one_movable(queue="other").queue("other").queue("default")
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
def test_gangs_that_may_not_be_moved_stay(fields: dict[str, Any]) -> None:
    scenario = _one_movable(**fields).queue("default", max_min_runtime_ms=3 * 3600_000)
    decided = scenario.decide(ON)
    assert not decided.evicted()
    assert not decided.result.plans


def test_a_gang_is_not_moved_within_the_rest_time_after_its_start() -> None:
    scenario = _one_movable()
    assert not scenario.decide(config(rest_minutes=121)).evicted()
    assert scenario.decide(config(rest_minutes=120)).evicted()


def test_a_gang_with_a_waiting_member_is_not_moved() -> None:
    scenario = _one_movable()
    (pod,) = scenario.members("half-0")
    waits = replace(pod, uid=PodUid("more"), name="more", node=None, running_since=0)
    scenario.change("half-0", members=(pod, replace(waits, shape=replace(pod.shape), gated=True)))
    assert not scenario.decide(ON).evicted()


def test_no_gang_is_moved_for_a_gang_with_preemption_policy_never() -> None:
    assert not _one_movable().change("large", preemption_policy="Never").decide(ON).evicted()


def test_no_gang_is_moved_where_pods_that_end_free_enough_capacity() -> None:
    scenario = _one_movable()
    (pod,) = scenario.members("half-1")
    ending = replace(pod, deleting=True, ended=scenario.now // 1000)
    assert not scenario.change("half-1", members=(ending,)).decide(ON).evicted()


def test_a_plan_has_at_most_the_configured_number_of_moves() -> None:
    """Two gangs of one pod each must be moved for the large gang."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 2, gpu=8)
    for index in range(2):
        scenario.gang(f"in-{index}", 1, gpu=4, on=["a-0"], priority=0)
        scenario.gang(f"out-{index}", 1, gpu=4, on=[f"b-{index}"], priority=9)
    rested(scenario.gang("large", 1, gpu=8, priority=5))
    assert not scenario.decide(config(moves_max=1)).evicted()
    assert sorted(scenario.decide(config(moves_max=2)).evicted()) == ["in-0-0", "in-1-0"]


def test_no_gang_is_moved_shortly_after_a_node_became_unhealthy() -> None:
    scenario = _one_movable().nodes("c", 1, gpu=1)
    scenario.memory = scenario.decide(SchedulerConfig(actions=(ActionName.RELEASE,))).result.memory
    bad = replace(scenario._nodes[NodeName("c-0")], conditions={"Ready": "False"})
    scenario._nodes[NodeName("c-0")] = bad
    decided = scenario.decide(ON)
    assert not decided.evicted()
    scenario.memory, scenario.now = decided.result.memory, scenario.now + 300_001
    assert scenario.decide(ON).evicted()


def test_no_gang_is_moved_to_or_from_a_cordoned_node() -> None:
    scenario = _one_movable()
    scenario._nodes[NodeName("a-0")] = replace(scenario._nodes[NodeName("a-0")], unschedulable=True)
    assert not scenario.decide(ON).evicted()


def test_capacity_is_held_for_recreated_pods_without_a_group() -> None:
    """Their controller creates replacements with other names, which get the held capacity."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.pod("single", gpu=4, on=["a-0"]).gang(
        "stays", 1, gpu=4, on=["a-1"], disruption=Disruption(preemptible=False)
    )
    rested(scenario.gang("large", 1, gpu=8))
    decided = scenario.decide(ON)
    assert decided.evicted() == ["single-0"]
    recreated(scenario.terminate(decided)).gang("late", 1, gpu=4)
    last = scenario.decide(ON)
    assert last.placed() == ["large", "single-again"]
    assert not last.result.memory.moves


def test_gangs_are_moved_out_of_the_rack_that_a_gang_requires() -> None:
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="r1").nodes("b", 2, gpu=8, within="r2")
    scenario.gang("pair", 2, gpu=4, on=["a-0", "a-1"], required="rack")
    scenario.gang("rest", 1, gpu=8, on=["b-0"], priority=9)
    rested(scenario.gang("large", 2, gpu=8, required="rack"))
    decided = scenario.decide(ON)
    assert sorted(decided.evicted()) == ["pair-0", "pair-1"]
    (plan,) = decided.result.plans
    assert plan.moves[0].nodes == {"b-1": 2}


def test_nominated_capacity_is_not_used_in_a_plan() -> None:
    """A nomination of an earlier cycle holds the capacity."""
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


def test_freed_capacity_is_held_for_the_beneficiary_and_the_moved_pod() -> None:
    """The large gang and a moved pod will share the node; its free capacity is held for both."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 1, gpu=2)
    scenario.gang("pair", 2, gpu=2, on=["a-0", "a-0"])
    rested(scenario.gang("large", 1, gpu=6))
    decided = scenario.decide(ON)
    assert decided.result.plans[0].moves[0].nodes == {"a-0": 1, "b-0": 1}
    scenario.terminate(decided).queue("other").queue("default").gang("late", 1, gpu=2, queue="other")
    assert not scenario.decide(ON).placed()
    assert sorted(recreated(scenario).decide(ON).placed()) == ["large", "pair"]


def test_a_moved_gang_keeps_its_part_of_the_queue_limit() -> None:
    """While its pods are recreated, other gangs of its queue do not use that part."""
    scenario = scattered(queue="small").queue("small", limit={GPU: 12}).queue("default")
    scenario.terminate(scenario.decide(ON)).nodes("c", 1, gpu=4).gang("late", 1, gpu=1, queue="small")
    assert not scenario.decide(ON).placed()
    members = recreated(scenario).members("half-0")
    without = scenario.change("half-0", members=()).decide(ON)
    assert without.placed() == ["large"]
    scenario.take(without).change("half-0", members=members)
    assert scenario.decide(ON).placed() == ["half-0"]


def test_no_gang_is_preempted_for_a_gang_for_which_others_are_moved() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in range(2):
        scenario.gang(f"half-{index}", 1, gpu=4, on=[f"a-{index}"])
    rested(scenario.gang("large", 1, gpu=8, priority=5)).nodes("b", 1, gpu=8)
    fresh = scenario.gang("fresh", 1, gpu=8, on=["b-0"])
    decided = rested(fresh, minutes=1).decide(SchedulerConfig(actions=ACTIONS))
    assert [each.reason for each in decided.result.evictions] == ["Consolidated"]


def _chain(**fields: Any) -> Scenario:
    """The large gang needs node a. The gang on a must move to node b, and the gang on b to node c."""
    scenario = Scenario().nodes("a", 1, gpu=4).nodes("b", 1, gpu=4).nodes("c", 1, gpu=2).nodes("d", 1, gpu=2)
    for name, gpu, node in (("first", 4, "a"), ("second", 2, "b")):
        scenario.gang(name, 1, gpu=gpu, on=[f"{node}-0"], queue="moved")
    scenario.gang("candidate", 1, gpu=2, on=["d-0"], queue="third", priority=1)
    scenario.queue("moved", **fields).queue("third").queue("default")
    return rested(scenario.gang("large", 1, gpu=4, selector={"group": "a"}, queue="moved"))


def _partly_recreated(scenario: Scenario, name: str) -> Scenario:
    """The pod of this gang is recreated first."""
    (pod,) = scenario.members(name)
    scenario.capacity_version += 1
    fresh = replace(pod, uid=PodUid("fresh"), node=None, deleting=False, running_since=0)
    return scenario.change(name, members=(fresh,), started=False, starts_over=True)


def test_preemption_does_not_use_the_capacity_of_a_chain_of_moves() -> None:
    """The capacity that the second gang releases is held for the first: another gang needs other victims."""
    both = SchedulerConfig(actions=ACTIONS)
    scenario = _chain()
    decided = scenario.decide(both)
    assert decided.evicted() == ["first-0", "second-0"]
    scenario.terminate(decided).gang("urgent", 1, gpu=2, queue="third", priority=9)
    middle = scenario.decide(both)
    assert middle.evicted() == ["candidate-0"]
    assert not middle.placed()


def test_preemption_in_the_same_cycle_does_not_use_the_capacity_of_a_chain_of_moves() -> None:
    """The urgent gang would fit where the second one leaves, but that capacity is held for the first one."""
    scenario = Scenario().nodes("a", 1, gpu=4).nodes("b", 1, gpu=4).nodes("c", 1, gpu=3, cpu=4)
    scenario.queue("moved", priority=1).queue("third").nodes("d", 1, gpu=3)
    for name, gpu, node in (("first", 4, "a"), ("second", 3, "b")):
        scenario.gang(name, 1, gpu=gpu, cpu=1, on=[f"{node}-0"], queue="moved")
    scenario.gang("candidate", 1, gpu=3, on=["d-0"], queue="third", priority=1)
    scenario.gang("large", 1, gpu=4, selector={"group": "a"}, queue="moved")
    scenario.gang("urgent", 1, gpu=3, cpu=8, queue="third", priority=9)
    decided = rested(scenario).decide(SchedulerConfig(actions=ACTIONS))
    assert decided.evicted() == ["first-0", "second-0", "candidate-0"]


def test_the_beneficiary_of_moves_counts_for_its_queue_at_once() -> None:
    """The queue limit then excludes another gang of the queue, which must not evict a victim."""
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


def test_a_moved_gang_does_not_preempt_while_capacity_is_held_for_it() -> None:
    scenario = _chain()
    scenario.terminate(scenario.decide(ON))
    late = _partly_recreated(scenario, "first").nodes("e", 1, gpu=4)
    late.gang("low", 1, gpu=4, queue="moved", on=["e-0"], priority=-1)
    decided = late.decide(SchedulerConfig(actions=ACTIONS))
    assert not decided.evicted()
    assert decided.verdict("first").reason is Reason.INSUFFICIENT_CAPACITY


def test_in_a_strict_fifo_queue_a_moved_gang_does_not_wait_behind_its_beneficiary() -> None:
    scenario = _chain(ordering=Ordering.STRICT_FIFO)
    scenario.terminate(scenario.decide(ON))
    assert _partly_recreated(scenario, "second").decide(ON).placed() == ["second"]


def test_disruption_budgets_protect_gangs_from_moves() -> None:
    scenario = scattered(labels={"app": "x"})
    assert scenario.budget("tight", 1, app="x").decide(ON).evicted() == []
    assert len(scenario.budget("tight", 2, app="x").decide(ON).evicted()) == 2


def test_gangs_without_a_protecting_budget_are_moved_instead() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in range(2):
        scenario.gang(f"half-{index}", 1, gpu=4, on=[f"a-{index}"], labels={"app": f"x{index}"})
    rested(scenario.gang("large", 1, gpu=8))
    assert scenario.budget("tight", 0, app="x0").decide(ON).evicted() == ["half-1-0"]
    assert scenario.budget("tight", 0, app="x1").decide(ON).evicted() == ["half-0-0"]


def test_budgets_count_all_gangs_of_a_plan_together() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in range(4):
        scenario.gang(f"g{index}", 1, gpu=2, on=[f"a-{index % 2}"], labels={"app": "x"})
    rested(scenario.gang("large", 1, gpu=8))
    assert scenario.budget("tight", 1, app="x").decide(ON).evicted() == []
    assert len(scenario.budget("tight", 2, app="x").decide(ON).evicted()) == 2
