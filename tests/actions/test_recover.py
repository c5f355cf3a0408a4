"""Recovery of started gangs that lose members, by the modes of `spec.recovery`."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import EVICTION_CHECK_MS
from phalanx.limits import NODE_LOSS_GRACE_MS
from phalanx.model.api.pod_groups import Recovery, RecoveryMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Taint
from phalanx.model.pod_failures import PodFailure
from phalanx.model.pods import Pod, PodPhase, Toleration
from phalanx.model.reasons import Reason

from tests.builders import Scenario

REPLACE, RESTART, WAIT = RecoveryMode.REPLACE, RecoveryMode.RESTART, RecoveryMode.WAIT
NOW_S = 1000
BY_NODE = {mode: Recovery(on_node_loss=mode) for mode in RecoveryMode}
BY_MEMBER = {mode: Recovery(on_member_failure=mode) for mode in RecoveryMode}


def cluster(recovery: Recovery, **fields: object) -> Scenario:
    """A gang of two on two of three nodes."""
    scenario = Scenario().nodes("n", 3, gpu=1)
    return scenario.gang("g", 2, gpu=1, on=("n-0", "n-1"), recovery=recovery, **fields)


def lose_node(scenario: Scenario, index: int = 1) -> Scenario:
    """The kubelet of this node stops reporting."""
    name = NodeName(f"n-{index}")
    scenario._nodes[name] = replace(scenario._nodes[name], conditions={"Ready": "Unknown"})
    return scenario


def edit(scenario: Scenario, index: int, **fields: object) -> Scenario:
    members = list(scenario.members("g"))
    members[index] = replace(members[index], **fields)
    return scenario.change("g", members=tuple(members))


def fail(scenario: Scenario, index: int = 1, **fields: object) -> Scenario:
    failed = {"phase": PodPhase.FAILED, "failure": PodFailure.CONTAINER, "ended": NOW_S, **fields}
    return edit(scenario, index, **failed)


def after(scenario: Scenario, ms: int) -> list[str]:
    """The pods that are evicted this long after the first cycle that saw the member loss."""
    first = scenario.decide()
    if ms:
        assert first.evicted() == []
        scenario.memory = first.result.memory
        scenario.now += ms
    return scenario.decide().evicted()


def fresh(pod: Pod, **fields: object) -> Pod:
    made = {"uid": PodUid(f"{pod.uid}-again"), "node": None, "phase": PodPhase.PENDING, "created": NOW_S}
    return replace(pod, **{**made, "failure": None, "ended": 0, "deleting": False, **fields})


# --- the loss of a node -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "evicted"), [(REPLACE, ["g-1"]), (RESTART, ["g-0", "g-1"]), (WAIT, [])])
def test_recovery_from_a_lost_node_starts_after_the_grace_period(
    mode: RecoveryMode, evicted: list[str]
) -> None:
    scenario = lose_node(cluster(BY_NODE[mode]))
    assert scenario.decide().result.wake_at == (None if mode is WAIT else scenario.now + NODE_LOSS_GRACE_MS)
    assert after(scenario, NODE_LOSS_GRACE_MS - 1) == []
    scenario.now += 1
    assert scenario.decide().evicted() == evicted


def test_no_pod_is_evicted_without_a_recovery_mode() -> None:
    scenario = lose_node(cluster(Recovery()))
    assert after(scenario, 10 * NODE_LOSS_GRACE_MS) == []


def test_the_grace_period_of_the_gang_applies() -> None:
    scenario = lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="1s")))
    assert after(scenario, 1000) == ["g-1"]
    assert lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="0s"))).decide().evicted() == ["g-1"]


def test_a_member_stays_on_a_node_that_recovers_within_the_grace_period() -> None:
    scenario = lose_node(cluster(BY_NODE[REPLACE]))
    assert after(scenario, NODE_LOSS_GRACE_MS - 1) == []
    scenario.nodes("n", 3, gpu=1)
    back = scenario.decide()
    assert (back.evicted(), dict(back.result.memory.member_losses)) == ([], {})
    scenario.memory = back.result.memory
    lose_node(scenario)
    scenario.now += 10
    assert scenario.decide().evicted() == []


@pytest.mark.parametrize("how", ["gone", "taint", "not ready"])
def test_deleted_tainted_and_unready_nodes_are_lost(how: str) -> None:
    scenario = cluster(Recovery(on_node_loss=REPLACE, grace_period="0s"))
    name = NodeName("n-1")
    if how == "gone":
        del scenario._nodes[name]
    elif how == "taint":
        scenario._nodes[name] = replace(scenario._nodes[name], taints=(Taint("dead", "NoExecute"),))
    else:
        scenario._nodes[name] = replace(scenario._nodes[name], conditions={"Ready": "False"})
    assert scenario.decide().evicted() == ["g-1"]


def test_tolerated_and_no_schedule_taints_lose_no_member() -> None:
    scenario = cluster(
        Recovery(on_node_loss=REPLACE, grace_period="0s"), tolerations=(Toleration("dead", "Exists"),)
    )
    taints = (Taint("dead", "NoExecute"), Taint("busy", "NoSchedule"))
    scenario._nodes[NodeName("n-1")] = replace(scenario._nodes[NodeName("n-1")], taints=taints)
    assert scenario.decide().evicted() == []


def test_a_recreated_pod_is_placed_while_the_old_one_hangs_in_deletion() -> None:
    scenario = lose_node(cluster(BY_NODE[REPLACE]))
    edit(scenario, 1, deleting=True, ended=NOW_S)
    members = scenario.members("g")
    scenario.change("g", members=(*members, fresh(members[1])), started=True)
    assert scenario.decide().nodes("g") == ["n-2"]


# --- restarts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "evicted"), [(REPLACE, []), (RESTART, ["g-0"]), (WAIT, [])])
def test_recovery_from_a_failed_member_starts_at_once(mode: RecoveryMode, evicted: list[str]) -> None:
    scenario = fail(cluster(BY_MEMBER[mode], started=True))
    assert scenario.decide().evicted() == evicted


def test_a_restarting_gang_gets_no_nodes_before_all_members_are_being_deleted() -> None:
    scenario = fail(cluster(BY_MEMBER[RESTART], started=True))
    members = scenario.members("g")
    scenario.change("g", members=(*members, fresh(members[1])))
    decided = scenario.decide()
    assert decided.placements("g") == []
    assert decided.verdict("g").reason is Reason.RECOVERING
    assert "failure of member g-1 on node n-1" in decided.verdict("g").message


def test_a_restart_continues_after_its_cause_is_gone() -> None:
    scenario = fail(cluster(Recovery(on_member_failure=RESTART, grace_period="1s"), started=True))
    scenario.memory = scenario.decide().result.memory
    scenario.now += 1000
    members = scenario.members("g")
    scenario.change("g", members=(members[0], fresh(members[1])))
    assert scenario.decide().evicted() == ["g-0"]


@pytest.mark.parametrize("cause", ["failed", "stuck"])
def test_a_gang_that_was_restarted_is_not_restarted_again(cause: str) -> None:
    """Not even by a restarted scheduler without memory."""
    modes = Recovery(on_node_loss=RESTART, on_member_failure=RESTART, grace_period="0s")
    scenario = fail(cluster(modes, started=True))
    old = scenario.members("g")[1]
    if cause == "stuck":
        lose_node(scenario)
        old = replace(old, phase=PodPhase.RUNNING, failure=None, deleting=True, ended=NOW_S)
    running = [
        fresh(pod, uid=PodUid(f"new-{pod.index}"), node=NodeName(node), phase=PodPhase.RUNNING, created=NOW_S)
        for pod, node in zip(scenario.members("g"), ("n-0", "n-2"), strict=True)
    ]
    scenario.change("g", members=(old, *running))
    assert scenario.decide().evicted() == []
    before = replace(running[0], created=NOW_S - 1)
    scenario.change("g", members=(old, before, running[1]))
    assert scenario.decide().evicted() == ["g-0", "g-1"]


def test_members_created_during_a_restart_are_not_restarted_again() -> None:
    """The last old member hangs on a lost node, and was deleted later than the others."""
    scenario = lose_node(cluster(Recovery(on_node_loss=RESTART, grace_period="0s"), started=True))
    first, stuck = scenario.members("g")
    stuck = replace(stuck, deleting=True, ended=NOW_S + 20)
    scenario.memory = scenario.decide().result.memory
    scenario.change("g", members=(stuck, fresh(first)))
    scenario.memory = scenario.decide().result.memory
    young = fresh(first, node=NodeName("n-0"), phase=PodPhase.RUNNING)
    also = fresh(stuck, node=NodeName("n-2"), phase=PodPhase.RUNNING, created=NOW_S + 20)
    assert scenario.change("g", members=(stuck, young, also)).decide().evicted() == []
    scenario.memory = replace(scenario.memory, deleting_members={})
    assert scenario.decide().evicted() == ["g-0", "g-1"]


def test_a_second_restart_reports_its_own_cause() -> None:
    """Not the pod that failed before the first restart, which a Job keeps."""
    scenario = fail(cluster(Recovery(on_member_failure=RESTART, grace_period="0s"), started=True))
    first, old = scenario.members("g")
    again = fresh(first, node=NodeName("n-0"), phase=PodPhase.FAILED, ended=NOW_S + 10)
    again = replace(again, failure=PodFailure.CONTAINER)
    rest = fresh(old, node=NodeName("n-2"), phase=PodPhase.RUNNING)
    scenario.change("g", members=(old, again, rest))
    evictions = scenario.decide().result.evictions
    assert ["failure of member g-0 on node n-0" in each.message for each in evictions] == [True]


def test_a_gang_that_lost_all_members_starts_whole_or_not_at_all() -> None:
    scenario = Scenario().nodes("n", 1, gpu=1).gang("g", 2, gpu=1, starts_over=True)
    assert scenario.decide().placements("g") == []
    scenario.nodes("n", 2, gpu=1)
    assert len(scenario.decide().nodes("g")) == 2


def test_pods_without_a_controller_are_not_evicted() -> None:
    scenario = lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="0s"), controller=None))
    decided = scenario.decide()
    assert decided.evicted() == []
    assert decided.verdict("g").reason is Reason.UNMANAGED_PODS
    members = scenario.change("g", recovery=BY_MEMBER[RESTART], started=True).members("g")
    fail(scenario).change("g", members=(*scenario.members("g"), fresh(members[1])))
    decided = scenario.decide()
    assert (decided.evicted(), decided.verdict("g").reason) == ([], Reason.UNMANAGED_PODS)


# --- nodes with wrong clocks --------------------------------------------------------------------------------


def running(*created: int) -> Scenario:
    """The gang of two with members created at these times; it restarts at once after a failure."""
    scenario = cluster(Recovery(on_member_failure=RESTART, grace_period="0s"), started=True)
    for index, at in enumerate(created):
        edit(scenario, index, created=at)
    return scenario


def seen_before(scenario: Scenario, **failure: object) -> Scenario:
    """A member fails after this leader has seen the gang run."""
    scenario.memory = scenario.decide().result.memory
    return fail(scenario, **failure)


@pytest.mark.parametrize("off_s", [-300, 0, 300])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_failure_leads_to_one_restart_whatever_the_clock_of_its_node(off_s: int, *, is_new: bool) -> None:
    """For the leader that saw it, and for a new one. The Job keeps the failed pod."""
    scenario = running(NOW_S - 9, NOW_S - 9)
    scenario = (fail if is_new else seen_before)(scenario, ended=NOW_S + off_s)
    first = scenario.decide()
    assert first.evicted() == ["g-0"]
    scenario.memory = first.result.memory
    assert scenario.decide().evicted() == ["g-0"]
    before, failed = scenario.members("g")
    replacements = [
        fresh(before, node=NodeName("n-0"), phase=PodPhase.RUNNING, created=NOW_S + 2),
        fresh(failed, node=NodeName("n-2"), phase=PodPhase.RUNNING, created=NOW_S + 1),
    ]
    scenario.change("g", members=(failed, *replacements))
    again = scenario.decide()
    assert (again.evicted(), dict(again.result.memory.member_losses)) == ([], {})


def test_a_new_leader_restarts_a_gang_as_old_as_its_failed_member() -> None:
    """However old the failure is by the clock of its node."""
    assert fail(running(NOW_S - 9, NOW_S - 9), ended=NOW_S - 300).decide().evicted() == ["g-0"]


def test_a_failed_pod_that_never_had_a_node_causes_no_restart_of_younger_members() -> None:
    scenario = seen_before(running(NOW_S, NOW_S - 1), node=None, ended=0)
    assert scenario.decide().evicted() == []


# --- restarts that an earlier leader started ----------------------------------------------------------------


def with_condition(scenario: Scenario, *indices: int, **fields: object) -> Scenario:
    """These members have the condition of a gang restart. Its cause is gone."""
    for index in indices:
        edit(scenario, index, disruption=EvictionReason.GANG_RESTARTED, disrupted=NOW_S, **fields)
    return scenario


@pytest.mark.parametrize("which", [(0,), (0, 1)])
def test_the_next_leader_completes_a_restart(which: tuple[int, ...]) -> None:
    """At once, since the grace period has already passed."""
    recovery = Recovery(on_member_failure=RESTART, grace_period="1m")
    decided = with_condition(cluster(recovery, started=True), *which).decide()
    assert decided.evicted() == ["g-0", "g-1"]
    assert "an unfinished restart" in decided.result.evictions[0].message


def test_a_completed_restart_reports_a_visible_cause() -> None:
    decided = with_condition(lose_node(cluster(BY_NODE[RESTART], started=True)), 0).decide()
    assert decided.evicted() == ["g-0", "g-1"]
    assert "loss of node n-1 of member g-1" in decided.result.evictions[0].message


def test_no_member_is_placed_beside_members_with_the_condition() -> None:
    scenario = with_condition(cluster(BY_MEMBER[RESTART], started=True), 0)
    members = scenario.members("g")
    scenario.change("g", members=(members[0], fresh(members[1])))
    decided = scenario.decide()
    assert (decided.placements("g"), decided.evicted()) == ([], ["g-0"])
    assert decided.verdict("g").reason is Reason.RECOVERING


def test_new_members_are_placed_once_all_members_with_the_condition_are_being_deleted() -> None:
    scenario = with_condition(cluster(BY_MEMBER[RESTART], started=True), 0, 1, deleting=True, ended=NOW_S)
    members = scenario.members("g")
    scenario.change(
        "g", members=(*members, *(fresh(pod) for pod in members)), starts_over=True, started=False
    )
    scenario.nodes("m", 1, gpu=1)
    decided = scenario.decide()
    assert (decided.evicted(), len(decided.nodes("g"))) == ([], 2)


def test_a_member_without_the_condition_is_evicted_with_the_others() -> None:
    """The member with the condition is gone at once, so a new leader could no longer see the restart."""
    scenario = with_condition(cluster(BY_MEMBER[RESTART], started=True), 0)
    scenario.memory = scenario.decide().result.memory
    members = scenario.members("g")
    scenario.change("g", members=(fresh(members[0]), members[1]))
    assert scenario.decide().evicted() == ["g-1"]


@pytest.mark.parametrize("recovery", [Recovery(), BY_MEMBER[REPLACE], BY_NODE[REPLACE]])
def test_a_restart_is_not_completed_where_the_recovery_mode_has_changed(recovery: Recovery) -> None:
    assert with_condition(cluster(recovery, started=True), 0).decide().evicted() == []


def test_a_restart_of_a_finishing_gang_is_not_completed() -> None:
    scenario = with_condition(cluster(BY_MEMBER[RESTART], started=True), 0)
    assert edit(scenario, 1, phase=PodPhase.SUCCEEDED).decide().evicted() == []


def test_a_restart_is_not_completed_with_a_member_without_a_controller() -> None:
    scenario = with_condition(cluster(BY_MEMBER[RESTART], started=True), 0)
    assert edit(scenario, 1, controller=None).decide().evicted() == []


@pytest.mark.parametrize(
    ("group_created", "pod_created", "evicted"),
    [(NOW_S + 1, NOW_S - 9, []), (NOW_S, NOW_S - 9, ["g-0", "g-1"]), (NOW_S + 1, NOW_S + 1, ["g-0", "g-1"])],
)
def test_conditions_from_an_earlier_pod_group_are_ignored(
    group_created: int, pod_created: int, evicted: list[str]
) -> None:
    """A pod that is no older than its PodGroup got the condition as a member of this one."""
    scenario = with_condition(cluster(BY_MEMBER[RESTART], started=True), 0, created=pod_created)
    assert scenario.change("g", created=group_created).decide().evicted() == evicted


@pytest.mark.parametrize("reason", ["Preempted", "DeletionByTaintManager"])
def test_conditions_with_other_reasons_are_no_restart(reason: str) -> None:
    scenario = edit(cluster(BY_MEMBER[RESTART], started=True), 0, disruption=reason, disrupted=NOW_S)
    assert EvictionReason.GANG_RESTARTED not in [each.reason for each in scenario.decide().result.evictions]


# --- gangs that are finishing -------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [True, False])
def test_a_finishing_gang_is_not_recovered(*, started: bool) -> None:
    modes = Recovery(on_node_loss=RESTART, on_member_failure=RESTART, grace_period="0s")
    scenario = lose_node(cluster(modes, min=3, started=started))
    edit(scenario, 0, phase=PodPhase.SUCCEEDED)
    assert after(scenario, 10 * NODE_LOSS_GRACE_MS) == []


def test_the_action_can_be_disabled() -> None:
    scenario = lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="0s")))
    assert scenario.decide(SchedulerConfig(actions=())).evicted() == []


# --- evictions that get lost --------------------------------------------------------------------------------


def test_a_lost_eviction_is_decided_again() -> None:
    scenario = lose_node(cluster(BY_NODE[RESTART]))
    scenario.memory = scenario.decide().result.memory
    scenario.now += NODE_LOSS_GRACE_MS
    evicting = scenario.decide()
    assert evicting.evicted() == ["g-0", "g-1"]
    assert evicting.result.wake_at == scenario.now + EVICTION_CHECK_MS
    scenario.memory = evicting.result.memory
    scenario.now += EVICTION_CHECK_MS
    edit(scenario, 0, deleting=True)
    assert scenario.decide().evicted() == ["g-1"]
    edit(scenario, 1, deleting=True)
    assert scenario.decide().result.wake_at is None
