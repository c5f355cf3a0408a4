"""PodGroups of scheduler-plugins: off while they are not served, and never written."""

import asyncio

import pytest
from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.dialect_crds import SCHEDULER_PLUGINS
from tests.service.dialect_world import bound, found, message, pods, recorder, serve, writes_to

pytestmark = pytest.mark.usefixtures("quiet")

GROUPS = "podgroups.scheduling.x-k8s.io"
PODS = 2


def create_group(world: World, name: str) -> None:
    meta, spec = {"name": name, "namespace": "default"}, {"minMember": PODS}
    body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta, "spec": spec}
    world.client.create(GROUPS, "default", body)


def members(name: str) -> list[Object]:
    return pods(name, PODS, labels={"scheduling.x-k8s.io/pod-group": name})


def test_they_count_from_the_time_when_they_are_served_and_are_not_written() -> None:
    calls: list[tuple[str, Key]] = []

    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=PODS)])
        world.start()
        await asyncio.sleep(5)
        world.create([*members("train"), *members("waits")])
        await asyncio.sleep(5)
        assert message(world, "train-0").startswith("PodGroupNotFound")
        serve(world, SCHEDULER_PLUGINS)
        for name in ("train", "waits"):
            create_group(world, name)
            world.client.update_status(Key(GROUPS, "default", name), phase="Pending")
        before = [found(world, GROUPS, name) for name in ("train", "waits")]
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S + 5)
        assert (bound(world, "train"), bound(world, "waits")) == (PODS, 0)
        assert [found(world, GROUPS, name) for name in ("train", "waits")] == before

    in_world(WorldSettings(seed=1, replicas=1, checks=(recorder(calls),)), play)
    assert writes_to(calls, "pods")
    assert writes_to(calls, GROUPS) == []
