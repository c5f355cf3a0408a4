"""Queues of Volcano and KAI: watched where the configuration says so, obeyed, and never written."""

import asyncio

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx.model.dialects.queues import QueueDialectName
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.dialect_crds import KAI_QUEUES, VOLCANO_QUEUES
from tests.service.dialect_world import bound, message, pods, recorder, serve

pytestmark = pytest.mark.usefixtures("quiet")

VOLCANO, KAI = "queues.scheduling.volcano.sh", "queues.scheduling.run.ai"
BOTH = SchedulerConfig(queue_dialects=tuple(QueueDialectName))


def create(world: World, resource: str, name: str, **spec: object) -> None:
    version = "scheduling.volcano.sh/v1beta1" if resource == VOLCANO else "scheduling.run.ai/v2"
    meta: Object = {"name": name}
    world.client.create(
        resource, "", {"apiVersion": version, "kind": "Queue", "metadata": meta, "spec": spec}
    )


def members(name: str, queue: str) -> list[Object]:
    return pods(name, 2, labels={"scheduling.phalanx.dev/queue": queue})


def test_limits_count_and_a_closed_queue_waits() -> None:
    free = {"quota": 0, "limit": -1}
    writes: list[tuple[str, Key]] = []

    async def play(world: World) -> None:
        serve(world, VOLCANO_QUEUES, KAI_QUEUES)
        world.create([manifests.node("n1", gpus=8)])
        create(world, VOLCANO, "v", capability={"nvidia.com/gpu": 1})
        resources = {"cpu": free, "memory": free, "gpu": {**free, "limit": 1}}
        create(world, KAI, "k", resources=resources)
        create(world, VOLCANO, "closed")
        world.client.update_status(Key(VOLCANO, "", "closed"), state="Closed")
        world.create([*members("v", "v"), *members("k", "k"), *members("c", "closed")])
        writes.clear()
        world.start()
        await asyncio.sleep(10)
        assert (bound(world, "v"), bound(world, "k"), bound(world, "c")) == (1, 1, 0)
        assert "queue closed is closed" in message(world, "c-0")
        world.client.update(Key(VOLCANO, "", "v"), lambda queue: {**queue, "spec": {}})
        world.client.update_status(Key(VOLCANO, "", "closed"), state="Open")
        await asyncio.sleep(10)
        assert (bound(world, "v"), bound(world, "c")) == (2, 2)
        world.create([manifests.queue("v")])
        await asyncio.sleep(1)  # else the scheduler may see the pod first
        world.create(pods("late", 1, labels={"scheduling.phalanx.dev/queue": "v"}))
        await asyncio.sleep(10)
        assert "a Queue of scheduling.phalanx.dev and a Queue of scheduling.volcano.sh" in message(
            world, "late-0"
        )

    in_world(WorldSettings(seed=1, replicas=1, config=BOTH, checks=(recorder(writes),)), play)
    assert not [key for _, key in writes if key.resource in (VOLCANO, KAI)]


@pytest.mark.parametrize(("config", "is_watched"), [(SchedulerConfig(), False), (BOTH, True)])
def test_they_are_watched_only_where_the_configuration_says_so(
    config: SchedulerConfig, is_watched: bool
) -> None:
    """A kind that is not served is no obstacle, and counts when it is."""

    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=8), *members("v", "v")])
        world.start()
        await asyncio.sleep(10)
        assert "queue v does not exist" in message(world, "v-0")
        serve(world, VOLCANO_QUEUES)
        create(world, VOLCANO, "v")
        await asyncio.sleep(2 * OPTIONAL_KIND_RETRY_S)
        assert bound(world, "v") == (2 if is_watched else 0)
        process = world.replicas[0].process
        assert process is not None
        assert process.network.watches("/scheduling.volcano.sh/v1beta1/queues") == is_watched

    in_world(WorldSettings(seed=1, replicas=1, config=config), play)
