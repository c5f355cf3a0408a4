"""Preemption inside a queue: which victims are chosen, for which gang, and how freed capacity is held."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.retry import EVICTION_CHECK_MS, RetryConfig
from phalanx.model.api.pod_groups import Disruption, DisruptionMode
from phalanx.model.memory import Memory, Nomination
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.pods import Controller
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario

NOMINATION_MS = RetryConfig().nomination_ms
JOB = Controller(kind="Job", name="job", uid="job-uid")
WITHOUT = SchedulerConfig(actions=(ActionName.RELEASE, ActionName.RECOVER))


def _full(**fields: object) -> Scenario:
    """Two nodes of 8 GPUs, each full of one gang; a gang of higher priority needs one node."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 4, gpu=2, on=[f"a-{index}"] * 4, **fields)
    return scenario.gang("high", 4, gpu=2, priority=10)


def _with_nomination() -> Scenario:
    """Two nodes, each full of one pod; the first one is being freed for a pod of higher priority."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 1, gpu=8, on=[f"a-{index}"])
    first = scenario.gang("high", 1, gpu=8, priority=10).decide()
    assert first.evicted() == ["low-0-0"]
    scenario.memory = first.result.memory
    return scenario


def _recreated(scenario: Scenario) -> Scenario:
    """Pods that were being deleted are gone, and their controller created replacements."""
    for name, gang in scenario._gangs.items():
        members = tuple(
            replace(pod, uid=f"{pod.uid}-again", node=None, deleting=False) if pod.deleting else pod
            for pod in gang.members
        )
        scenario._gangs[name] = replace(gang, members=members)
    scenario.capacity_version += 1
    return scenario


def test_a_gang_of_lower_priority_is_evicted_whole() -> None:
    decided = _full().decide()
    assert sorted(decided.evicted()) == [f"low-0-{i}" for i in range(4)]
    assert {each.beneficiary for each in decided.result.evictions} == {"team/high"}
    assert {each.message for each in decided.result.evictions} == {
        "evicted so that team/high of queue default can start: its priority 10 is above 0 of team/low-0"
    }
    assert decided.verdict("high").reason is Reason.EVICTION_IN_PROGRESS
    assert "proven optimal" in str(decided.verdict("high").evidence)
    assert decided.result.memory.preempted == {GangId("gang-low-0"): GangId("gang-high")}


def test_no_gang_is_evicted_where_the_action_is_disabled() -> None:
    assert not _full().decide(WITHOUT).evicted()


def test_no_gang_of_equal_priority_is_evicted() -> None:
    assert not _full(priority=10).decide().evicted()


def test_a_gang_with_preemption_policy_never_waits() -> None:
    scenario = _full()
    scenario.change("high", preemption_policy="Never")
    decided = scenario.decide()
    assert not decided.evicted()
    assert decided.verdict("high").reason is Reason.INSUFFICIENT_CAPACITY


def test_priority_preempts_in_the_same_queue_only() -> None:
    scenario = Scenario().queue("one").queue("two").nodes("a", 1, gpu=8)
    scenario.gang("low", 4, gpu=2, on=["a-0"] * 4, queue="one").gang(
        "high", 4, gpu=2, priority=10, queue="two"
    )
    assert not scenario.decide().evicted()


def test_no_gang_is_evicted_for_a_gang_that_would_not_fit() -> None:
    scenario = _full().gang("too-large", 3, gpu=8, priority=20)
    decided = scenario.decide()
    assert decided.reasons()["too-large"] is Reason.ABOVE_CLUSTER_CAPACITY
    assert {each.beneficiary for each in decided.result.evictions} == {"team/high"}


def test_the_lowest_priority_is_evicted_though_it_costs_more() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.gang("lowest", 8, gpu=1, on=["a-0"] * 8, priority=1).gang(
        "low", 1, gpu=8, on=["a-1"] * 1, priority=2
    )
    assert len(scenario.gang("high", 1, gpu=8, priority=3).decide().evicted()) == 8


def test_free_and_freed_capacity_are_combined() -> None:
    """Volcano #3291."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 1, gpu=8)
    decided = scenario.gang("low", 2, gpu=4, on=["a-0"] * 2).gang("high", 2, gpu=8, priority=10).decide()
    assert sorted(decided.evicted()) == ["low-0", "low-1"]


def test_victims_are_chosen_in_one_rack_where_a_rack_is_required() -> None:
    """KAI #1591: a rack must be freed, though the cluster has enough free capacity in sum."""
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="r1").nodes("b", 2, gpu=8, within="r2")
    scenario.gang("cheap", 1, gpu=8, on=["a-0"] * 1).gang("costly", 8, gpu=1, on=["b-0"] * 8).gang(
        "same", 1, gpu=8, on=["b-1"] * 1, priority=10
    )
    decided = scenario.gang("high", 2, gpu=8, priority=10, required="rack").decide()
    assert decided.evicted() == ["cheap-0"]


def test_capacity_freed_in_two_racks_does_not_satisfy_a_required_rack() -> None:
    """Kueue #5243: the two cheapest victims would free as much, but not in one rack."""
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="r1").nodes("b", 2, gpu=8, within="r2")
    scenario.gang("cheap-a", 1, gpu=8, on=["a-0"]).gang("cheap-b", 1, gpu=8, on=["b-0"])
    scenario.gang("same", 1, gpu=8, on=["a-1"], priority=10).gang("costly", 8, gpu=1, on=["b-1"] * 8)
    decided = scenario.gang("high", 2, gpu=8, priority=10, required="rack").decide()
    assert sorted(decided.evicted()) == ["cheap-b-0", *[f"costly-{number}" for number in range(8)]]


def test_surplus_is_evicted_before_a_minimum() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("elastic", 8, gpu=1, min=4, on=["a-0"] * 8).gang("high", 2, gpu=1, priority=10)
    assert sorted(scenario.decide().evicted()) == ["elastic-6", "elastic-7"]


def test_members_are_evicted_one_by_one_in_disruption_mode_single() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("loose", 8, gpu=1, on=["a-0"] * 8, disruption=Disruption(mode=DisruptionMode.SINGLE))
    assert len(scenario.gang("high", 2, gpu=1, priority=10).decide().evicted()) == 2


def test_a_gang_that_loses_all_members_one_by_one_is_recorded_as_preempted() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("loose", 2, gpu=4, on=["a-0"] * 2, disruption=Disruption(mode=DisruptionMode.SINGLE))
    decided = scenario.gang("high", 1, gpu=8, priority=10).decide()
    assert len(decided.evicted()) == 2
    assert decided.result.memory.preempted == {GangId("gang-loose"): GangId("gang-high")}


def test_a_gang_that_keeps_some_members_is_not_recorded_as_preempted() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("loose", 2, gpu=4, on=["a-0"] * 2, disruption=Disruption(mode=DisruptionMode.SINGLE))
    decided = scenario.gang("high", 1, gpu=4, priority=10).decide()
    assert decided.result.memory.preempted == {}


def test_a_gang_that_is_not_preemptible_is_not_evicted() -> None:
    assert not _full(disruption=Disruption(preemptible=False)).decide().evicted()


def test_a_gang_is_protected_for_its_minimum_run_time() -> None:
    scenario = _full(disruption=Disruption(min_runtime="1m"))
    for name in ("low-0", "low-1"):
        members = tuple(replace(pod, running_since=scenario.now // 1000) for pod in scenario.members(name))
        scenario.change(name, members=members)
    decided = scenario.decide()
    assert not decided.evicted()
    assert decided.result.wake_at == scenario.now + 60_000
    scenario.take(decided)
    scenario.now += 60_000
    assert len(scenario.decide().evicted()) == 4


def test_victims_are_chosen_where_the_queue_limit_is_reached() -> None:
    scenario = Scenario().queue("tenant", limit={GPU: 8}).nodes("a", 4, gpu=8)
    scenario.gang("low", 4, gpu=2, on=["a-0"] * 4, queue="tenant")
    decided = scenario.gang("high", 4, gpu=2, priority=10, queue="tenant").decide()
    assert len(decided.evicted()) == 4


def test_freed_capacity_is_held_for_the_beneficiary() -> None:
    scenario = _full()
    first = scenario.decide()
    scenario.terminate(first)
    scenario.gang("early", 1, gpu=2, priority=10, created=-1, preemption_policy="Never")
    waiting = scenario.decide()
    assert waiting.placed() == []
    assert waiting.evicted() == []
    assert waiting.evicted() == []
    scenario.memory = waiting.result.memory
    assert _recreated(scenario).decide().placed() == ["high"]


def test_partly_freed_capacity_is_held_for_the_beneficiary() -> None:
    scenario = _full()
    first = scenario.decide()
    scenario.terminate(first)
    members = tuple(pod for pod in scenario.members("low-0") if pod.name != "low-0-0")
    scenario.change("low-0", members=members)
    scenario.gang("early", 1, gpu=2, priority=10, created=-1, preemption_policy="Never")
    assert scenario.decide().placed() == []


def test_other_free_capacity_is_not_held_for_the_beneficiary() -> None:
    scenario = _full()
    scenario.terminate(scenario.decide())
    scenario.nodes("b", 1, gpu=2).gang("early", 1, gpu=2, priority=5)
    assert scenario.decide().nodes("early") == ["b-0"]


def test_a_lost_eviction_is_decided_again() -> None:
    scenario = _full()
    first = scenario.decide()
    scenario.memory = first.result.memory
    waiting = scenario.decide()
    assert waiting.evicted() == []
    assert waiting.result.wake_at == scenario.now + EVICTION_CHECK_MS
    scenario.now += EVICTION_CHECK_MS
    again = scenario.decide()
    assert sorted(again.evicted()) == sorted(first.evicted())


def test_a_nomination_on_a_cordoned_node_is_replaced_at_once() -> None:
    """Nothing was freed since the first try, so there is no other reason to try again."""
    scenario = _with_nomination()
    scenario._nodes[NodeName("a-0")] = replace(scenario._nodes[NodeName("a-0")], unschedulable=True)
    scenario.now += 1000
    assert scenario.decide().evicted() == ["low-1-0"]


def test_capacity_of_a_dropped_nomination_belongs_to_its_victim_again() -> None:
    scenario = _with_nomination()
    scenario.change("low-0", disruption=Disruption(preemptible=False))
    scenario.now += EVICTION_CHECK_MS
    second = scenario.gang("late", 2, gpu=8, priority=5).decide()
    assert second.evicted() == ["low-1-0"]
    assert second.reasons()["high"] is Reason.EVICTION_IN_PROGRESS
    assert second.reasons()["late"] is not Reason.EVICTION_IN_PROGRESS


@pytest.mark.parametrize("edit", [{"priority": 10}, {"disruption": Disruption(preemptible=False)}])
def test_a_lost_eviction_is_not_repeated_where_the_victim_is_protected_now(edit: dict[str, Any]) -> None:
    scenario = _full()
    scenario.memory = scenario.decide().result.memory
    for name in ("low-0", "low-1"):
        scenario.change(name, **edit)
    assert scenario.decide().reasons()["high"] is Reason.EVICTION_IN_PROGRESS
    scenario.now += EVICTION_CHECK_MS
    second = scenario.decide()
    assert second.evicted() == []
    assert second.result.memory.nominations[GangId("gang-high")].usage == {}
    assert second.result.memory.preempted == {}
    assert second.reasons()["high"] is Reason.INSUFFICIENT_CAPACITY
    assert second.result.wake_at == scenario.now


def test_an_evicted_gang_holds_no_capacity_and_evicts_no_gang() -> None:
    scenario = _full()
    scenario.terminate(scenario.decide())
    second = scenario.decide()
    scenario.memory = second.result.memory
    third = _recreated(scenario).decide()
    assert third.placed() == ["high"]
    scenario.take(third)
    fourth = scenario.decide()
    assert fourth.evicted() == []
    assert fourth.reasons()["low-0"] is Reason.INSUFFICIENT_CAPACITY
    assert not scenario.take(fourth).decide().result.placements


def test_recreated_members_wait_until_the_old_ones_are_being_deleted() -> None:
    scenario = _full()
    scenario.terminate(scenario.decide())
    scenario.nodes("b", 2, gpu=8)
    new = tuple(
        replace(pod, uid=f"{pod.uid}-new", node=None, deleting=False) for pod in scenario.members("low-0")
    )
    first, *others = scenario.members("low-0")
    scenario.change("low-0", members=(replace(first, deleting=False), *others, *new))
    decided = scenario.decide()
    assert decided.reasons()["low-0"] is Reason.PREEMPTED
    scenario.take(decided)
    scenario.change("low-0", members=(first, *others, *new))
    scenario.capacity_version += 1
    assert "low-0" in scenario.decide().placed()


def test_failed_nominations_are_repeated_a_bounded_number_of_times() -> None:
    """Each freed node is cordoned; after three attempts no gang is evicted any more."""
    scenario = _full()
    scenario.nodes("c", 1, gpu=8)
    scenario.gang("low-2", 4, gpu=2, on=["c-0"] * 4)
    evicted = []
    for _ in range(6):
        decided = scenario.decide()
        evicted += decided.evicted()
        scenario.terminate(decided)
        _recreated(scenario)
        scenario.memory = decided.result.memory
        lost = {NodeName(each) for each in {p.node for p in decided.result.nominations}}
        for node in lost:
            scenario._nodes[node] = replace(scenario._nodes[node], unschedulable=True)
    assert len(evicted) == 12
    assert decided.result.wake_at is not None
    assert decided.result.wake_at > scenario.now


@pytest.mark.parametrize("how", ["gone", "not ready", "cordoned", "faulty"])
def test_a_nomination_on_an_unusable_node_is_dropped(how: str) -> None:
    """Its victims may hang in deletion while the kubelet is unreachable: other victims are chosen."""
    scenario = _full()
    first = scenario.decide()
    scenario.terminate(first)
    name = NodeName("a-0")
    changed = {
        "not ready": {"conditions": {"Ready": "Unknown"}},
        "cordoned": {"unschedulable": True},
        "faulty": {"conditions": {"GpuXidError": "True"}},
    }
    if how == "gone":
        del scenario._nodes[name]
    else:
        scenario._nodes[name] = replace(scenario._nodes[name], **changed[how])
    assert sorted(first.evicted()) == [f"low-0-{i}" for i in range(4)]
    assert sorted(scenario.decide().evicted()) == [f"low-1-{i}" for i in range(4)]


def test_a_nomination_expires() -> None:
    scenario = _full()
    scenario.terminate(scenario.decide())
    scenario.now += NOMINATION_MS
    decided = scenario.decide()
    assert sorted(decided.evicted()) == [f"low-1-{i}" for i in range(4)]


def test_the_verdict_reports_the_number_and_the_loss_of_victims() -> None:
    """The two gangs of two members lose less together than the gang that has run for a day."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.now = 60_000_000_000
    scenario.gang("old", 1, gpu=8, on=["a-0"])
    (pod,) = scenario.members("old")
    scenario.change("old", members=(replace(pod, running_since=scenario.now // 1000 - 86_400),))
    scenario.gang("low-0", 2, gpu=2, on=["a-1"] * 2).gang("low-1", 2, gpu=2, on=["a-1"] * 2)
    verdict = scenario.gang("high", 1, gpu=8, priority=10).decide().verdict("high")
    (proof,) = [each.finding for each in verdict.evidence if each.subject == "choice of victims"]
    assert proof == "2 victims; cost 68, proven optimal"


def test_a_nomination_lasts_for_the_grace_period_of_its_victims() -> None:
    """The grace period is an hour: gangs of equal priority that arrive meanwhile must not use parts of it."""
    scenario = _full()
    scenario.terminate(scenario.decide())
    hour = scenario.now // 1000 + 3600
    terminating = tuple(replace(pod, grace=3600) for pod in scenario.members("low-0"))
    scenario.change("low-0", members=terminating)
    scenario.memory = scenario.decide().result.memory
    scenario.now = hour * 1000
    scenario.change("low-0", members=terminating[1:]).gang("small", 1, gpu=2, priority=10)
    waiting = scenario.decide()
    assert waiting.nodes("small") == []
    assert waiting.reasons()["high"] is Reason.EVICTION_IN_PROGRESS
    scenario.memory = waiting.result.memory
    scenario.now += NOMINATION_MS
    assert scenario.decide().nodes("small") == ["a-0"]


def test_a_longer_nomination_does_not_retry_other_gangs() -> None:
    scenario = _full().gang("vast", 3, gpu=8, priority=5)
    scenario.terminate(scenario.decide())
    terminating = tuple(replace(pod, grace=3600) for pod in scenario.members("low-0"))
    scenario.change("low-0", members=terminating)
    memories = []
    for _ in range(2):
        scenario.memory = scenario.decide().result.memory
        memories.append(scenario.memory)
    kept = [each.nominations[GangId("gang-high")].until for each in memories]
    assert kept == [scenario.now + 3_600_000 + NOMINATION_MS] * 2
    vast = [each.refused_starts[QueueName("default")][GangId("gang-vast")] for each in memories]
    assert vast[0].fingerprint == vast[1].fingerprint


def test_a_repeated_eviction_frees_capacity_only_once() -> None:
    """Another gang needs other victims in the same cycle."""
    scenario = _full()
    scenario.memory = scenario.decide().result.memory
    scenario.now += EVICTION_CHECK_MS
    decided = scenario.gang("late", 4, gpu=2, priority=10).decide()
    assert len(decided.evicted()) == 8
    assert decided.reasons()["late"] is Reason.EVICTION_IN_PROGRESS


def test_a_nomination_includes_pods_that_were_ending_before() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("leaves", 1, gpu=4, on=["a-0"]).gang("low", 1, gpu=4, on=["a-0"])
    (pod,) = scenario.members("leaves")
    scenario.change("leaves", members=(replace(pod, deleting=True, ended=scenario.now // 1000),))
    first = scenario.gang("high", 1, gpu=8, priority=10).decide()
    assert first.evicted() == ["low-0"]
    scenario.memory = first.result.memory
    scenario.remove("low").gang("small", 1, gpu=4)
    for _ in range(2):
        waiting = scenario.decide()
        assert not waiting.placed()
        scenario.memory = waiting.result.memory
        scenario.now += 20_000
    assert waiting.evicted() == []
    assert scenario.remove("leaves").decide().placed() == ["high"]


def test_a_nomination_covers_all_roles_on_a_node() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).gang("low", 4, gpu=2, on=["a-0"] * 4)
    scenario.gang("high", 2, gpu=3, priority=10, min=3, role="worker").role("high", 1, gpu=2, role="leader")
    (kept,) = scenario.decide().result.memory.nominations.values()
    assert kept.usage["a-0"][GPU] == 8
    assert {node: sorted(pods) for node, pods in kept.members.items()} == {
        "a-0": sorted(pod.uid for pod in scenario.members("high"))
    }


def test_other_gangs_are_tried_at_once_when_a_nomination_is_dropped() -> None:
    """`high` does not fit and evicts no gang; its nomination still holds the capacity in the first cycle."""
    scenario = Scenario().nodes("n", 1, gpu=8).gang("high", 2, gpu=8, priority=5).gang("small", 1, gpu=1)
    kept = Nomination(usage={NodeName("n-0"): {GPU: 8}}, victims=(), until=scenario.now + 60_000, attempts=1)
    scenario.memory = Memory(nominations={GangId("gang-high"): kept})
    decided = scenario.decide()
    assert decided.placed() == []
    assert decided.result.wake_at == scenario.now
    decided = scenario.take(decided).decide()
    assert decided.placed() == ["small"]
    assert decided.result.wake_at != scenario.now
