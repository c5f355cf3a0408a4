"""S8 and S9 report violations of a history, and nothing for a similar valid one."""

import pytest
from phalanx_simulator.embedded.manifests import node, pod, pod_group
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.writes import Fencing, Preconditions

from tests.sim_invariants.stage import Stage, violations


def test_a_write_without_the_lease_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        await stage.hosts[0].bind("a", "n1")

    assert violations(history, Fencing) == ["S8"]


@pytest.mark.parametrize(("pause_s", "expected"), [(9.9, []), (10.1, ["S8"])])
def test_a_write_after_the_deadline_violates(pause_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = stage.hosts[0]
        await host.take_lease()
        await stage.pass_time(pause_s)
        await host.bind("a", "n1")

    assert violations(history, Fencing) == expected


@pytest.mark.parametrize(("rate", "expected"), [(0.9, []), (1.1, ["S8"])])
def test_the_deadline_is_measured_by_the_hosts_own_clock(rate: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = stage.hosts[0]
        await host.take_lease()
        host.clock.run_at(rate)
        await stage.pass_time(10.0 if rate < 1 else 9.5)
        await host.bind("a", "n1")

    assert violations(history, Fencing) == expected


def test_a_renewal_of_unknown_outcome_does_not_extend_the_deadline() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = stage.hosts[0]
        await host.take_lease()
        await stage.pass_time(8.0)
        host.network.rules.append(Rule(effect=Effect.APPLIED_BUT_LOST, times=1))
        await host.renew()
        await stage.pass_time(5.0)
        await host.bind("a", "n1")

    assert violations(history, Fencing) == ["S8"]


def test_a_write_after_another_process_took_the_lease_violates() -> None:
    """The old leader's clock is far too slow."""

    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"), pod("b"))
        old, new = stage.hosts
        await old.take_lease()
        old.clock.run_at(0.1)
        await stage.pass_time(16.0)
        await new.take_lease()
        await new.bind("a", "n1")
        await old.bind("b", "n1")

    assert violations(history, Fencing) == ["S8"]


def test_a_write_sent_before_another_process_took_the_lease_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        old, new = stage.hosts
        await old.take_lease()
        old.network.rules.append(Rule(effect=Effect.SLOW, slow_s=30.0, times=1))
        await old.bind("a", "n1")
        await stage.pass_time(15.0)
        await new.take_lease()
        await stage.pass_time(30.0)

    assert violations(history, Fencing) == []


def test_writes_without_preconditions_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"), pod_group("g", min_member=1))
        host = await stage.leader()
        await host.bind("a", "n1", uid="")
        await host.evict("a", uid="")
        await host.request("PATCH", "/api/v1/namespaces/default/pods/a/status", {"status": {}})
        group = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/default/podgroups/g/status"
        await host.request("PATCH", group, {"status": {"phase": "Pending"}})

    assert violations(history, Preconditions) == ["S9"] * 4


def test_writes_with_preconditions_do_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.evict("a")
        await host.request("POST", "/apis/events.k8s.io/v1/namespaces/default/events", {})

    assert violations(history, Preconditions) == []
