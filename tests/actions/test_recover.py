"""What happens to started gangs that lose members, by their `recovery`."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import EVICTION_CHECK_MS
from phalanx.limits import NODE_LOSS_GRACE_MS
from phalanx.model.api.pod_groups import Recovery, RecoveryMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Taint
from phalanx.model.pods import Pod, PodFailure, PodPhase, Toleration
from phalanx.model.reasons import Reason

from tests.builders import Scenario

REPLACE, RESTART, WAIT = RecoveryMode.REPLACE, RecoveryMode.RESTART, RecoveryMode.WAIT
NOW_S = 1000
BY_NODE = {mode: Recovery(on_node_loss=mode) for mode in RecoveryMode}
BY_MEMBER = {mode: Recovery(on_member_failure=mode) for mode in RecoveryMode}


def cluster(recovery: Recovery, **fields: object) -> Scenario:
    """A gang of two, each on a node of its own, and a third node."""
    scenario = Scenario().nodes("n", 3, gpu=1)
    return scenario.gang("g", 2, gpu=1, on=("n-0", "n-1"), recovery=recovery, **fields)


def lose_node(scenario: Scenario, index: int = 1) -> Scenario:
    """The kubelet of this node is not heard any more."""
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
    """Who is evicted so long after a cycle that saw the trouble first."""
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
def test_a_lost_node_is_answered_after_the_grace(mode: RecoveryMode, evicted: list[str]) -> None:
    scenario = lose_node(cluster(BY_NODE[mode]))
    assert scenario.decide().result.wake_at == (None if mode is WAIT else scenario.now + NODE_LOSS_GRACE_MS)
    assert after(scenario, NODE_LOSS_GRACE_MS - 1) == []
    scenario.now += 1
    assert scenario.decide().evicted() == evicted


def test_nothing_is_evicted_unless_the_gang_asks_for_it() -> None:
    scenario = lose_node(cluster(Recovery()))
    assert after(scenario, 10 * NODE_LOSS_GRACE_MS) == []


def test_the_gangs_own_grace_counts() -> None:
    scenario = lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="1s")))
    assert after(scenario, 1000) == ["g-1"]
    assert lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="0s"))).decide().evicted() == ["g-1"]


def test_a_node_that_comes_back_in_time_keeps_its_member() -> None:
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
def test_a_node_is_lost_in_several_ways(how: str) -> None:
    scenario = cluster(Recovery(on_node_loss=REPLACE, grace_period="0s"))
    name = NodeName("n-1")
    if how == "gone":
        del scenario._nodes[name]
    elif how == "taint":
        scenario._nodes[name] = replace(scenario._nodes[name], taints=(Taint("dead", "NoExecute"),))
    else:
        scenario._nodes[name] = replace(scenario._nodes[name], conditions={"Ready": "False"})
    assert scenario.decide().evicted() == ["g-1"]


def test_a_taint_that_is_tolerated_or_only_keeps_away_loses_nobody() -> None:
    scenario = cluster(
        Recovery(on_node_loss=REPLACE, grace_period="0s"), tolerations=(Toleration("dead", "Exists"),)
    )
    taints = (Taint("dead", "NoExecute"), Taint("busy", "NoSchedule"))
    scenario._nodes[NodeName("n-1")] = replace(scenario._nodes[NodeName("n-1")], taints=taints)
    assert scenario.decide().evicted() == []


def test_what_is_made_anew_is_placed_while_the_old_pod_hangs_in_deletion() -> None:
    scenario = lose_node(cluster(BY_NODE[REPLACE]))
    edit(scenario, 1, deleting=True, ended=NOW_S)
    members = scenario.members("g")
    scenario.change("g", members=(*members, fresh(members[1])), started=True)
    assert scenario.decide().nodes("g") == ["n-2"]


# --- restarts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "evicted"), [(REPLACE, []), (RESTART, ["g-0"]), (WAIT, [])])
def test_a_failed_member_is_answered_at_once(mode: RecoveryMode, evicted: list[str]) -> None:
    scenario = fail(cluster(BY_MEMBER[mode], started=True))
    assert scenario.decide().evicted() == evicted


def test_a_gang_in_restart_gets_no_nodes_before_all_members_are_on_their_way_out() -> None:
    scenario = fail(cluster(BY_MEMBER[RESTART], started=True))
    members = scenario.members("g")
    scenario.change("g", members=(*members, fresh(members[1])))
    decided = scenario.decide()
    assert decided.placements("g") == []
    assert decided.verdict("g").reason is Reason.RECOVERING
    assert "failure of member g-1 on node n-1" in decided.verdict("g").message


def test_a_restart_whose_cause_is_gone_goes_on() -> None:
    scenario = fail(cluster(Recovery(on_member_failure=RESTART, grace_period="1s"), started=True))
    scenario.memory = scenario.decide().result.memory
    scenario.now += 1000
    members = scenario.members("g")
    scenario.change("g", members=(members[0], fresh(members[1])))
    assert scenario.decide().evicted() == ["g-0"]


@pytest.mark.parametrize("cause", ["failed", "stuck"])
def test_a_gang_that_was_restarted_is_not_restarted_again(cause: str) -> None:
    """Not even by a scheduler that has just started and remembers nothing."""
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


def test_members_made_before_the_last_old_one_was_deleted_are_young_enough() -> None:
    """The last one hangs on a lost node, which the leader of before did not get to."""
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


def test_a_second_restart_names_its_own_cause() -> None:
    """Not the pod that failed before the first one, which a Job keeps."""
    scenario = fail(cluster(Recovery(on_member_failure=RESTART, grace_period="0s"), started=True))
    first, old = scenario.members("g")
    again = fresh(first, node=NodeName("n-0"), phase=PodPhase.FAILED, ended=NOW_S + 10)
    again = replace(again, failure=PodFailure.CONTAINER)
    rest = fresh(old, node=NodeName("n-2"), phase=PodPhase.RUNNING)
    scenario.change("g", members=(old, again, rest))
    evictions = scenario.decide().result.evictions
    assert ["failure of member g-0 on node n-0" in each.message for each in evictions] == [True]


def test_a_gang_that_lost_everything_starts_whole_or_not_at_all() -> None:
    scenario = Scenario().nodes("n", 1, gpu=1).gang("g", 2, gpu=1, starts_over=True)
    assert scenario.decide().placements("g") == []
    scenario.nodes("n", 2, gpu=1)
    assert len(scenario.decide().nodes("g")) == 2


def test_without_a_controller_nobody_is_deleted() -> None:
    scenario = lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="0s"), controller=None))
    decided = scenario.decide()
    assert decided.evicted() == []
    assert decided.verdict("g").reason is Reason.UNMANAGED_PODS
    members = scenario.change("g", recovery=BY_MEMBER[RESTART], started=True).members("g")
    fail(scenario).change("g", members=(*scenario.members("g"), fresh(members[1])))
    decided = scenario.decide()
    assert (decided.evicted(), decided.verdict("g").reason) == ([], Reason.UNMANAGED_PODS)


# --- nodes whose clocks are off -----------------------------------------------------------------------------


def running(*created: int) -> Scenario:
    """The gang of two, of which both members were created then; it is restarted at once."""
    scenario = cluster(Recovery(on_member_failure=RESTART, grace_period="0s"), started=True)
    for index, at in enumerate(created):
        edit(scenario, index, created=at)
    return scenario


def seen_before(scenario: Scenario, **failure: object) -> Scenario:
    """A leader that saw the gang run sees a member fail now."""
    scenario.memory = scenario.decide().result.memory
    return fail(scenario, **failure)


@pytest.mark.parametrize("off_s", [-300, 0, 300])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_failure_is_answered_once_whatever_the_clock_of_its_node_says(off_s: int, *, is_new: bool) -> None:
    """By the leader that saw it, and by a new one. The Job keeps the failed pod."""
    scenario = running(NOW_S - 9, NOW_S - 9)
    scenario = (fail if is_new else seen_before)(scenario, ended=NOW_S + off_s)
    first = scenario.decide()
    assert first.evicted() == ["g-0"]
    scenario.memory = first.result.memory
    assert scenario.decide().evicted() == ["g-0"]
    before, failed = scenario.members("g")
    anew = [
        fresh(before, node=NodeName("n-0"), phase=PodPhase.RUNNING, created=NOW_S + 2),
        fresh(failed, node=NodeName("n-2"), phase=PodPhase.RUNNING, created=NOW_S + 1),
    ]
    scenario.change("g", members=(failed, *anew))
    again = scenario.decide()
    assert (again.evicted(), dict(again.result.memory.member_losses)) == ([], {})


def test_a_new_leader_restarts_a_gang_that_is_no_younger_than_its_failed_member() -> None:
    """Be its failure ever so long ago by the clock of its node."""
    assert fail(running(NOW_S - 9, NOW_S - 9), ended=NOW_S - 300).decide().evicted() == ["g-0"]


def test_a_failed_pod_that_never_had_a_node_is_answered_by_younger_members() -> None:
    scenario = seen_before(running(NOW_S, NOW_S - 1), node=None, ended=0)
    assert scenario.decide().evicted() == []


# --- restarts that a leader before us began -----------------------------------------------------------------


def told(scenario: Scenario, *indices: int, **fields: object) -> Scenario:
    """These members say that they go, since their gang is restarted. What was the cause is gone."""
    for index in indices:
        edit(scenario, index, disruption=EvictionReason.GANG_RESTARTED, disrupted=NOW_S, **fields)
    return scenario


@pytest.mark.parametrize("which", [(0,), (0, 1)])
def test_a_restart_that_was_told_is_finished_by_the_next_leader(which: tuple[int, ...]) -> None:
    """At once, be the grace ever so long: it has passed."""
    recovery = Recovery(on_member_failure=RESTART, grace_period="1m")
    decided = told(cluster(recovery, started=True), *which).decide()
    assert decided.evicted() == ["g-0", "g-1"]
    assert "an unfinished restart" in decided.result.evictions[0].message


def test_it_says_what_the_restart_is_for_where_that_is_seen() -> None:
    decided = told(lose_node(cluster(BY_NODE[RESTART], started=True)), 0).decide()
    assert decided.evicted() == ["g-0", "g-1"]
    assert "loss of node n-1 of member g-1" in decided.result.evictions[0].message


def test_nobody_joins_those_who_are_told_to_go() -> None:
    scenario = told(cluster(BY_MEMBER[RESTART], started=True), 0)
    members = scenario.members("g")
    scenario.change("g", members=(members[0], fresh(members[1])))
    decided = scenario.decide()
    assert (decided.placements("g"), decided.evicted()) == ([], ["g-0"])
    assert decided.verdict("g").reason is Reason.RECOVERING


def test_new_members_are_placed_once_all_who_were_told_are_on_their_way_out() -> None:
    scenario = told(cluster(BY_MEMBER[RESTART], started=True), 0, 1, deleting=True, ended=NOW_S)
    members = scenario.members("g")
    scenario.change(
        "g", members=(*members, *(fresh(pod) for pod in members)), starts_over=True, started=False
    )
    scenario.nodes("m", 1, gpu=1)
    decided = scenario.decide()
    assert (decided.evicted(), len(decided.nodes("g"))) == ([], 2)


def test_whoever_could_not_be_told_goes_with_the_others() -> None:
    """Those who were told are gone at once, and with them all that a new leader could see."""
    scenario = told(cluster(BY_MEMBER[RESTART], started=True), 0)
    scenario.memory = scenario.decide().result.memory
    members = scenario.members("g")
    scenario.change("g", members=(fresh(members[0]), members[1]))
    assert scenario.decide().evicted() == ["g-1"]


@pytest.mark.parametrize("recovery", [Recovery(), BY_MEMBER[REPLACE], BY_NODE[REPLACE]])
def test_a_restart_that_is_asked_for_no_more_is_not_finished(recovery: Recovery) -> None:
    assert told(cluster(recovery, started=True), 0).decide().evicted() == []


def test_a_gang_that_is_finishing_is_not_restarted_though_members_were_told() -> None:
    scenario = told(cluster(BY_MEMBER[RESTART], started=True), 0)
    assert edit(scenario, 1, phase=PodPhase.SUCCEEDED).decide().evicted() == []


def test_with_a_member_without_a_controller_the_others_stay_though_they_were_told() -> None:
    scenario = told(cluster(BY_MEMBER[RESTART], started=True), 0)
    assert edit(scenario, 1, controller=None).decide().evicted() == []


@pytest.mark.parametrize(
    ("group_created", "pod_created", "evicted"),
    [(NOW_S + 1, NOW_S - 9, []), (NOW_S, NOW_S - 9, ["g-0", "g-1"]), (NOW_S + 1, NOW_S + 1, ["g-0", "g-1"])],
)
def test_what_members_were_told_as_those_of_an_earlier_group_counts_for_nothing(
    group_created: int, pod_created: int, evicted: list[str]
) -> None:
    """A pod that is no older than its PodGroup was told as a member of this one, whatever the clock said."""
    scenario = told(cluster(BY_MEMBER[RESTART], started=True), 0, created=pod_created)
    assert scenario.change("g", created=group_created).decide().evicted() == evicted


@pytest.mark.parametrize("reason", ["Preempted", "DeletionByTaintManager"])
def test_other_reasons_to_go_are_no_restart(reason: str) -> None:
    scenario = edit(cluster(BY_MEMBER[RESTART], started=True), 0, disruption=reason, disrupted=NOW_S)
    assert EvictionReason.GANG_RESTARTED not in [each.reason for each in scenario.decide().result.evictions]


# --- gangs that are finishing -------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [True, False])
def test_a_finishing_gang_is_left_alone(*, started: bool) -> None:
    modes = Recovery(on_node_loss=RESTART, on_member_failure=RESTART, grace_period="0s")
    scenario = lose_node(cluster(modes, min=3, started=started))
    edit(scenario, 0, phase=PodPhase.SUCCEEDED)
    assert after(scenario, 10 * NODE_LOSS_GRACE_MS) == []


def test_the_action_can_be_switched_off() -> None:
    scenario = lose_node(cluster(Recovery(on_node_loss=REPLACE, grace_period="0s")))
    assert scenario.decide(SchedulerConfig(actions=())).evicted() == []


# --- evictions that do not come to pass ---------------------------------------------------------------------


def test_a_cycle_looks_whether_its_evictions_came_to_pass() -> None:
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
