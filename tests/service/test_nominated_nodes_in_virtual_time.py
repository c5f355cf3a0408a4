"""Waiting pods say on which node capacity is being freed for them."""

import asyncio
from typing import Any

from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.kubelets.kubelet import STOP_SECONDS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

STOPS_IN_S = 60


def state(world: World, name: str) -> tuple[str | None, str | None, str]:
    """Where the pod is, where it is expected, and the reason of its condition."""
    [key] = [key for key in world.client.keys("pods") if key.name == name]
    pod: dict[str, Any] = world.client.get(key) or {}
    conditions = pod["status"].get("conditions", [])
    reasons = [each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"]
    return pod["spec"].get("nodeName"), pod["status"].get("nominatedNodeName"), "".join(reasons)


async def evicting(world: World) -> None:
    """A gang of two pods waits until a pod of lower priority has stopped."""
    world.create([manifests.node("n1", gpus=1), manifests.node("n2", gpus=1)])
    world.create([manifests.priority_class("high", 10)])
    world.start()
    await asyncio.sleep(5)
    old = manifests.pod("old", terminationGracePeriodSeconds=STOPS_IN_S)
    old["metadata"]["annotations"] = {STOP_SECONDS: str(STOPS_IN_S)}
    world.create([old])
    await asyncio.sleep(5)
    world.create([manifests.pod_group("train", min_member=2, priorityClassName="high")])
    world.create(manifests.gang("train", {"worker": 2}, priorityClassName="high"))
    await asyncio.sleep(5)


def test_pods_name_the_node_until_they_are_bound() -> None:
    async def play(world: World) -> None:
        await evicting(world)
        names = ("train-worker-0", "train-worker-1")
        found = [state(world, name) for name in names]
        assert {node for _, node, _ in found} == {"n1", "n2"}
        assert {reason for *_, reason in found} == {"EvictionInProgress"}
        await asyncio.sleep(STOPS_IN_S)
        assert [state(world, name)[0] for name in names] == [node for _, node, _ in found]

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_pods_name_no_node_any_more_once_the_capacity_is_lost() -> None:
    async def play(world: World) -> None:
        await evicting(world)
        [node] = [key for key in world.client.keys("nodes") if key.name == "n1"]
        world.client.delete(node, uid=world.client.get(node)["metadata"]["uid"])
        await asyncio.sleep(10)
        place, nominated, reason = state(world, "train-worker-0")
        assert (place, nominated) == (None, None)
        assert reason != "EvictionInProgress"

    in_world(WorldSettings(seed=1, replicas=1), play)
