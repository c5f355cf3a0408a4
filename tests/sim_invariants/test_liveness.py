"""L1 to L5, L11, S18 report violations of a history, and nothing for a similar valid one."""

from collections.abc import Callable
from typing import Any

import pytest
from phalanx.model.decisions import Certificate, CycleResult, Evict, EvictionReason, Placement
from phalanx.model.memory import GangComposition, Memory, Move, Nomination
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.resources import GPU
from phalanx_simulator.embedded.manifests import gang, node, pod, pod_group, priority_class, queue
from phalanx_simulator.invariants.cached_state import CacheMatchesApi, NothingIsLeaked
from phalanx_simulator.invariants.liveness import (
    FeasibleGangsRun,
    NoEndlessEvictions,
    NoStarvation,
    WaitingIsExplained,
)

from tests.builders import Scenario
from tests.sim_invariants.stage import Stage, violations

BLOCK = "network.topology.nvidia.com/block"
HELD = {"finalizers": ["example.com/wait"]}
GPUS8 = {"nvidia.com/gpu": "8"}
GROUPS = "podgroups.scheduling.phalanx.dev"
QUEUES = "queues.scheduling.phalanx.dev"
CLASSES = "priorityclasses.scheduling.k8s.io"
USAGE = {NodeName("n0"): {GPU: 1}}


def nominated(gang_id: str, *nodes: str) -> Memory:
    """A nomination of the gang on these nodes."""
    usage = {NodeName(name): {GPU: 1} for name in nodes}
    return Memory(nominations={GangId(gang_id): Nomination(usage=usage, victims=(), until=1, attempts=1)})


def two_blocks(stage: Stage) -> None:
    stage.create(*(node(f"n{n}", labels={BLOCK: f"b{n // 2}"}) for n in range(4)))


def waiting(stage: Stage, members: int, *, min_member: int | None = None, **spec: object) -> None:
    stage.create(pod_group("g", min_member=min_member or members, **spec))
    stage.create(*gang("g", {"w": members}, requests=GPUS8))


async def at_rest(stage: Stage) -> None:
    await stage.pass_time(6)
    stage.checks.at_rest()


def test_a_waiting_gang_that_fits_violates() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 4)
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == ["L1"]


def test_capacity_that_has_just_appeared_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        waiting(stage, 4)
        await stage.pass_time(6)
        two_blocks(stage)
        stage.checks.at_rest()

    assert violations(history, FeasibleGangsRun) == []


def test_a_broken_gang_whose_missing_member_fits_violates() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 2)
        host = await stage.leader()
        await host.bind("g-w-0", "n0")
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == ["L2"]


@pytest.mark.parametrize(
    "spec",
    [
        {"topology": {"required": "block"}},
        {"topology": {"preferred": "aisle"}},
        {"queue": "unknown"},
        {"queue": "bounded"},
        {"minMember": 5},
    ],
    ids=["no-domain", "no-level", "no-queue", "queue-limit", "members-missing"],
)
def test_a_gang_that_waits_for_a_valid_reason_does_not_violate(spec: dict[str, object]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(queue("bounded", limit={"nvidia.com/gpu": "8"}))
        members = int(str(spec.pop("minMember", 3)))
        stage.create(pod_group("g", min_member=members, **spec))
        stage.create(*gang("g", {"w": 3}, requests=GPUS8))
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == []


@pytest.mark.parametrize(
    ("queues", "spec", "expected"),
    [
        ({"q": {"limit": {"nvidia.com/gpu": "16"}}}, {}, ["L1"]),
        ({"q": {"limit": {"nvidia.com/gpu": "15"}}}, {}, []),
        ({"q": {"parent": "top"}, "top": {"limit": {"nvidia.com/gpu": "15"}}}, {}, []),
        ({"q": {"backfill": "Easy", "ordering": "FairUsers", "userLabel": "user"}}, {}, ["L1"]),
        ({"q": {"ordering": "StrictFIFO"}}, {}, []),
        ({"q": {}, "other": {"cells": [{"level": "block", "count": 1}]}}, {}, []),
        ({"q": {}}, {"disruption": {"mode": "Single"}, "runtime": {"estimate": "1m"}}, ["L1"]),
        ({"q": {}}, {"disruption": {"preemptible": False}}, []),
    ],
    ids=["limit", "lower", "above", "order", "strict", "cells", "other-fields", "not-preemptible"],
)
def test_queue_limits_and_other_fields_decide_whether_a_gang_fits(
    queues: dict[str, Any], spec: dict[str, Any], expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(*(queue(name, **fields) for name, fields in queues.items()))
        waiting(stage, 2, queue="q", **spec)
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == expected


@pytest.mark.parametrize(
    ("held", "limit", "expected"),
    [(["n0"], "64", []), (["n0"], "", ["L1"]), (["n0", "n2"], "", [])],
    ids=["queue-with-a-limit", "in-one-block", "in-both-blocks"],
)
def test_capacity_held_for_another_gang_does_not_count(
    held: list[str], limit: str, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(queue("q", **({"limit": {"nvidia.com/gpu": limit}} if limit else {})))
        waiting(stage, 2, queue="q", topology={"required": "block"})
        host = await stage.leader()
        stage.create(pod_group("other", min_member=1))
        host.decided(CycleResult(cycle=0, memory=nominated(stage.uid("other", GROUPS), *held)))
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == expected


def test_capacity_held_for_the_gang_itself_counts() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 4)
        host = await stage.leader()
        host.decided(CycleResult(cycle=0, memory=nominated(stage.uid("g", GROUPS), "n0")))
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == ["L1"]


@pytest.mark.parametrize("kind", ["nomination", "lost-members", "move"])
@pytest.mark.parametrize(("seconds", "expected"), [(600, []), (1100, ["L1"])], ids=["in-time", "expired"])
def test_a_hold_counts_only_for_a_limited_time(kind: str, seconds: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 4)
        stage.create(pod_group("other", min_member=1))
        host = await stage.leader()
        gang_id = GangId(stage.uid("other", GROUPS))
        move = Move(queue=QueueName("q"), namespace="default", usage=USAGE, pods=(), until=1)
        memory = {
            "nomination": nominated(gang_id, "n0"),
            "lost-members": Memory(
                compositions={gang_id: GangComposition((), since=1, held={NodeName("n0"): ()})}
            ),
            "move": Memory(moves={gang_id: move}),
        }[kind]
        for _ in range(seconds // 100):
            host.decided(CycleResult(cycle=0, memory=memory))
            await stage.pass_time(100)
        stage.checks.at_rest()

    assert violations(history, FeasibleGangsRun) == expected


@pytest.mark.parametrize("other", ["never-existed", "group", "pod", "pod-recently"])
def test_a_hold_for_a_gang_that_does_not_exist_does_not_count(other: str) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 4)
        stage.create(pod_group("other", min_member=1), pod("other"))
        host = await stage.leader()
        resource = "pods" if other.startswith("pod") else GROUPS
        gang_id = "never-existed" if other == "never-existed" else stage.uid("other", resource)
        await stage.pass_time(10)
        if other != "pod-recently":
            stage.delete("other", resource)
        await stage.pass_time(10)
        if other == "pod-recently":
            stage.delete("other")
        host.decided(CycleResult(cycle=0, memory=nominated(gang_id, "n0")))
        await stage.pass_time(2)
        stage.checks.at_rest()

    assert {*violations(history, FeasibleGangsRun)} == (set() if other == "pod-recently" else {"L1"})


def test_a_gang_starves_when_a_hold_never_expires() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(pod_group("other", min_member=1))
        host = await stage.leader()
        memory = nominated(stage.uid("other", GROUPS), "n0")
        waiting(stage, 4)
        for _ in range(100):
            host.decided(CycleResult(cycle=0, memory=memory))
            await stage.pass_time(10)
        assert stage.found.count == 0
        for _ in range(10):
            host.decided(CycleResult(cycle=0, memory=memory))
            await stage.pass_time(10)

    assert violations(history, NoStarvation)[:1] == ["L3"]


@pytest.mark.parametrize("spoil", ["cordon", "fault", "foreign"])
def test_a_gang_that_does_not_fit_does_not_violate(spoil: str) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 4)
        if spoil == "cordon":
            stage.change("n0", "nodes", unschedulable=True)
        elif spoil == "fault":
            stage.condition("n0", "IBLinksProblem", "True")
        else:
            stage.create(pod("other", scheduler="default-scheduler", nodeName="n0"))
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == []


def test_missing_members_fit_only_into_the_domain_of_the_bound_members() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        waiting(stage, 2, topology={"required": "block"})
        host = await stage.leader()
        await host.bind("g-w-0", "n0")
        stage.change("n1", "nodes", unschedulable=True)
        await at_rest(stage)

    assert violations(history, FeasibleGangsRun) == []


@pytest.mark.parametrize(("cycles", "expected"), [(4, ["L3"]), (0, [])])
def test_a_gang_that_fits_for_several_cycles_starves(cycles: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        host = await stage.leader()
        host.decided(CycleResult(cycle=0))
        await stage.pass_time(40)
        waiting(stage, 4)
        await stage.pass_time(25)
        for _ in range(cycles):
            host.decided(CycleResult(cycle=0))
        await stage.pass_time(30)

    assert violations(history, NoStarvation) == expected


@pytest.mark.parametrize(("bad", "expected"), [(0, ["L3"]), (2, [])], ids=["idle", "held-back"])
def test_a_gang_that_fits_while_no_cycle_runs_starves(bad: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        host = await stage.leader()
        host.decided(CycleResult(cycle=0))
        await stage.pass_time(40)
        waiting(stage, 2)
        for number in range(bad):
            stage.condition(f"n{number}", "IBLinksProblem", "True")
        await stage.pass_time(85)

    assert violations(history, NoStarvation) == expected


@pytest.mark.parametrize(("at_s", "expected"), [(300, []), (1, ["L3"])], ids=["recently", "long-ago"])
def test_no_gang_starves_while_the_breaker_may_be_open(at_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        host = await stage.leader()
        for at in (1, 300):
            await stage.pass_time(at - stage.loop.time())
            for number in range(2) if at == at_s else ():
                stage.condition(f"n{number}", "IBLinksProblem", "True")
        waiting(stage, 2)
        for _ in range(8):
            host.decided(CycleResult(cycle=0))
            await stage.pass_time(15)

    assert violations(history, NoStarvation)[:1] == expected


def test_no_gang_starves_under_a_leader_with_late_watches() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        host = await stage.leader()
        host.decided(CycleResult(cycle=0))
        waiting(stage, 4)
        host.network.delay_watches(60)
        for _ in range(4):
            host.decided(CycleResult(cycle=0))
            await stage.pass_time(30)

    assert violations(history, NoStarvation) == []


@pytest.mark.parametrize(("runs", "expected"), [(False, ["L4"]), (True, [])])
def test_repeated_evictions_without_running_in_between_violate(runs: bool, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(pod_group("g", min_member=1))
        host = await stage.leader()
        for number in range(4):
            stage.create(pod(f"a-{number}", group="g"))
            await host.bind(f"a-{number}", "n0")
            if runs:
                stage.status(f"a-{number}", phase="Running")
            await host.evict(f"a-{number}")
            await stage.pass_time(30)

    assert violations(history, NoEndlessEvictions) == expected


@pytest.mark.parametrize(("starts", "expected"), [(False, ["L4"]), (True, [])])
def test_too_many_victims_for_a_gang_that_does_not_start_violate(starts: bool, expected: list[str]) -> None:
    """Each cycle evicts further victims; the gang starts in between, or never."""
    scenario = Scenario().nodes("n", 2).gang("high", 2, priority=1)
    scenario.gang("low", 180, bound=180, gpu=0, cpu=0, memory=0)
    snapshot = scenario.snapshot()
    low, high = snapshot.gangs[GangId("gang-low")], snapshot.gangs[GangId("gang-high")]
    certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")
    placed = Placement(high.id, "team/high", 1, "start", (), certificate)

    async def history(stage: Stage) -> None:
        for first in range(0, 180, 20):
            gone = tuple(
                Evict(
                    pod.uid,
                    "team",
                    pod.name,
                    low.id,
                    1,
                    EvictionReason.PREEMPTED,
                    "",
                    beneficiary="team/high",
                )
                for pod in low.members[first : first + 20]
            )
            result = CycleResult(cycle=1, evictions=gone, placements=(placed,) if starts else ())
            stage.checks.on_cycle("host", snapshot, result)

    assert violations(history, NoEndlessEvictions)[:1] == expected


def test_repeated_evictions_of_one_terminating_pod_count_once() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(pod_group("g", min_member=1), pod("a", group="g"))
        host = await stage.leader()
        await host.bind("a", "n0")
        stage.client.update(stage.key("a"), lambda it: {**it, "metadata": {**it["metadata"], **HELD}})
        for _ in range(5):
            await host.evict("a")
            await stage.pass_time(30)

    assert violations(history, NoEndlessEvictions) == []


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("InsufficientCapacity", "InsufficientCapacity: 8 GPUs are free", []),
        ("", "InsufficientCapacity: 8 GPUs are free", ["L11"]),
        ("InsufficientCapacity", "", ["L11"]),
        ("InsufficientCapacity", "Something else", ["L11"]),
    ],
)
def test_a_waiting_gang_without_a_known_reason_violates(
    reason: str, message: str, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(pod_group("g", min_member=1), pod("a", group="g"))
        if reason:
            stage.status("g", "podgroups.scheduling.phalanx.dev", reason=reason)
        if message:
            stage.status("a", condition={"type": "PodScheduled", "status": "False", "message": message})
        await stage.pass_time(20)
        await at_rest(stage)

    assert violations(history, WaitingIsExplained) == expected


@pytest.mark.parametrize(
    ("changes", "expected"), [("nothing", ["L11"]), ("heartbeats", ["L11"]), ("nodes", []), ("pods", [])]
)
def test_cycles_without_any_change_violate(changes: str, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.condition("n0", "Ready", "True")
        host = await stage.leader()
        await stage.pass_time(20)
        for number in range(40):
            if changes == "pods":
                stage.create(pod(f"a{number}"))
            elif changes == "nodes":
                stage.change("n0", "nodes", unschedulable=number % 2 == 0)
            elif changes == "heartbeats":
                stage.condition("n0", "Ready", "True", lastHeartbeatTime=f"2026-01-01T00:00:{number:02}Z")
            host.decided(CycleResult(cycle=0))
            await stage.pass_time(1)

    assert violations(history, WaitingIsExplained) == expected


async def know_all(stage: Stage) -> None:
    for host in stage.hosts:
        await host.receive()


def relabel(stage: Stage) -> None:
    """A node moves to another block."""
    labels = {BLOCK: "b7"}
    stage.client.update(
        stage.key("n0", "nodes"), lambda it: {**it, "metadata": {**it["metadata"], "labels": labels}}
    )


async def bind_first(stage: Stage) -> None:
    await stage.hosts[0].bind("a", "n0")


def replace_class(stage: Stage) -> None:
    """Recreate a PriorityClass with another value, since the value is immutable."""
    stage.delete("high", CLASSES)
    stage.create(priority_class("high", 7))


MISSED: dict[str, Callable[[Stage], object]] = {
    "pod": lambda stage: stage.create(pod("c")),
    "bind": bind_first,
    "deletion": lambda stage: stage.delete("b"),
    "cordon": lambda stage: stage.change("n0", "nodes", unschedulable=True),
    "node": lambda stage: stage.delete("n0", "nodes"),
    "label": relabel,
    "taint": lambda stage: stage.change("n0", "nodes", taints=[{"key": "a", "effect": "NoSchedule"}]),
    "condition": lambda stage: stage.condition("n0", "IBLinksProblem", "True"),
    "allocatable": lambda stage: stage.status("n0", "nodes", allocatable=GPUS8),
    "minimum": lambda stage: stage.change("g", GROUPS, minMember=3),
    "level": lambda stage: stage.change("g", GROUPS, topology={"required": "rack"}),
    "group-queue": lambda stage: stage.change("g", GROUPS, queue="other"),
    "group": lambda stage: stage.delete("g", GROUPS),
    "new-group": lambda stage: stage.create(pod_group("h", min_member=1)),
    "limit": lambda stage: stage.change("q", QUEUES, limit=GPUS8),
    "weight": lambda stage: stage.change("q", QUEUES, weight=7),
    "parent": lambda stage: stage.change("q", QUEUES, parent="other"),
    "queue": lambda stage: stage.delete("q", QUEUES),
    "new-queue": lambda stage: stage.create(queue("new")),
    "class": replace_class,
}


@pytest.mark.parametrize("missed", MISSED)
def test_a_cache_that_missed_a_change_violates(missed: str) -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(priority_class("high", 1000), queue("q", maxPodGroupPriority=1000), queue("other"))
        stage.create(pod_group("g", min_member=2, queue="q", priorityClassName="high"))
        stage.create(pod("a"), pod("b"), pod("e", group="g"), pod("f", group="h"))
        await know_all(stage)
        pending = MISSED[missed](stage)
        if pending is not None:
            await pending  # type: ignore[misc]
        await stage.pass_time(4)
        await stage.hosts[0].receive()
        await at_rest(stage)
        assert stage.found.count == 0, "within the tolerance"
        await stage.pass_time(25)
        await at_rest(stage)

    assert violations(history, CacheMatchesApi) == ["L5"]


def test_an_up_to_date_cache_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(pod("a"), pod("b"), pod("foreign", scheduler="x"), priority_class("high", 1000))
        stage.create(queue("q", parent="no-such", limit=GPUS8, weight=3), queue("r", state="Held"))
        topology = {"required": "block", "preferred": "rack"}
        stage.create(pod_group("g", min_member=1, queue="q", priorityClassName="high", topology=topology))
        stage.create(pod("c", group="g"), pod("d", group="none"))
        stage.condition("n0", "IBLinksProblem", "True")
        stage.change("n1", "nodes", taints=[{"key": "a", "effect": "NoSchedule"}], unschedulable=True)
        await stage.hosts[0].bind("a", "n0")
        stage.delete("b")
        await know_all(stage)
        await stage.pass_time(310)

    assert violations(history, CacheMatchesApi) == []


def test_a_cached_gang_after_the_deletion_of_all_work_violates() -> None:
    async def history(stage: Stage) -> None:
        two_blocks(stage)
        stage.create(pod("a"))
        await know_all(stage)
        stage.delete("a")
        await stage.hosts[1].receive()
        stage.checks.at_end()

    assert violations(history, NothingIsLeaked) == ["S18"]
