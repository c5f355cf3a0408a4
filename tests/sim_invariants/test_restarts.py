"""L13 reports members that are not deleted although their gang is restarted."""

from typing import Any

import pytest
from phalanx.model.decisions import CycleResult, Evict, EvictionReason
from phalanx_simulator.embedded.manifests import node, pod, pod_group
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.evictions import EvictionsAreJustified
from phalanx_simulator.invariants.restarts import RestartsComplete

from tests.sim_invariants.stage import Actor, Stage, violations

GROUPS = "podgroups.scheduling.phalanx.dev"
RESTART = {"onMemberFailure": "Restart"}
LONG_S = 100


def member(name: str, **options: Any) -> dict[str, Any]:
    made = pod(name, group="g", **options)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-uid", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


async def running(stage: Stage, **spec: Any) -> Actor:
    """A started gang of two, and an undisturbed leader."""
    stage.create(*(node(f"n{number}") for number in range(2)), pod_group("g", min_member=2, **spec))
    host = await started(stage)
    await stage.pass_time(LONG_S)
    return host


async def started(stage: Stage) -> Actor:
    stage.create(*(member(f"a{number}") for number in range(2)))
    host = await stage.leader()
    for number in range(2):
        await host.bind(f"a{number}", f"n{number}")
    host.decided(CycleResult(cycle=1))
    return host


def mark(stage: Stage, name: str, *, status: str = "True", reason: str = "GangRestarted") -> None:
    stage.status(name, condition={"type": "DisruptionTarget", "status": status, "reason": reason})


def choose(stage: Stage, host: Actor, *names: str) -> None:
    """A cycle that restarts the gang."""
    group = stage.uid("g", GROUPS)
    evictions = tuple(
        Evict(stage.uid(name), "default", name, group, 1, EvictionReason.GANG_RESTARTED, "")  # type: ignore[arg-type]
        for name in names
    )
    host.decided(CycleResult(cycle=2, evictions=evictions))


@pytest.mark.parametrize(("seconds", "expected"), [(59, []), (71, ["L13"])])
def test_a_member_with_the_restart_condition_is_deleted_within_a_minute(
    seconds: int, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        await running(stage, recovery=RESTART)
        mark(stage, "a0")
        await stage.pass_time(seconds)

    assert violations(history, RestartsComplete) == expected


async def _is_terminating(stage: Stage, _host: Actor) -> None:
    stage.client.delete(stage.key("a0"), uid=stage.uid("a0"), grace_s=30)


async def _ends(stage: Stage, _host: Actor) -> None:
    stage.status("a0", phase="Failed")


async def _is_revoked(stage: Stage, _host: Actor) -> None:
    mark(stage, "a0", status="False")


async def _is_no_longer_requested(stage: Stage, _host: Actor) -> None:
    stage.change("g", GROUPS, recovery={"onMemberFailure": "Wait"})


async def _group_is_recreated(stage: Stage, _host: Actor) -> None:
    stage.delete("g", GROUPS)
    stage.create(pod_group("g", min_member=2, recovery=RESTART))
    stage.status("a0", podIP="10.0.0.1")


async def _finishes(stage: Stage, _host: Actor) -> None:
    stage.status("a1", phase="Succeeded")


async def _gets_a_pod_without_controller(stage: Stage, host: Actor) -> None:
    stage.create(pod("bare", group="g"))
    await host.bind("bare", "n1")


async def _leader_dies(_stage: Stage, host: Actor) -> None:
    host.process.task.done = lambda: True


async def _deletion_fails(stage: Stage, host: Actor) -> None:
    await stage.pass_time(30)
    host.network.rules.append(Rule(Effect.REFUSED, status=500, times=1))
    assert await host.evict("a0") == 500
    host.network.rules.clear()


@pytest.mark.parametrize(
    "then",
    [
        *(_is_terminating, _ends, _is_revoked, _is_no_longer_requested, _group_is_recreated, _finishes),
        *(_gets_a_pod_without_controller, _leader_dies, _deletion_fails),
    ],
)
def test_a_member_with_a_valid_reason_to_stay_does_not_violate(then: Any) -> None:
    async def history(stage: Stage) -> None:
        host = await running(stage, recovery=RESTART)
        mark(stage, "a0")
        await then(stage, host)
        await stage.pass_time(71 if then is not _deletion_fails else 50)

    assert violations(history, RestartsComplete) == []


def test_a_terminating_member_that_is_chosen_again_does_not_violate() -> None:
    """The second decision was made before the deletion was received."""

    async def history(stage: Stage) -> None:
        host = await running(stage, recovery=RESTART)
        choose(stage, host, "a0", "a1")
        mark(stage, "a0")
        stage.client.delete(stage.key("a0"), uid=stage.uid("a0"), grace_s=30)
        choose(stage, host, "a0")
        await stage.pass_time(LONG_S - 60)
        stage.client.delete(stage.key("a1"), uid=stage.uid("a1"), grace_s=30)
        await stage.pass_time(LONG_S)

    assert violations(history, RestartsComplete) == []


@pytest.mark.parametrize("reason", ["Preempted", "DeletionByTaintManager"])
def test_disruption_targets_with_other_reasons_are_ignored(reason: str) -> None:
    async def history(stage: Stage) -> None:
        await running(stage, recovery=RESTART)
        mark(stage, "a0", reason=reason)
        await stage.pass_time(LONG_S)

    assert violations(history, RestartsComplete) == []


@pytest.mark.parametrize("then", ["nothing", "a disturbance", "a refusal"])
def test_a_chosen_member_is_deleted_while_its_process_is_undisturbed(then: str) -> None:
    """Another process cannot know the choice."""

    async def history(stage: Stage) -> None:
        host = await running(stage, recovery=RESTART)
        choose(stage, host, "a0", "a1")
        await stage.pass_time(1)
        if then == "a disturbance":
            host.process.task.done = lambda: True
            await stage.pass_time(1)
            host.process.task.done = lambda: False
        if then == "a refusal":
            await _deletion_fails(stage, host)
        await stage.pass_time(2 * LONG_S)

    assert violations(history, RestartsComplete) == (["L13", "L13"] if then == "nothing" else [])


@pytest.mark.parametrize("is_marked", [True, False])
def test_an_unfinished_restart_may_be_finished_later(is_marked: bool) -> None:
    """The gang has no failed member any more."""

    async def history(stage: Stage) -> None:
        host = await running(stage, recovery=RESTART)
        if is_marked:
            mark(stage, "a0")
        await host.receive()
        choose(stage, host, "a0", "a1")
        await host.evict("a0")

    assert violations(history, EvictionsAreJustified) == ([] if is_marked else ["S7"])
