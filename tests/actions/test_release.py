"""Release: partly bound gangs that never started are completed, or evicted whole after a grace period."""

from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.limits import PARTIAL_GANG_GRACE_MS
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.names import GangId
from phalanx.model.reasons import Reason

from tests.builders import Scenario


def partly_bound(**fields: object) -> Scenario:
    """Two of four members have nodes, and there are no other nodes."""
    return Scenario().nodes("n", 2, gpu=8).gang("g", 4, gpu=8, bound=2, **fields)


def test_a_partly_bound_gang_keeps_its_nodes_for_the_grace_period() -> None:
    scenario = partly_bound()
    first = scenario.decide()
    assert first.evicted() == []
    assert first.result.memory.partial_since == {GangId("gang-g"): scenario.now}
    assert first.result.wake_at == scenario.now + PARTIAL_GANG_GRACE_MS
    since = scenario.now
    scenario.take(first).now += PARTIAL_GANG_GRACE_MS - 1
    second = scenario.decide()
    assert second.evicted() == []
    assert second.result.wake_at == since + PARTIAL_GANG_GRACE_MS


def test_a_gang_without_a_required_role_is_incomplete_however_many_members_it_has() -> None:
    scenario = (
        Scenario().nodes("n", 2, gpu=8).gang("g", 2, min=2, gpu=8, role="worker", bound=2, started=False)
    )
    scenario.role("g", 0, min=1, role="worker").role("g", 1, min=1, role="ps", gpu=8)
    first = scenario.decide()
    assert first.result.memory.partial_since == {GangId("gang-g"): scenario.now}
    scenario.take(first).now += PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.evicted() == ["g-0", "g-1"]
    assert result.result.evictions[0].message == "only 0 of 1 members of role ps of team/g got nodes"


def test_its_members_are_evicted_after_the_grace_period_with_a_reason() -> None:
    scenario = partly_bound()
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.evicted() == ["g-0", "g-1"]
    (first, _) = result.result.evictions
    assert (first.reason, first.cycle, first.beneficiary) == ("GangIncomplete", 2, "")
    assert first.message == "only 2 of 4 members of team/g got nodes"
    assert result.reasons() == {"g": Reason.ABOVE_CLUSTER_CAPACITY}
    after = scenario.take(result).decide()
    assert after.evicted() == []
    assert after.result.memory.partial_since == {}
    assert after.result.wake_at is None


def test_it_is_completed_when_there_is_free_capacity_again() -> None:
    scenario = partly_bound().gang("other", 2, gpu=8, created=-1)
    scenario.take(scenario.decide()).nodes("m", 2, gpu=8).capacity_version += 1
    scenario.now += 2 * PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.where("g") == {"m": 2}
    assert result.evicted() == []
    assert scenario.take(result).decide().result.memory.partial_since == {}


def test_a_placement_whose_binds_fail_does_not_restart_the_grace_period() -> None:
    scenario = partly_bound()
    first = scenario.decide()
    scenario.take(first).nodes("m", 2, gpu=8).capacity_version += 1
    scenario.now += PARTIAL_GANG_GRACE_MS - 1
    placed = scenario.decide()
    assert placed.where("g") == {"m": 2}
    assert placed.result.memory.partial_since == first.result.memory.partial_since


def test_a_gang_that_started_is_never_released() -> None:
    scenario = partly_bound(started=True)
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    assert scenario.decide().evicted() == []


def test_a_gang_whose_missing_members_do_not_exist_is_released_too() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).gang("g", 2, min=4, gpu=8, bound=2)
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.evicted() == ["g-0", "g-1"]


def test_members_without_a_controller_stay_and_the_others_are_evicted() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).gang("g", 1, min=4, gpu=8, bound=1, controller=None)
    scenario.role("g", 1, gpu=8, bound=1).role("g", 2, gpu=8)
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.evicted() == ["g-1"]
    assert result.reasons() == {"g": Reason.UNMANAGED_PODS}
    assert "1 pod without controller remains" in result.verdict("g").message


def test_no_member_is_evicted_while_the_outcome_of_a_bind_is_unknown() -> None:
    scenario = partly_bound(assumed=True)
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    assert scenario.decide().evicted() == []


def test_a_gang_that_lost_members_before_its_binds_were_seen_is_looked_at_again() -> None:
    """No event tells that it is incomplete: the watch confirms binds that the scheduler expected."""
    scenario = partly_bound(assumed=True)
    first = scenario.decide()
    assert first.result.wake_at == scenario.now + PARTIAL_GANG_GRACE_MS
    scenario.take(first).now += PARTIAL_GANG_GRACE_MS
    second = scenario.decide()
    assert second.evicted() == []
    assert second.result.wake_at == scenario.now + PARTIAL_GANG_GRACE_MS
    seen = tuple(replace(pod, assumed=False) for pod in scenario.members("g"))
    scenario.take(second).change("g", members=seen).now += PARTIAL_GANG_GRACE_MS
    assert scenario.decide().evicted() == ["g-0", "g-1"]


def test_a_gang_whose_binds_are_all_in_flight_is_not_incomplete() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).gang("g", 2, gpu=8, bound=2, assumed=True, started=False)
    result = scenario.decide().result
    assert (dict(result.memory.partial_since), result.wake_at) == ({}, None)


def test_the_action_can_be_disabled() -> None:
    scenario = partly_bound()
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    assert scenario.decide(SchedulerConfig(actions=())).evicted() == []


def test_a_gang_with_too_few_subgroups_is_incomplete_however_many_members_it_has() -> None:
    scenario = Scenario().nodes("n", 3, gpu=8).gang("g", 3, min=2, gpu=8, bound=3, started=False)
    names = zip(scenario.members("g"), ("a", "b", "c"), strict=True)
    members = tuple(replace(pod, subgroup=name) for pod, name in names)
    parts = tuple(SubgroupSpec(name, least) for name, least in (("a", 1), ("b", 2), ("c", 2)))
    scenario.change("g", members=members, subgroups=parts, min_subgroups=2)
    scenario.take(scenario.decide()).now += PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.evicted() == ["g-0", "g-1", "g-2"]
    message = "only 1 of 2 subgroups, with 3 members in all, of team/g got nodes"
    assert result.result.evictions[0].message == message
