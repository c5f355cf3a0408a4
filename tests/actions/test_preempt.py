"""Preemption inside a queue: who goes, for whom, and what becomes of the room."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.retry import EVICTION_CHECK_MS, RetryConfig
from phalanx.model.api.pod_groups import Disruption, DisruptionMode
from phalanx.model.memory import Memory, Nomination
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Controller
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario

NOMINATION_MS = RetryConfig().nomination_ms
JOB = Controller(kind="Job", name="job", uid="job-uid")
WITHOUT = SchedulerConfig(actions=(ActionName.RELEASE, ActionName.RECOVER))


def _full(**fields: object) -> Scenario:
    """Two nodes of 8 GPUs, each full of one gang; a gang of higher priority wants one node."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 4, gpu=2, on=[f"a-{index}"] * 4, **fields)
    return scenario.gang("high", 4, gpu=2, priority=10)


def _room_being_made() -> Scenario:
    """Of two nodes, each full of one pod, the first is being freed for a more important one."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 1, gpu=8, on=[f"a-{index}"])
    first = scenario.gang("high", 1, gpu=8, priority=10).decide()
    assert first.evicted() == ["low-0-0"]
    scenario.memory = first.result.memory
    return scenario


def _gone(scenario: Scenario) -> Scenario:
    """What was being deleted is gone and made anew."""
    for name, gang in scenario._gangs.items():
        members = tuple(
            replace(pod, uid=f"{pod.uid}-again", node=None, deleting=False) if pod.deleting else pod
            for pod in gang.members
        )
        scenario._gangs[name] = replace(gang, members=members)
    scenario.capacity_version += 1
    return scenario


def test_one_gang_of_lower_priority_goes_whole() -> None:
    decided = _full().decide()
    assert sorted(decided.evicted()) == [f"low-0-{i}" for i in range(4)]
    assert {each.beneficiary for each in decided.result.evictions} == {"team/high"}
    assert {each.message for each in decided.result.evictions} == {
        "evicted so that team/high of queue default can start: its priority 10 is above 0 of team/low-0"
    }
    assert decided.verdict("high").reason is Reason.EVICTION_IN_PROGRESS
    assert "proven optimal" in str(decided.verdict("high").evidence)
    assert decided.result.memory.preempted == {GangId("gang-low-0"): GangId("gang-high")}


def test_nobody_goes_where_the_action_is_switched_off() -> None:
    assert not _full().decide(WITHOUT).evicted()


def test_equal_priority_evicts_nobody() -> None:
    assert not _full(priority=10).decide().evicted()


def test_a_gang_that_never_preempts_waits() -> None:
    scenario = _full()
    scenario.change("high", preemption_policy="Never")
    decided = scenario.decide()
    assert not decided.evicted()
    assert decided.verdict("high").reason is Reason.INSUFFICIENT_CAPACITY


def test_another_queue_is_no_prey_of_priority() -> None:
    scenario = Scenario().queue("one").queue("two").nodes("a", 1, gpu=8)
    scenario.gang("low", 4, gpu=2, on=["a-0"] * 4, queue="one").gang(
        "high", 4, gpu=2, priority=10, queue="two"
    )
    assert not scenario.decide().evicted()


def test_nothing_is_evicted_where_no_placement_follows() -> None:
    scenario = _full().gang("too-large", 3, gpu=8, priority=20)
    decided = scenario.decide()
    assert decided.reasons()["too-large"] is Reason.ABOVE_CLUSTER_CAPACITY
    assert {each.beneficiary for each in decided.result.evictions} == {"team/high"}


def test_the_least_important_goes_though_it_costs_more() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.gang("lowest", 8, gpu=1, on=["a-0"] * 8, priority=1).gang(
        "low", 1, gpu=8, on=["a-1"] * 1, priority=2
    )
    assert len(scenario.gang("high", 1, gpu=8, priority=3).decide().evicted()) == 8


def test_free_and_freed_room_are_combined() -> None:
    """Volcano #3291."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 1, gpu=8)
    decided = scenario.gang("low", 2, gpu=4, on=["a-0"] * 2).gang("high", 2, gpu=8, priority=10).decide()
    assert sorted(decided.evicted()) == ["low-0", "low-1"]


def test_the_rack_that_is_required_is_cleared_and_no_other() -> None:
    """KAI #1591: the full rack of lower priority, though the cluster has room elsewhere."""
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="r1").nodes("b", 2, gpu=8, within="r2")
    scenario.gang("cheap", 1, gpu=8, on=["a-0"] * 1).gang("dear", 8, gpu=1, on=["b-0"] * 8).gang(
        "same", 1, gpu=8, on=["b-1"] * 1, priority=10
    )
    decided = scenario.gang("high", 2, gpu=8, priority=10, required="rack").decide()
    assert decided.evicted() == ["cheap-0"]


def test_freed_room_that_lies_in_two_racks_is_none() -> None:
    """Kueue #5243: the two cheapest would free as much, but not in one rack."""
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="r1").nodes("b", 2, gpu=8, within="r2")
    scenario.gang("cheap-a", 1, gpu=8, on=["a-0"]).gang("cheap-b", 1, gpu=8, on=["b-0"])
    scenario.gang("same", 1, gpu=8, on=["a-1"], priority=10).gang("dear", 8, gpu=1, on=["b-1"] * 8)
    decided = scenario.gang("high", 2, gpu=8, priority=10, required="rack").decide()
    assert sorted(decided.evicted()) == ["cheap-b-0", *[f"dear-{number}" for number in range(8)]]


def test_surplus_goes_before_a_minimum() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("elastic", 8, gpu=1, min=4, on=["a-0"] * 8).gang("high", 2, gpu=1, priority=10)
    assert sorted(scenario.decide().evicted()) == ["elastic-6", "elastic-7"]


def test_members_that_may_go_alone_do() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("loose", 8, gpu=1, on=["a-0"] * 8, disruption=Disruption(mode=DisruptionMode.SINGLE))
    assert len(scenario.gang("high", 2, gpu=1, priority=10).decide().evicted()) == 2


def test_a_gang_that_loses_all_of_its_members_one_by_one_is_remembered_as_preempted() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("loose", 2, gpu=4, on=["a-0"] * 2, disruption=Disruption(mode=DisruptionMode.SINGLE))
    decided = scenario.gang("high", 1, gpu=8, priority=10).decide()
    assert len(decided.evicted()) == 2
    assert decided.result.memory.preempted == {GangId("gang-loose"): GangId("gang-high")}


def test_a_gang_that_goes_on_with_fewer_members_is_not() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8)
    scenario.gang("loose", 2, gpu=4, on=["a-0"] * 2, disruption=Disruption(mode=DisruptionMode.SINGLE))
    decided = scenario.gang("high", 1, gpu=4, priority=10).decide()
    assert decided.result.memory.preempted == {}


def test_what_is_not_preemptible_stays() -> None:
    assert not _full(disruption=Disruption(preemptible=False)).decide().evicted()


def test_a_gang_is_safe_until_it_ran_for_its_time() -> None:
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


def test_the_limit_of_a_queue_is_made_room_in_too() -> None:
    scenario = Scenario().queue("tenant", limit={GPU: 8}).nodes("a", 4, gpu=8)
    scenario.gang("low", 4, gpu=2, on=["a-0"] * 4, queue="tenant")
    decided = scenario.gang("high", 4, gpu=2, priority=10, queue="tenant").decide()
    assert len(decided.evicted()) == 4


def test_what_becomes_free_is_kept_for_whom_it_was_freed() -> None:
    scenario = _full()
    first = scenario.decide()
    scenario.dying(first)
    scenario.gang("early", 1, gpu=2, priority=10, created=-1, preemption_policy="Never")
    waiting = scenario.decide()
    assert waiting.placed() == []
    assert waiting.evicted() == []
    assert waiting.evicted() == []
    scenario.memory = waiting.result.memory
    assert _gone(scenario).decide().placed() == ["high"]


def test_part_of_the_room_is_kept_while_the_rest_is_still_held() -> None:
    scenario = _full()
    first = scenario.decide()
    scenario.dying(first)
    members = tuple(pod for pod in scenario.members("low-0") if pod.name != "low-0-0")
    scenario.change("low-0", members=members)
    scenario.gang("early", 1, gpu=2, priority=10, created=-1, preemption_policy="Never")
    assert scenario.decide().placed() == []


def test_what_is_freed_by_others_goes_to_others() -> None:
    scenario = _full()
    scenario.dying(scenario.decide())
    scenario.nodes("b", 1, gpu=2).gang("early", 1, gpu=2, priority=5)
    assert scenario.decide().nodes("early") == ["b-0"]


def test_an_eviction_that_was_lost_is_decided_again() -> None:
    scenario = _full()
    first = scenario.decide()
    scenario.memory = first.result.memory
    waiting = scenario.decide()
    assert waiting.evicted() == []
    assert waiting.result.wake_at == scenario.now + EVICTION_CHECK_MS
    scenario.now += EVICTION_CHECK_MS
    again = scenario.decide()
    assert sorted(again.evicted()) == sorted(first.evicted())


def test_whose_room_is_on_a_node_that_is_cordoned_gets_other_room_at_once() -> None:
    """Nothing was freed since the first try, so for no other reason would it be tried again."""
    scenario = _room_being_made()
    scenario._nodes[NodeName("a-0")] = replace(scenario._nodes[NodeName("a-0")], unschedulable=True)
    scenario.now += 1000
    assert scenario.decide().evicted() == ["low-1-0"]


def test_room_that_its_victim_still_holds_is_nobodys_when_it_is_given_up() -> None:
    scenario = _room_being_made()
    scenario.change("low-0", disruption=Disruption(preemptible=False))
    scenario.now += EVICTION_CHECK_MS
    second = scenario.gang("late", 2, gpu=8, priority=5).decide()
    assert second.evicted() == ["low-1-0"]
    assert second.reasons()["high"] is Reason.EVICTION_IN_PROGRESS
    assert second.reasons()["late"] is not Reason.EVICTION_IN_PROGRESS


@pytest.mark.parametrize("edit", [{"priority": 10}, {"disruption": Disruption(preemptible=False)}])
def test_an_eviction_that_was_lost_is_not_decided_again_for_whom_it_may_not_be(edit: dict[str, Any]) -> None:
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


def test_who_was_evicted_claims_nothing_and_evicts_nobody() -> None:
    scenario = _full()
    scenario.dying(scenario.decide())
    second = scenario.decide()
    scenario.memory = second.result.memory
    third = _gone(scenario).decide()
    assert third.placed() == ["high"]
    scenario.take(third)
    fourth = scenario.decide()
    assert fourth.evicted() == []
    assert fourth.reasons()["low-0"] is Reason.INSUFFICIENT_CAPACITY
    assert not scenario.take(fourth).decide().result.placements


def test_members_made_anew_wait_until_the_old_ones_are_being_deleted() -> None:
    scenario = _full()
    scenario.dying(scenario.decide())
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


def test_room_that_came_to_nothing_is_made_anew_a_few_times() -> None:
    """Each node is lost whose gang was evicted; after three of them nobody is evicted any more."""
    scenario = _full()
    scenario.nodes("c", 1, gpu=8)
    scenario.gang("low-2", 4, gpu=2, on=["c-0"] * 4)
    evicted = []
    for _ in range(6):
        decided = scenario.decide()
        evicted += decided.evicted()
        scenario.dying(decided)
        _gone(scenario)
        scenario.memory = decided.result.memory
        lost = {NodeName(each) for each in {p.node for p in decided.result.nominations}}
        for node in lost:
            scenario._nodes[node] = replace(scenario._nodes[node], unschedulable=True)
    assert len(evicted) == 12
    assert decided.result.wake_at is not None
    assert decided.result.wake_at > scenario.now


@pytest.mark.parametrize("how", ["gone", "not ready", "cordoned", "faulty"])
def test_room_on_a_node_that_is_of_no_use_any_more_is_not_kept(how: str) -> None:
    """Its victims may hang in deletion for as long as nobody hears of the kubelet: others go instead."""
    scenario = _full()
    first = scenario.decide()
    scenario.dying(first)
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


def test_room_is_not_kept_for_ever() -> None:
    scenario = _full()
    scenario.dying(scenario.decide())
    scenario.now += NOMINATION_MS
    decided = scenario.decide()
    assert sorted(decided.evicted()) == [f"low-1-{i}" for i in range(4)]


def test_the_verdict_says_how_many_victims_are_needed_at_least() -> None:
    """The two gangs of four members are cheaper together than the one that has run for a day."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.now = 60_000_000_000
    scenario.gang("old", 1, gpu=8, on=["a-0"])
    (pod,) = scenario.members("old")
    scenario.change("old", members=(replace(pod, running_since=scenario.now // 1000 - 86_400),))
    scenario.gang("low-0", 2, gpu=2, on=["a-1"] * 2).gang("low-1", 2, gpu=2, on=["a-1"] * 2)
    verdict = scenario.gang("high", 1, gpu=8, priority=10).decide().verdict("high")
    (proof,) = [each.finding for each in verdict.evidence if each.subject == "choice of victims"]
    assert proof == "2 victims, at least 1 needed (lower bound); cost 2070, proven optimal"


def test_room_is_kept_for_as_long_as_its_victims_may_take_to_end() -> None:
    """An hour of grace: whoever comes meanwhile, and is as important, does not take it piece by piece."""
    scenario = _full()
    scenario.dying(scenario.decide())
    hour = scenario.now // 1000 + 3600
    dying = tuple(replace(pod, grace=3600) for pod in scenario.members("low-0"))
    scenario.change("low-0", members=dying)
    scenario.memory = scenario.decide().result.memory
    scenario.now = hour * 1000
    scenario.change("low-0", members=dying[1:]).gang("small", 1, gpu=2, priority=10)
    waiting = scenario.decide()
    assert waiting.nodes("small") == []
    assert waiting.reasons()["high"] is Reason.EVICTION_IN_PROGRESS
    scenario.memory = waiting.result.memory
    scenario.now += NOMINATION_MS
    assert scenario.decide().nodes("small") == ["a-0"]


def test_others_are_not_asked_again_because_room_is_kept_for_longer() -> None:
    scenario = _full().gang("vast", 3, gpu=8, priority=5)
    scenario.dying(scenario.decide())
    dying = tuple(replace(pod, grace=3600) for pod in scenario.members("low-0"))
    scenario.change("low-0", members=dying)
    told = []
    for _ in range(2):
        scenario.memory = scenario.decide().result.memory
        told.append(scenario.memory)
    kept = [each.nominations[GangId("gang-high")].until for each in told]
    assert kept == [scenario.now + 3_600_000 + NOMINATION_MS] * 2
    assert len({each.refusals[GangId("gang-vast")].fingerprint for each in told}) == 1


def test_an_eviction_that_is_decided_again_makes_room_only_once() -> None:
    """Another gang needs other victims in the same cycle."""
    scenario = _full()
    scenario.memory = scenario.decide().result.memory
    scenario.now += EVICTION_CHECK_MS
    decided = scenario.gang("late", 4, gpu=2, priority=10).decide()
    assert len(decided.evicted()) == 8
    assert decided.reasons()["late"] is Reason.EVICTION_IN_PROGRESS


def test_room_is_kept_until_those_have_ended_too_that_were_leaving_anyway() -> None:
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


def test_all_roles_that_share_a_node_have_their_room_kept() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).gang("low", 4, gpu=2, on=["a-0"] * 4)
    scenario.gang("high", 2, gpu=3, priority=10, min=3, role="worker").role("high", 1, gpu=2, role="leader")
    (kept,) = scenario.decide().result.memory.nominations.values()
    assert kept.usage["a-0"][GPU] == 8
    assert {node: sorted(pods) for node, pods in kept.members.items()} == {
        "a-0": sorted(pod.uid for pod in scenario.members("high"))
    }


def test_when_room_is_given_up_others_are_tried_at_once() -> None:
    """Nobody is evicted for `high` any more, and it still does not fit: in this cycle the room was kept."""
    scenario = Scenario().nodes("n", 1, gpu=8).gang("high", 2, gpu=8, priority=5).gang("small", 1, gpu=1)
    kept = Nomination(usage={NodeName("n-0"): {GPU: 8}}, victims=(), until=scenario.now + 60_000, attempts=1)
    scenario.memory = Memory(nominations={GangId("gang-high"): kept})
    decided = scenario.decide()
    assert decided.placed() == []
    assert decided.result.wake_at == scenario.now
    decided = scenario.take(decided).decide()
    assert decided.placed() == ["small"]
    assert decided.result.wake_at != scenario.now
