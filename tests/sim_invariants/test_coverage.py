"""Coverage points are counted when a rare event happens, and at no other time."""

import pytest
from phalanx_simulator.embedded.manifests import gang, node, pod, pod_group
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.coverage import (
    BindCoverage,
    GangCoverage,
    NodeCoverage,
    ProcessCoverage,
    WriteCoverage,
)
from phalanx_simulator.invariants.coverage_points import COVERAGE_POINTS, missing

from tests.sim_invariants.stage import History, Stage, play

GROUPS = "podgroups.scheduling.phalanx.dev"
RECORDERS = (BindCoverage, GangCoverage, NodeCoverage, ProcessCoverage, WriteCoverage)
POD = "/api/v1/namespaces/default/pods/a"


def seen(history: History) -> set[str]:
    return set(play(history, *RECORDERS).coverage.counts)


@pytest.mark.parametrize(("effect", "end"), [(Effect.APPLIED_BUT_LOST, "bound"), (Effect.LOST, "free")])
def test_reading_back_an_unknown_bind_is_counted(effect: Effect, end: str) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        host.network.rules.append(Rule(effect=effect, times=1))
        await host.bind("a", "n1")
        await host.request("GET", POD)

    assert seen(history) == {f"unknown-bind-read-back-{end}"}


@pytest.mark.parametrize(
    ("status", "applied", "expected"),
    [
        (409, False, {"bind-conflict"}),
        (429, False, {"bind-throttled"}),
        (403, False, {"bind-refused"}),
        (503, False, {"bind-server-error"}),
        (503, True, {"bind-server-error", "bind-applied-but-refused"}),
    ],
)
def test_error_responses_of_binds_are_counted(status: int, applied: bool, expected: set[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        effect = Effect.APPLIED_BUT_REFUSED if applied else Effect.REFUSED
        host.network.rules.append(Rule(effect=effect, status=status, times=1))
        await host.bind("a", "n1")

    assert seen(history) == expected


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("nothing", {"bind-landed-late"}),
        ("pod", {"bind-landed-late", "pod-deleted-while-binding"}),
        ("node", {"bind-landed-late", "node-gone-while-binding"}),
        ("cordon", {"bind-landed-late", "node-unusable-while-binding"}),
        ("rival", {"bind-landed-late", "pod-bound-by-another-while-binding"}),
        ("failover", {"bind-landed-late", "bind-landed-after-failover"}),
    ],
)
def test_changes_while_a_bind_is_in_flight_are_counted(what: str, expected: set[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        host.network.rules.append(Rule(effect=Effect.SLOW, slow_s=8.0, times=1))
        await host.bind("a", "n1")
        if what == "pod":
            stage.delete("a")
        elif what == "node":
            stage.delete("n1", "nodes")
        elif what == "cordon":
            stage.change("n1", "nodes", unschedulable=True)
        elif what == "rival":
            stage.client.bind(stage.key("a"), uid=stage.uid("a"), node="n1")
        elif what == "failover":
            await stage.hosts[1].take_lease()
        await stage.pass_time(5)

    assert seen(history) == expected


def test_events_of_a_gang_are_counted() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), *gang("g", {"w": 4}))
        host = await stage.leader()
        stage.change("g", GROUPS, minMember=3)
        stage.change("g", GROUPS, minMember=2)
        await host.bind("g-w-0", "n1")
        await stage.pass_time(15)
        await host.bind("g-w-1", "n1")
        stage.status("g-w-0", phase="Failed", reason="OutOfcpu")
        await host.bind("g-w-2", "n1")
        stage.status("g-w-1", phase="Failed")
        stage.delete("g-w-2")
        await host.bind("g-w-3", "n1")
        stage.create(*gang("g", {"x": 1}))
        await host.bind("g-x-0", "n1")
        stage.status("g-x-0", phase="Succeeded")

    assert seen(history) == {
        *("gang-grown-mid-flight", "gang-shrunk-mid-flight", "gang-partly-bound", "gang-broken"),
        *("gang-repaired", "gang-restarted", "kubelet-rejection", "member-failed", "member-succeeded-early"),
    }


def test_late_events_are_counted() -> None:
    async def history(stage: Stage) -> None:
        await stage.leader()
        stage.create(pod("a"))
        await stage.pass_time(20)

    assert seen(history) == {"events-late"}


def test_events_of_nodes_are_counted() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        stage.condition("n1", "Ready", "Unknown")
        await stage.pass_time(2)
        stage.condition("n1", "Ready", "True")
        stage.status("n1", "nodes", allocatable={"pods": "110"})
        stage.delete("n1", "nodes")
        stage.create(node("n1"))

    assert seen(history) == {"node-lost", "mass-fault", "allocatable-below-use", "node-recreated"}


def test_an_unlisted_coverage_point_raises() -> None:
    async def history(stage: Stage) -> None:
        with pytest.raises(KeyError):
            BindCoverage(stage.context, stage.checks.truth).reached("something-else")

    play(history, BindCoverage)


def test_missing_coverage_points_are_listed() -> None:
    assert missing(dict.fromkeys(COVERAGE_POINTS, 1)) == []
    assert missing({}) == list(COVERAGE_POINTS)
    assert len(COVERAGE_POINTS) >= 25


def test_every_invariant_has_one_check() -> None:
    names = [check.name for check in ALL_CHECKS if not check.name.startswith("coverage")]
    assert len(names) == len(set(names))
