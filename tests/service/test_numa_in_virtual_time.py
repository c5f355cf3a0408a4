"""NUMA zones while pods start and end: no kubelet rejects a pod, and pods that fit start."""

import asyncio
from collections import Counter
from typing import Any

from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx.model.names import API_GROUP
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.kubelets.kubelet import START_SECONDS
from phalanx_simulator.embedded.kubelets.numa_zones import TOPOLOGIES
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.node_topologies import CRD, node_topology

ZONE = {"cpu": "32", "nvidia.com/gpu": "4"}
WORK = ((3, 60.0), (1, 45.0), (4, 30.0), (2, 75.0), (3, 50.0))
"""Devices and run time in seconds."""


def publish(world: World) -> None:
    """One node publishes its zones; another of the same size has a kubelet that does not align."""
    world.client.create("customresourcedefinitions.apiextensions.k8s.io", "", CRD)
    world.client.create(TOPOLOGIES, "", node_topology("n1", ZONE, ZONE))
    world.client.create(TOPOLOGIES, "", node_topology("n2", ZONE, ZONE, policy="best-effort"))


def requesting_pod(name: str, gpus: int, *, start_s: float = 0.0, **fields: Any) -> Object:
    """A pod that is not Guaranteed, so that only its devices are aligned."""
    made = manifests.pod(name, requests={"cpu": "2", "nvidia.com/gpu": str(gpus)}, **fields)
    annotations = made["metadata"].setdefault("annotations", {})
    annotations.update({START_SECONDS: str(start_s)} if start_s else {})
    return made


def phases(world: World) -> Counter[str]:
    found = [world.client.get(key) for key in world.client.keys("pods")]
    return Counter(pod["status"].get("reason") or pod["status"]["phase"] for pod in found if pod is not None)


def test_no_pod_is_rejected_while_pods_of_many_sizes_start_and_end() -> None:
    async def play(world: World) -> None:
        publish(world)
        world.create([manifests.node("n1", cpu="64")])
        world.start()
        await asyncio.sleep(5)
        for number in range(5):
            for place, (gpus, run_s) in enumerate(WORK):
                world.create([requesting_pod(f"p{number}-{place}", gpus, run_s=run_s, start_s=1.5)])
            await asyncio.sleep(9)
        await asyncio.sleep(700)
        assert phases(world) == {"Succeeded": 25}

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


def test_zones_that_are_published_later_count_from_then_on() -> None:
    """Two pods of three devices fit a node with two zones; a third pod of two devices does not."""

    async def play(world: World) -> None:
        world.create([manifests.node("n1", cpu="64")])
        world.start()
        await asyncio.sleep(5)
        publish(world)
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S + 5)
        world.create([requesting_pod("a", 3), requesting_pod("b", 3)])
        await asyncio.sleep(5)
        world.create([requesting_pod("c", 2)])
        await asyncio.sleep(30)
        assert phases(world) == {"Running": 2, "Pending": 1}
        world.create([manifests.node("n2", cpu="64")])
        await asyncio.sleep(30)
        assert phases(world) == {"Running": 3}

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_a_gang_gets_one_pod_in_each_zone() -> None:
    async def play(world: World) -> None:
        publish(world)
        world.create([manifests.node("n1", cpu="64")])
        world.start()
        await asyncio.sleep(5)
        gang = [requesting_pod(f"g{number}", 4) for number in range(2)]
        for pod in gang:
            pod["metadata"].setdefault("labels", {})[f"{API_GROUP}/pod-group"] = "g"
        world.create([manifests.pod_group("g", min_member=2), *gang])
        await asyncio.sleep(30)
        assert phases(world) == {"Running": 2}

    in_world(WorldSettings(seed=1, replicas=1), play)
