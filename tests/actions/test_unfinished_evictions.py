"""Unfinished evictions, of an earlier leader or of this one, are completed and not extended."""

from msgspec.structs import replace
from phalanx.framework.retry import EVICTION_CHECK_MS
from phalanx.model.api.pod_groups import Disruption, DisruptionMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.names import GangId
from phalanx.model.pods import PodPhase
from phalanx.model.reasons import Reason

from tests.builders import Scenario


def _scenario(**fields: object) -> Scenario:
    """Two nodes of 8 GPUs, each full of one gang; a gang of higher priority needs one of them."""
    scenario = Scenario().nodes("a", 2, gpu=8)
    scenario.gang("first", 4, gpu=2, on=["a-0"] * 4)
    scenario.gang("second", 4, gpu=2, on=["a-1"] * 4, **fields)
    return scenario.gang("high", 4, gpu=2, priority=10)


def _with_condition(scenario: Scenario, gang: str, *indices: int) -> Scenario:
    """These members have the condition DisruptionTarget and are not being deleted."""
    members = tuple(
        replace(pod, disruption=EvictionReason.PREEMPTED) if index in indices else pod
        for index, pod in enumerate(scenario.members(gang))
    )
    return scenario.change(gang, members=members)


def _recreated(scenario: Scenario, gang: str, *indices: int) -> Scenario:
    """These members are gone, and their replacements wait."""
    members = tuple(
        replace(pod, uid=f"{pod.uid}-again", node=None) if index in indices else pod
        for index, pod in enumerate(scenario.members(gang))
    )
    return scenario.change(gang, members=members)


def test_a_new_leader_evicts_the_rest_of_the_gang_only() -> None:
    scenario = _recreated(_with_condition(_scenario(), "second", 1, 2, 3), "second", 0)
    decided = scenario.decide()
    assert sorted(decided.evicted()) == ["second-1", "second-2", "second-3"]
    assert decided.reasons()["second"] is Reason.PREEMPTED
    assert decided.result.memory.preempted == {GangId("gang-second"): GangId("")}


def test_members_without_the_condition_are_evicted_too() -> None:
    decided = _with_condition(_scenario(), "second", 0).decide()
    assert sorted(decided.evicted()) == [f"second-{index}" for index in range(4)]


def test_evicted_surplus_does_not_make_the_gang_preempted() -> None:
    """The gang keeps its minimum: the evicted pod was surplus, or members are evicted one by one."""
    alone = Disruption(mode=DisruptionMode.SINGLE)
    for scenario in (_scenario(min=3), _scenario(disruption=alone)):
        _with_condition(scenario, "second", 3)
        memory = scenario.decide().result.memory
        assert GangId("gang-second") not in memory.preempted


def test_conditions_with_reasons_of_other_components_are_ignored() -> None:
    scenario = _scenario()
    members = tuple(replace(pod, disruption="TerminationByKubelet") for pod in scenario.members("second"))
    decided = scenario.change("second", members=members).decide()
    assert sorted(decided.evicted()) == [f"first-{index}" for index in range(4)]


def test_the_eviction_of_a_finishing_gang_is_not_completed() -> None:
    scenario = _with_condition(_scenario(), "second", 1)
    first, *others = scenario.members("second")
    ended = replace(first, phase=PodPhase.SUCCEEDED, ran=(0, scenario.now // 1000))
    scenario.change("second", members=(ended, *others))
    assert not any(name.startswith("second") for name in scenario.decide().evicted())


def test_the_eviction_continues_after_the_beneficiary_has_started() -> None:
    """Half of the gang is gone, the other deletions were lost, and other capacity is free now."""
    scenario = _scenario()
    first = scenario.decide()
    (loser,) = {name.rsplit("-", 1)[0] for name in first.evicted()}
    scenario.memory = first.result.memory
    scenario.nodes("b", 1, gpu=8)
    scenario.capacity_version += 1
    scenario.now += EVICTION_CHECK_MS
    decided = _recreated(_with_condition(scenario, loser, 2, 3), loser, 0, 1).decide()
    assert "high" in decided.placed()
    assert sorted(decided.evicted()) == [f"{loser}-2", f"{loser}-3"]
    assert decided.result.memory.preempted == first.result.memory.preempted


def test_a_pod_that_joins_an_evicted_gang_is_not_evicted_with_it() -> None:
    scenario = _scenario()
    first = scenario.decide()
    (loser,) = {name.rsplit("-", 1)[0] for name in first.evicted()}
    scenario.memory = first.result.memory
    scenario.nodes("b", 1, gpu=8)
    scenario.capacity_version += 1
    decided = _recreated(scenario, loser, 0, 1, 2).decide()
    assert "high" in decided.placed()
    assert decided.evicted() == []
