"""Plays about reports: they are true, are written once, and their state is removed with its objects."""

import asyncio
import gc
from typing import Any

from phalanx.clock import SystemClock
from phalanx.model.names import GangId
from phalanx.model.resources import request_amount
from phalanx.observe.metrics import Metrics
from phalanx.service import pod_group_status
from phalanx.service.pod_group_status import GangReport
from phalanx_simulator.embedded.manifests import gang, node, pod, pod_group, queue
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.faults.edits import POD_GROUPS, QUEUES, delete
from phalanx_simulator.hosts.network import Effect, Exchange, Rule
from phalanx_simulator.runs.world import World
from prometheus_client import generate_latest

from tests.bugbank.worlds import FULL, GPU, CycleRunner, at_rest, opened, watched
from tests.model import written

_WHY = "injected 403"
"""The message of the simulated refusal."""


def failed_binds_are_not_reported_as_success() -> str | None:
    """An admission webhook refuses every bind of a gang: its status and its events do not report success."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), node("n1"))
        _refuse_binds(world)
        world.create([pod_group("g", min_member=2), *gang("g", {"w": 2}, requests=FULL)])
        await asyncio.sleep(10.0)
        status = (world.client.get(Key(POD_GROUPS, "default", "g")) or {}).get("status", {})
        if status.get("phase") == "Running" or status.get("startedAt"):
            return f"the gang is {status.get('phase')}, although no bind was applied"
        if status.get("counts", {}).get("bound"):
            return f"the status counts {status['counts']['bound']} bound members"
        if "Scheduled" in _event_reasons(world):
            return "an event says that a pod was scheduled"
        return None if _WHY in str(status.get("message")) else f"the status says {status.get('message')!r}"

    return watched(act)


def _refuse_binds(world: World) -> None:
    for replica in world.replicas:
        if replica.process is not None:
            rule = Rule(effect=Effect.REFUSED, methods=("POST",), path_part="/binding", status=403)
            replica.process.network.rules.append(rule)


def _event_reasons(world: World) -> list[str]:
    found = [world.client.get(key) or {} for key in world.client.keys("events.events.k8s.io")]
    return [each.get("reason", "") for each in found]


def the_status_of_a_queue_has_its_usage() -> str | None:
    """Two pods of two cores and four GPUs: 4 cores and 8 GPUs, as quantities of Kubernetes."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), queue("q"))
        world.create([pod_group("g", min_member=2, queue="q")])
        world.create(gang("g", {"w": 2}, requests={"cpu": "2", GPU: "4"}))
        await asyncio.sleep(10.0)
        status = (world.client.get(Key(QUEUES, "", "q")) or {}).get("status", {})
        used = {name: request_amount(name, amount) for name, amount in status["allocated"].items()}
        return (
            None if (used.get("cpu"), used.get(GPU)) == (4000, 8) else f"the queue says {status['allocated']}"
        )

    return watched(act)


def metrics_count_decisions() -> str | None:
    """A gang of three is three binds; a deleted queue has no metrics any more."""
    key = written.label("pod-group")
    members = [written.pod(f"p{n}", labels={key: "g"}, requests={GPU: 1}) for n in range(3)]
    team = written.named("Queue", "team", spec={})
    runner = CycleRunner(written.node("n"), team, written.pod_group("g", minMember=3, queue="team"), *members)
    metrics = Metrics(SystemClock())
    metrics.cycle_finished(runner.cycle(), seconds=0.1)
    if 'phalanx_decisions_total{kind="bind"} 3.0' not in _shown(metrics):
        return "three binds are not counted as three"
    runner.gone(team)
    metrics.cycle_finished(runner.cycle(), seconds=0.1)
    return "a deleted queue still has metrics" if 'queue="team"' in _shown(metrics) else None


def _shown(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def a_waiting_pod_gets_one_event() -> str | None:
    """A pod waits for minutes: its reports are written once, and then nothing is written."""

    async def act(world: World) -> str | None:
        sent: list[str] = []

        def record(exchange: Exchange) -> None:
            is_new = exchange.landed_at is None and exchange.outcome is None
            if is_new and exchange.method in ("POST", "PATCH", "PUT") and "/leases" not in exchange.path:
                sent.append(exchange.path)

        world.observe(record)
        await opened(world, node("n0"))
        world.create([pod_group("g", min_member=1), *gang("g", {"w": 1}, requests={GPU: "9"})])
        await asyncio.sleep(600.0)
        return f"{len(sent)} writes: {sent[-1]}" if len(sent) > _WRITES else None

    return watched(act)


_WRITES = 8
"""What was counted: statuses for a preliminary reason, the reason and its advice, conditions of the pod, the
last of which asks for nodes, and events about the PodGroup and the pod."""


def no_state_is_kept_of_deleted_gangs() -> str | None:
    """Gangs run, wait and end in a namespace, and all of it is deleted."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), queue("q"))
        for name, gpus in (("runs", "2"), ("waits", "9")):
            world.create([pod_group(name, min_member=2, queue="q")])
            world.create(gang(name, {"w": 2}, requests={GPU: gpus}))
        await asyncio.sleep(10.0)
        for resource in ("pods", POD_GROUPS):
            for key in world.client.keys(resource):
                delete(world.client, key)
        await at_rest(world)
        world.at_end()
        processes = [replica.process for replica in world.replicas if replica.process is not None]
        reporters: list[Any] = [process.scheduler._reporter for process in processes]
        left = [
            gang
            for reporter in reporters
            for kept in ("_pod_messages", "_waiting_events", "_condition_reasons")
            for gang in (*reporter._reports, *getattr(reporter, kept).gangs)
        ]
        return f"reports are still kept for {left}" if left else None

    return watched(act)


def shapes_of_deleted_pods() -> str | None:
    """A hundred pods, each of a different shape, are created and deleted."""
    runner = CycleRunner()
    for number in range(1, 101):
        one = written.pod(f"p{number}", requests={"cpu": f"{number}m"})
        runner.put(one)
        runner.gone(one)
    gc.collect()
    shapes: Any = runner.cache._pods._shapes
    return f"{len(shapes)} shapes of deleted pods are kept" if len(shapes) > 1 else None


def refusals_of_deleted_gangs() -> str | None:
    """Ten pods are refused and deleted, one after the other. Another one stays."""
    runner = CycleRunner(written.node("n"), written.pod("stays", requests={GPU: 9}))
    for number in range(10):
        one = written.pod(f"p{number}", requests={GPU: 9})
        runner.put(one)
        runner.cycle()
        runner.gone(one)
    runner.cycle()
    (refused,) = runner.memory.refused_starts.values()
    return f"{len(refused) - 1} refusals of deleted gangs are kept" if len(refused) > 1 else None


def a_status_while_binds_are_under_way() -> str | None:
    """Nothing is bound yet: both members are pending."""
    key = written.label("pod-group")
    members = [written.pod(f"p{n}", labels={key: "g"}, requests={GPU: 1}) for n in range(2)]
    group = written.pod_group("g", minMember=2)
    runner = CycleRunner(written.node("n"), group, *members)
    runner.assume(runner.cycle())
    found = runner.cache.gang(GangId("uid-g"))
    assert found is not None
    status = pod_group_status.status_of(found, GangReport(), before=group.status, now_ms=runner.now)
    counts = status.counts
    return None if counts is not None and counts.pending == 2 and not counts.bound else f"counts: {counts}"


def a_pod_with_the_longest_name_gets_its_event() -> str | None:
    """A pod with a name of the maximum length waits, and its event has the reason."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"))
        world.create([pod("p" * 253, requests={GPU: "9"})])
        await asyncio.sleep(10.0)
        reasons = _event_reasons(world)
        return None if "FailedScheduling" in reasons else f"its events are {reasons}"

    return watched(act)
