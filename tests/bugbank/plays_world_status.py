"""What is said about gangs, queues and pods is true, is said once, and is forgotten when they are gone."""

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

from tests.bugbank.worlds import FULL, GPU, Still, at_rest, opened, watched
from tests.model import written

_WHY = "injected 403"
"""What the simulated refusal says."""


def binds_fail_and_nobody_says_otherwise() -> str | None:
    """An admission webhook refuses every bind of a gang: its status and its events do not tell of success."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), node("n1"))
        _refuse_binds(world)
        world.create([pod_group("g", min_member=2), *gang("g", {"w": 2}, requests=FULL)])
        await asyncio.sleep(10.0)
        status = (world.client.get(Key(POD_GROUPS, "default", "g")) or {}).get("status", {})
        if status.get("phase") == "Running" or status.get("startedAt"):
            return f"the gang is {status.get('phase')}, and no bind was made"
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


def a_queue_says_what_it_uses() -> str | None:
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


def metrics_count_what_was_decided() -> str | None:
    """A gang of three is three binds; a queue that is gone is not shown any more."""
    key = written.label("pod-group")
    members = [written.pod(f"p{n}", labels={key: "g"}, requests={GPU: 1}) for n in range(3)]
    team = written.named("Queue", "team", spec={})
    still = Still(written.node("n"), team, written.pod_group("g", minMember=3, queue="team"), *members)
    metrics = Metrics(SystemClock())
    metrics.cycle_finished(still.cycle(), seconds=0.1)
    if 'phalanx_decisions_total{kind="bind"} 3.0' not in _shown(metrics):
        return "three binds are not counted as three"
    still.gone(team)
    metrics.cycle_finished(still.cycle(), seconds=0.1)
    return "a queue that is gone is still shown" if 'queue="team"' in _shown(metrics) else None


def _shown(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def who_waits_gets_one_event() -> str | None:
    """A pod waits for minutes: what is to be said is written, and then there is nothing to write."""

    async def act(world: World) -> str | None:
        sent: list[str] = []

        def hear(exchange: Exchange) -> None:
            is_new = exchange.landed_at is None and exchange.outcome is None
            if is_new and exchange.method in ("POST", "PATCH", "PUT") and "/leases" not in exchange.path:
                sent.append(exchange.path)

        world.observe(hear)
        await opened(world, node("n0"))
        world.create([pod_group("g", min_member=1), *gang("g", {"w": 1}, requests={GPU: "9"})])
        await asyncio.sleep(600.0)
        return f"{len(sent)} writes: {sent[-1]}" if len(sent) > _WRITES else None

    return watched(act)


_WRITES = 6
"""A status, a condition and an event, each at most twice: what is known first is not yet all."""


def nothing_is_left_of_what_is_gone() -> str | None:
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
            gang for reporter in reporters for gang in (*reporter._reports, *reporter._pod_messages.gangs)
        ]
        return f"it is still known what was told about {left}" if left else None

    return watched(act)


def shapes_of_pods_that_are_gone() -> str | None:
    """A hundred pods, each of its own shape, come and go."""
    still = Still()
    for number in range(1, 101):
        one = written.pod(f"p{number}", requests={"cpu": f"{number}m"})
        still.put(one)
        still.gone(one)
    gc.collect()
    shapes: Any = still.cache._pods._shapes
    return f"{len(shapes)} shapes of no pod are kept" if len(shapes) > 1 else None


def refusals_of_gangs_that_are_gone() -> str | None:
    """Ten pods are refused and deleted, one after the other."""
    still = Still(written.node("n"))
    for number in range(10):
        one = written.pod(f"p{number}", requests={GPU: 9})
        still.put(one)
        still.cycle()
        still.gone(one)
    still.cycle()
    return f"{len(still.memory.refusals)} refusals of no gang are kept" if still.memory.refusals else None


def a_status_while_binds_are_under_way() -> str | None:
    """Nothing is bound yet: both members are pending."""
    key = written.label("pod-group")
    members = [written.pod(f"p{n}", labels={key: "g"}, requests={GPU: 1}) for n in range(2)]
    group = written.pod_group("g", minMember=2)
    still = Still(written.node("n"), group, *members)
    still.assume(still.cycle())
    found = still.cache.gang(GangId("uid-g"))
    assert found is not None
    status = pod_group_status.status_of(found, GangReport(), before=group.status, now_ms=still.now)
    counts = status.counts
    return None if counts is not None and counts.pending == 2 and not counts.bound else f"counts: {counts}"


def the_longest_name_has_its_event() -> str | None:
    """A pod whose name has as many characters as a name may have waits, and its event says why."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"))
        world.create([pod("p" * 253, requests={GPU: "9"})])
        await asyncio.sleep(10.0)
        reasons = _event_reasons(world)
        return None if "FailedScheduling" in reasons else f"its events are {reasons}"

    return watched(act)
