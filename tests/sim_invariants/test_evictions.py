"""S7, S15, S16, S17, L10 report violations of a history, and nothing for a similar valid one."""

from typing import Any

import pytest
from phalanx.kube.api_fields import format_time
from phalanx.model.decisions import CycleResult, Evict, EvictionReason
from phalanx_simulator.embedded.manifests import job, node, pod, pod_group
from phalanx_simulator.invariants.evictions import (
    Breaker,
    EvictionsAreJustified,
    EvictionsNotCountedByJobs,
    FailedNodesAvoided,
    LostMembersAreEvicted,
)

from tests.sim_invariants.stage import Actor, Stage, violations

GROUPS = "podgroups.scheduling.phalanx.dev"
GPUS8 = {"nvidia.com/gpu": "8"}
RESTART = {"onMemberFailure": "Restart", "onNodeLoss": "Restart"}


def owned(name: str, **options: Any) -> dict[str, Any]:
    made = pod(name, group="g", **options)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-uid", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


async def bound(
    stage: Stage, count: int, *, min_member: int = 3, on_record: bool = True, **spec: Any
) -> Actor:
    """A gang of three members, `count` of which were bound 40 s ago, each to another node."""
    stage.create(*(node(f"n{number}") for number in range(4)))
    stage.create(pod_group("g", min_member=min_member, **spec), *(owned(f"a{n}") for n in range(3)))
    host = await stage.leader()
    for number in range(count):
        await host.bind(f"a{number}", f"n{number}")
    if count >= min_member and on_record:
        stage.status("g", GROUPS, startedAt="2026-01-01T00:00:00Z")
    await host.receive()
    await stage.pass_time(40)
    return host


def choose(stage: Stage, host: Actor, *names: str, reason: str = "GangIncomplete") -> None:
    """A cycle that evicts these."""
    evictions = tuple(
        Evict(stage.uid(name), "default", name, "g", 1, EvictionReason(reason), "")  # type: ignore[arg-type]
        for name in names
    )
    host.decided(CycleResult(cycle=1, evictions=evictions))


async def evict(stage: Stage, host: Actor, *names: str) -> None:
    choose(stage, host, *names)
    for name in names:
        await host.evict(name)


def test_a_complete_release_of_a_gang_that_never_started_is_justified() -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 2)
        await evict(stage, host, "a0", "a1")

    assert violations(history, EvictionsAreJustified) == []


def test_a_partial_release_violates() -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 2)
        await evict(stage, host, "a0")

    assert violations(history, EvictionsAreJustified) == ["S7"]


def test_an_eviction_without_a_decision_violates() -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 2)
        await host.evict("a0")

    assert violations(history, EvictionsAreJustified) == ["S7"]


def test_an_eviction_of_a_running_gang_violates() -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3)
        await evict(stage, host, "a0", "a1", "a2")

    assert violations(history, EvictionsAreJustified) == ["S7"] * 3


@pytest.mark.parametrize("recovery", [RESTART, {"onMemberFailure": "Wait"}])
def test_a_restart_after_a_failed_member_is_justified_only_with_restart(recovery: dict[str, str]) -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery=recovery)
        stage.status("a2", phase="Failed")
        await evict(stage, host, "a0", "a1")

    assert violations(history, EvictionsAreJustified) == ([] if recovery is RESTART else ["S7"] * 2)


def test_a_restart_without_a_failure_violates() -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery=RESTART)
        await evict(stage, host, "a0", "a1", "a2")

    assert violations(history, EvictionsAreJustified) == ["S7"], (
        "once the first is deleted, the others may be evicted"
    )


@pytest.mark.parametrize(("name", "expected"), [("a0", []), ("a1", ["S7", "S7"])])
def test_only_members_on_lost_nodes_may_be_replaced(name: str, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery={"onNodeLoss": "Replace"})
        stage.condition("n0", "Ready", "Unknown")
        await evict(stage, host, name)

    assert violations(history, EvictionsAreJustified) == expected


@pytest.mark.parametrize(("name", "expected"), [("a0", []), ("a1", ["S7", "S7"])])
def test_members_on_lost_nodes_may_be_replaced_before_the_start_is_reported(
    name: str, expected: list[str]
) -> None:
    """The leader that has seen the start replaces members on lost nodes and no others."""

    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, on_record=False, recovery={"onNodeLoss": "Replace"})
        stage.condition("n0", "Ready", "Unknown")
        await evict(stage, host, name)

    assert violations(history, EvictionsAreJustified) == expected


@pytest.mark.parametrize(("on_record", "expected"), [(False, []), (True, ["S7", "S7"])])
def test_a_gang_whose_start_is_not_reported_may_be_released(on_record: bool, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, on_record=on_record)
        stage.status("a2", phase="Failed")
        await evict(stage, host, "a0", "a1")

    assert violations(history, EvictionsAreJustified) == expected


@pytest.mark.parametrize(("left", "expected"), [([], []), (["a0"], ["S7", "S7"])])
def test_a_gang_that_lost_all_members_counts_as_never_started(left: list[str], expected: list[str]) -> None:
    """A bind in flight is applied after all others are deleted: one of three members has a node."""

    async def history(stage: Stage) -> None:
        host = await bound(stage, 3)
        for name in {"a0", "a1", "a2"} - set(left):
            stage.delete(name)
        stage.create(owned("b0"), owned("b1"))
        await host.bind("b0", "n3")
        await stage.pass_time(40)
        await evict(stage, host, *left, "b0")

    assert violations(history, EvictionsAreJustified) == expected


@pytest.mark.parametrize(("ago_s", "expected"), [(0, []), (10, ["S7"])])
def test_a_member_that_has_just_moved_counts_for_both_gangs(ago_s: float, expected: list[str]) -> None:
    """It moves into a finishing gang while its previous gang is restarted."""

    def moved(item: dict[str, Any]) -> dict[str, Any]:
        labels = {**item["metadata"]["labels"], "scheduling.phalanx.dev/pod-group": "h"}
        return {**item, "metadata": {**item["metadata"], "labels": labels}}

    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery=RESTART)
        other = owned("b0")
        stage.create(pod_group("h", min_member=1), moved(other))
        await host.bind("b0", "n3")
        stage.status("h", GROUPS, startedAt="2026-01-01T00:00:00Z")
        stage.status("b0", phase="Succeeded")
        stage.condition("n0", "Ready", "Unknown")
        choose(stage, host, "a0", "a1", "a2")
        await host.receive()
        stage.client.update(stage.key("a2"), moved)
        if ago_s:
            await host.receive()
            await stage.pass_time(ago_s)
        await host.evict("a2")

    assert violations(history, EvictionsAreJustified) == expected


def test_an_eviction_of_a_finishing_gang_violates() -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery=RESTART)
        stage.status("a2", phase="Succeeded")
        stage.condition("n0", "Ready", "Unknown")
        await host.receive()
        await evict(stage, host, "a0", "a1")

    assert violations(history, EvictionsAreJustified) == ["S7", "S7"]


def test_an_eviction_of_a_pod_without_a_controller_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n0"), pod_group("g", min_member=2), pod("a", group="g"), pod("b", group="g"))
        host = await stage.leader()
        await host.bind("a", "n0")
        await evict(stage, host, "a")

    assert violations(history, EvictionsAreJustified) == ["S7"]


TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "x"}


@pytest.mark.parametrize("is_announced", [True, False])
def test_an_eviction_without_disruption_target_violates(is_announced: bool) -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 2)
        if is_announced:
            stage.status("a0", condition=TARGET)
        await host.evict("a0")

    assert violations(history, EvictionsNotCountedByJobs) == ["S15"] * (not is_announced)


@pytest.mark.parametrize(
    ("failed", "ignores", "expected"), [(2, True, ["S15"]), (1, True, []), (2, False, [])]
)
def test_a_job_that_counts_evictions_as_failures_violates(
    failed: int, ignores: bool, expected: list[str]
) -> None:
    """One pod failed by itself, another was evicted."""

    async def history(stage: Stage) -> None:
        made = job("j", members=2)
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        if ignores:
            made["spec"]["podFailurePolicy"] = {"rules": [rule]}
        stage.create(made)
        for name in ("a0", "a1"):
            member = owned(name)
            member["metadata"]["ownerReferences"][0]["uid"] = stage.uid("j", "jobs.batch")
            stage.create(member)
        stage.status("a0", phase="Failed")
        stage.status("a1", condition=TARGET)
        stage.delete("a1")
        stage.status("j", "jobs.batch", failed=failed)
        stage.checks.at_rest()

    assert violations(history, EvictionsNotCountedByJobs) == expected


@pytest.mark.parametrize(("others", "expected"), [(3, ["S16"]), (0, [])])
def test_a_placement_on_a_node_that_failed_the_gang_violates(others: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(*(node(f"n{number}") for number in range(1 + others)))
        stage.create(pod_group("g", min_member=1), owned("a0", requests=GPUS8), owned("a1", requests=GPUS8))
        host = await stage.leader()
        host.decided(CycleResult(cycle=1))
        await host.bind("a0", "n0")
        stage.condition("n0", "GpuXidError", "True")
        stage.status("a0", phase="Failed")
        stage.condition("n0", "GpuXidError", "False")
        stage.delete("a0")
        await stage.pass_time(20)
        host.place({"a1": "n0"})
        await stage.pass_time(300)
        host.place({"a1": "n0"})

    assert violations(history, FailedNodesAvoided) == expected


@pytest.mark.parametrize(("others", "expected"), [(2, ["S16"]), (1, [])])
def test_a_node_with_a_failed_member_is_not_an_alternative(others: int, expected: list[str]) -> None:
    """n0 has failed the gang; on n1 a member failed by itself."""

    async def history(stage: Stage) -> None:
        stage.create(*(node(f"n{number}") for number in range(1 + others)), pod_group("g", min_member=1))
        stage.create(*(owned(f"a{number}", requests=GPUS8) for number in range(3)))
        host = await stage.leader()
        host.decided(CycleResult(cycle=1))
        await host.bind("a0", "n0")
        await host.bind("a1", "n1")
        stage.condition("n0", "GpuXidError", "True")
        for member in ("a0", "a1"):
            stage.status(member, phase="Failed")
            stage.delete(member)
        stage.condition("n0", "GpuXidError", "False")
        await stage.pass_time(20)
        host.place({"a2": "n0"})

    assert violations(history, FailedNodesAvoided) == expected


@pytest.mark.parametrize(("known", "expected"), [(["n0"], []), ([], ["S16"])])
def test_a_deleted_node_that_the_process_still_sees_does_not_count(
    known: list[str], expected: list[str]
) -> None:
    """Node events are late: the process sees that the member is deleted, and not why."""

    async def history(stage: Stage) -> None:
        stage.create(*(node(f"n{number}") for number in range(4)), pod_group("g", min_member=1))
        stage.create(owned("a0", requests=GPUS8), owned("a1", requests=GPUS8))
        host = await stage.leader()
        host.decided(CycleResult(cycle=1))
        await host.bind("a0", "n0")
        stage.delete("n0", "nodes")
        stage.status("a0", phase="Failed")
        stage.delete("a0")
        await stage.pass_time(20)
        host.place({"a1": "n0"}, known=known)

    assert violations(history, FailedNodesAvoided) == expected


def test_a_member_that_failed_by_itself_does_not_count_against_its_node() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n0"), node("n1"), pod_group("g", min_member=1))
        stage.create(owned("a0", requests=GPUS8), owned("a1", requests=GPUS8))
        host = await stage.leader()
        host.decided(CycleResult(cycle=1))
        await host.bind("a0", "n0")
        stage.status("a0", phase="Failed")
        stage.delete("a0")
        await stage.pass_time(20)
        host.place({"a1": "n0"})

    assert violations(history, FailedNodesAvoided) == []


async def turned_bad(stage: Stage, bad: int, *, decided_before: bool = True) -> Actor:
    """`bad` of twelve nodes turn bad, n0 first; a gang is partly bound."""
    stage.create(*(node(f"n{number}") for number in range(4, 12)))
    host = await bound(stage, 2)
    if decided_before:
        host.decided(CycleResult(cycle=1))
    await stage.pass_time(5)
    for number in range(bad):
        stage.condition(f"n{number}", "GpuXidError", "True")
    return host


@pytest.mark.parametrize(
    ("bad", "later_s", "expected"), [(7, 10, ["S17"]), (6, 10, []), (7, 400, [])], ids=["mass", "half", "old"]
)
def test_evictions_while_most_nodes_turn_bad_violate(bad: int, later_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await turned_bad(stage, bad)
        await stage.pass_time(later_s)
        choose(stage, host, "a0", "a1")

    assert violations(history, Breaker) == expected


@pytest.mark.parametrize(
    ("reason", "bad", "later_s", "expected"),
    [
        ("MemberReplaced", 7, 10, ["S17"]),
        ("GangIncomplete", 7, 10, ["S17"]),
        ("MemberReplaced", 6, 10, []),
        ("MemberReplaced", 7, 1, []),
        ("MemberReplaced", 7, 400, []),
        ("Preempted", 7, 10, []),
        ("Consolidated", 7, 10, []),
    ],
)
def test_sending_an_earlier_eviction_after_most_nodes_turned_bad_violates(
    reason: str, bad: int, later_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        host = await turned_bad(stage, 0)
        choose(stage, host, "a0", reason=reason)
        for number in range(bad):
            stage.condition(f"n{number}", "GpuXidError", "True")
        await stage.pass_time(later_s)
        await host.evict("a0")

    assert violations(history, Breaker) == expected


@pytest.mark.parametrize(
    ("age_s", "late_s", "clock_s", "later_s", "expected"),
    [
        (200, 0, 0, 10, ["S17"]),
        (200, None, 0, 10, []),
        (100, 0, 0, 10, []),
        (200, 60, 0, 10, []),
        (200, 0, 60, 10, []),
        (200, 0, 0, 400, []),
    ],
    ids=["reported", "not-reported", "new-nodes", "wrong-time", "wrong-clock", "old"],
)
def test_a_new_process_counts_nodes_whose_conditions_report_the_transition(
    age_s: float, late_s: float | None, clock_s: int, later_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        host = await turned_bad(stage, 0, decided_before=False)
        await stage.pass_time(age_s - 45)
        reported = {}
        if late_s is not None:
            reported = {"lastTransitionTime": format_time(stage.clock.now_ms() + round(late_s * 1000))}
        for number in range(7):
            stage.condition(f"n{number}", "GpuXidError", "True", **reported)
        await stage.pass_time(later_s)
        host.clock.jump(clock_s * 1000)
        choose(stage, host, "a0", "a1")

    assert violations(history, Breaker) == expected


@pytest.mark.parametrize(("is_recreated", "expected"), [(True, []), (False, ["S17"])])
def test_a_recreated_bad_node_has_not_turned_bad(is_recreated: bool, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await turned_bad(stage, 7)
        if is_recreated:
            stage.delete("n6", "nodes")
            await stage.pass_time(2)
            stage.create(node("n6"))
            stage.condition("n6", "GpuXidError", "True")
        await stage.pass_time(10)
        choose(stage, host, "a0", "a1")

    assert violations(history, Breaker) == expected


@pytest.mark.parametrize(("target", "expected"), [("n8", ["S17"]), ("n11", [])])
def test_a_placement_on_a_node_that_was_recently_bad_violates(target: str, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await turned_bad(stage, 9)
        await stage.pass_time(10)
        stage.condition("n8", "GpuXidError", "False")
        await stage.pass_time(10)
        host.place({"a2": target})

    assert violations(history, Breaker) == expected


@pytest.mark.parametrize(
    ("recovery", "lost_s", "expected"),
    [
        ({"onNodeLoss": "Replace", "gracePeriod": "10s"}, 90, ["L10"]),
        ({"onNodeLoss": "Replace", "gracePeriod": "10s"}, 60, []),
        ({"onNodeLoss": "Replace", "gracePeriod": "5m"}, 200, []),
        ({"onNodeLoss": "Wait"}, 400, []),
    ],
)
def test_a_member_that_stays_on_a_lost_node_violates(
    recovery: dict[str, str], lost_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery=recovery)
        host.decided(CycleResult(cycle=1))
        await stage.pass_time(70)
        stage.condition("n0", "Ready", "Unknown")
        await stage.pass_time(lost_s)

    assert violations(history, LostMembersAreEvicted) == expected


@pytest.mark.parametrize("is_healthy_between", [True, False])
def test_the_grace_period_restarts_when_a_node_was_healthy(is_healthy_between: bool) -> None:
    """It is bad at each tick of the check."""

    async def history(stage: Stage) -> None:
        host = await bound(stage, 3, recovery={"onNodeLoss": "Replace", "gracePeriod": "10s"})
        host.decided(CycleResult(cycle=1))
        await stage.pass_time(70)
        for _ in range(18):
            if is_healthy_between:
                stage.condition("n0", "Ready", "True")
            stage.condition("n0", "Ready", "Unknown")
            await stage.pass_time(5)

    assert violations(history, LostMembersAreEvicted) == ([] if is_healthy_between else ["L10"])
