"""Applications of YuniKorn over their life: reserved capacity, surplus, and no writes but those on pods."""

import asyncio
import json
from typing import Any

import pytest
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.service.dialect_world import bound, message, pods, recorder

pytestmark = pytest.mark.usefixtures("quiet")

DOMAIN = "yunikorn.apache.org"
EXECUTORS = 2
GPU = "nvidia.com/gpu"


def groups(executors: int = EXECUTORS) -> str:
    wanted = [("driver", 1), ("executor", executors)]
    made = [{"name": name, "minMember": count, "minResource": {GPU: 1}} for name, count in wanted]
    return json.dumps(made)


def members(app: str, role: str, count: int, **more: str) -> list[Object]:
    annotations = {
        f"{DOMAIN}/task-group-name": role,
        **{f"{DOMAIN}/{key}": text for key, text in more.items()},
    }
    return pods(f"{app}-{role}", count, labels={"applicationId": app}, annotations=annotations)


def driver(app: str, **more: str) -> list[Object]:
    return members(app, "driver", 1, **{"task-groups": groups(), **more})


def test_of_two_drivers_one_starts_and_gets_its_executors() -> None:
    """The deadlock of Spark: with two drivers on three GPUs, no application would get both executors."""
    calls: list[tuple[str, Key]] = []

    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=3)])
        world.create([*driver("a"), *driver("b")])
        world.start()
        await asyncio.sleep(10)
        assert (bound(world, "a-"), bound(world, "b-")) == (1, 0)
        assert message(world, "b-driver-0").startswith("InsufficientCapacity")
        world.create(pods("other", 1))
        world.create(members("a", "executor", EXECUTORS + 1))
        await asyncio.sleep(10)
        assert (bound(world, "a-"), bound(world, "other")) == (3, 0)
        world.create([manifests.node("n2", gpus=2)])
        await asyncio.sleep(20)
        assert (bound(world, "a-"), bound(world, "other"), bound(world, "b-")) == (4, 1, 0)

    in_world(WorldSettings(seed=1, replicas=1, checks=(recorder(calls),)), play)
    written = {key.resource.partition(".")[0] for _, key in calls}
    assert written <= {"pods", "events", "leases", "queues", "configmaps"}


def test_a_new_leader_holds_the_capacity_again() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=3)])
        world.create(driver("a"))
        world.start()
        await asyncio.sleep(10)
        assert bound(world, "a-") == 1
        for replica in world.replicas:
            replica.kill()
        world.create(pods("other", 3))
        await asyncio.sleep(60)
        assert bound(world, "other") == 0
        world.create(members("a", "executor", EXECUTORS))
        await asyncio.sleep(10)
        assert bound(world, "a-") == 3

    in_world(WorldSettings(seed=2, replicas=1), play)


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"schedulingPolicyParameters": "gangSchedulingStyle=Soft"}, "UnsupportedField"), ({}, "")],
)
def test_a_job_starts_whole(more: dict[str, Any], reason: str) -> None:
    async def play(world: World) -> None:
        job = manifests.job("train", members=3)
        text = json.dumps([{"name": "w", "minMember": 3, "minResource": {GPU: 1}}])
        written = {"task-group-name": "w", "task-groups": text, "app-id": "train", **more}
        meta = job["spec"]["template"].setdefault("metadata", {})
        meta["annotations"] = {f"{DOMAIN}/{key}": each for key, each in written.items()}
        world.create([manifests.node("n1", gpus=2), job])
        world.start()
        await asyncio.sleep(20)
        assert bound(world, "train") == 0
        world.create([manifests.node("n2", gpus=1)])
        await asyncio.sleep(20)
        assert bound(world, "train") == (0 if reason else 3)
        names = [key.name for key in world.client.keys("pods")]
        assert not reason or all(message(world, name).startswith(reason) for name in names)

    in_world(WorldSettings(seed=3, replicas=1), play)
