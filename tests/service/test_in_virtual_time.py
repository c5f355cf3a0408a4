"""What takes time: the whole scheduler on a virtual clock."""

import asyncio
from typing import Any

from phalanx.limits import BIND_HOLD_LONGEST_MS, PARTIAL_GANG_GRACE_MS
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.sim import workloads
from phalanx.sim.invariants.all import ALL_CHECKS
from phalanx.sim.network import Effect, Rule
from phalanx.sim.store import Object
from phalanx.sim.world import World, WorldSettings, in_world

HOUR_MS = 3_600_000


def gang(size: int) -> list[Object]:
    """A PodGroup and a Job of one-core pods, of which the third is never bound where a rule says so."""
    requests = {"cpu": "1"}
    container = {"name": "main", "image": "fake", "resources": {"requests": requests, "limits": requests}}
    template = {
        "metadata": {"labels": {LABEL_POD_GROUP: "train"}},
        "spec": {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"parallelism": size, "completions": size, "completionMode": "Indexed", "template": template},
    }
    return [workloads.pod_group("train", min_member=size), job]


def pods(world: World) -> list[Object]:
    found = [world.client.get(key) for key in world.client.keys("pods")]
    return [pod for pod in found if pod is not None and "deletionTimestamp" not in pod["metadata"]]


def bound(world: World) -> list[Object]:
    return [pod for pod in pods(world) if pod["spec"].get("nodeName")]


def refuse(world: World, path_part: str, **fields: Any) -> Rule:
    """Binds are forbidden, until the rule is used up."""
    rule = Rule(Effect.REFUSED, methods=("POST",), path_part=path_part, status=403, **fields)
    for replica in world.replicas:
        assert replica.process is not None
        replica.process.network.rules.append(rule)
    return rule


async def settled(world: World) -> None:
    world.create([workloads.node("n1", gpus=8)])
    world.start()
    await asyncio.sleep(5)


def test_a_gang_that_stays_broken_is_released_whole() -> None:
    reasons: list[str] = []

    async def play(world: World) -> None:
        await settled(world)
        refuse(world, "train-2")
        world.server.store.subscribe("pods", lambda change: note(change.entry.data))
        world.create(gang(3))
        await asyncio.sleep(1)
        first = {pod["metadata"]["uid"] for pod in bound(world)}
        assert len(first) == 2
        await asyncio.sleep(PARTIAL_GANG_GRACE_MS / 1000 + 5)
        assert first.isdisjoint(pod["metadata"]["uid"] for pod in pods(world))

    def note(pod: Object) -> None:
        conditions = pod.get("status", {}).get("conditions", [])
        reasons.extend(each["reason"] for each in conditions if each["type"] == "DisruptionTarget")

    in_world(WorldSettings(seed=1, replicas=1), play)
    assert set(reasons) == {"GangIncomplete"}


def test_a_wall_clock_that_is_set_back_holds_up_nobody() -> None:
    """Found by a run in which a claim on room lasted for an hour."""

    async def play(world: World) -> None:
        await settled(world)
        rule = refuse(world, "/binding")
        world.create(gang(3))
        await asyncio.sleep(60)
        assert bound(world) == []
        world.replicas[0].clock.jump(-HOUR_MS)
        rule.times = 0
        await asyncio.sleep(2 * BIND_HOLD_LONGEST_MS / 1000)
        assert len(bound(world)) == 3

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


def test_a_wall_clock_that_is_set_forward_releases_nobody_early() -> None:
    async def play(world: World) -> None:
        await settled(world)
        refuse(world, "train-2")
        world.create(gang(3))
        await asyncio.sleep(1)
        before = {pod["metadata"]["uid"] for pod in bound(world)}
        world.replicas[0].clock.jump(HOUR_MS)
        await asyncio.sleep(PARTIAL_GANG_GRACE_MS / 1000 / 2)
        assert {pod["metadata"]["uid"] for pod in bound(world)} == before != set()

    in_world(WorldSettings(seed=1, replicas=1), play)
