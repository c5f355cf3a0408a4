"""S11, S20, L6, L7, L8 report violations of a history, and nothing for a similar valid one."""

from types import SimpleNamespace

import pytest
from phalanx.framework.retry import BIND_REFUSALS_PER_MINUTE_MAX
from phalanx.kube.leader_election import LostLease
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.model.decisions import CycleResult
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.hosts.host import State
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.bounds import REFUSED_BINDS_MAX
from phalanx_simulator.invariants.processes import (
    LeaderExists,
    NoProcessExits,
    RefusedBindsBackOff,
    SyncedBeforeDeciding,
)
from phalanx_simulator.invariants.writes import LeastPrivilege, shipped_access, unused_access

from tests.sim_invariants.stage import LEASE, Stage, play, violations

RECORDS = "/api/v1/namespaces/kube-system/configmaps/phalanx-records"


@pytest.mark.parametrize(
    ("error", "state", "expected"),
    [
        (ExceptionGroup("g", [KeyError("x")]), State.RUNNING, ["S11"]),
        (ExceptionGroup("g", [LostLease("late"), KeyError("x")]), State.RUNNING, ["S11"]),
        (ExceptionGroup("g", [LostLease("late")]), State.RUNNING, []),
        (None, State.RUNNING, []),
        (KeyError("x"), State.DEAD, []),
    ],
)
def test_a_process_that_ends_with_another_error_than_a_lost_lease_violates(
    error: Exception | None, state: State, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        process = stage.hosts[0].process
        process.host.state = state
        process.task = SimpleNamespace(done=lambda: True, cancelled=lambda: False, exception=lambda: error)
        await stage.pass_time(3)

    assert violations(history, NoProcessExits) == expected


def test_a_missing_leader_violates() -> None:
    async def history(stage: Stage) -> None:
        await stage.pass_time(30)

    assert violations(history, LeaderExists) == ["L6"]


def test_a_missing_leader_without_a_candidate_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        for host in stage.hosts:
            host.network.partition()
        await stage.pass_time(60)

    assert violations(history, LeaderExists) == []


def test_a_failover_in_time_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        host = await stage.leader()
        await stage.pass_time(5)
        host.decided(CycleResult(cycle=1))
        await stage.pass_time(30)
        host.network.partition()
        await stage.pass_time(20)
        await stage.hosts[1].take_lease()
        stage.hosts[1].decided(CycleResult(cycle=1))
        await stage.pass_time(60)

    assert violations(history, LeaderExists) == []


@pytest.mark.parametrize(("slow_s", "expected"), [(0.0, ["L6"]), (20.0, [])])
def test_a_renewal_that_is_applied_late_restarts_the_failover_time(
    slow_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        host = await stage.leader()
        host.decided(CycleResult(cycle=1))
        host.network.rules.append(Rule(Effect.SLOW, path_part="leases", slow_s=slow_s))
        await host.renew()
        host.process.scheduler.is_leading = False
        await stage.pass_time(40)

    assert violations(history, LeaderExists) == expected


def test_a_leader_without_a_cycle_violates() -> None:
    async def history(stage: Stage) -> None:
        await stage.pass_time(5)
        await stage.leader()
        await stage.pass_time(30)

    assert violations(history, LeaderExists) == ["L6"]


@pytest.mark.parametrize("missing", ["", "nodes", "queues", "configmaps"])
def test_a_cycle_before_all_kinds_are_listed_violates(missing: str) -> None:
    async def history(stage: Stage) -> None:
        host = stage.hosts[0]
        for kind in WATCHED_KINDS:
            host.network.received.note_list(KINDS[kind].resource)
        await host.request("GET", RECORDS)
        await stage.pass_time(3)
        await host.take_lease()
        for kind in WATCHED_KINDS:
            if KINDS[kind].plural != missing:
                host.network.received.note_list(KINDS[kind].resource)
        if missing != "configmaps":
            await host.request("GET", RECORDS)
        host.decided(CycleResult(cycle=1))
        host.decided(CycleResult(cycle=2))

    assert violations(history, SyncedBeforeDeciding) == ["L7"] * bool(missing)


@pytest.mark.parametrize(("pause_s", "expected"), [(1.0, ["L8"]), (6.0, [])])
def test_a_refused_bind_without_backoff_violates(pause_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        for _ in range(30):
            assert await host.bind("a", "n1", uid="another") == 409
            await stage.pass_time(pause_s)

    assert violations(history, RefusedBindsBackOff) == expected


def test_the_scheduler_allows_as_many_refused_binds_as_the_invariant() -> None:
    assert BIND_REFUSALS_PER_MINUTE_MAX == REFUSED_BINDS_MAX


def test_a_request_that_no_role_allows_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.evict("a")
        await host.request("GET", "/api/v1/namespaces/default/secrets")
        await host.request("GET", "/api/v1/namespaces/default/secrets")
        await host.request("PATCH", "/api/v1/nodes/n1", {})
        await stage.pass_time(1)

    assert violations(history, LeastPrivilege) == ["S20", "S20"]


def test_unused_permissions_are_listed() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.request("GET", LEASE)
        await stage.pass_time(1)

    unused = unused_access(play(history, LeastPrivilege).coverage.counts)
    assert len(shipped_access()) > 20
    assert ("delete", "", "pods") in unused
    assert not {("create", "", "pods/binding"), ("watch", "", "nodes")} & set(unused)
    assert ("get", "coordination.k8s.io", "leases") not in unused
