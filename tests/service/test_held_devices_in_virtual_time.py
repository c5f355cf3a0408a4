"""A running gang loses a member with a claim to a device, while another gang waits for such a device."""

import asyncio
import re
from typing import Any

import pytest
from phalanx_simulator.embedded.controllers.resource_claims import ResourceClaims, serve
from phalanx_simulator.embedded.manifests import node, pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

VERSION, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


def made(kind: str, name: str, spec: Any, **meta: str) -> Object:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def devices() -> list[Object]:
    """A node with two devices of a class, and a template for claims to one of them."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    gpus = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
    }
    return [
        made("DeviceClass", "gpu", {"selectors": [expression]}),
        made("ResourceSlice", "n1", {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": gpus}),
        made(
            "ResourceClaimTemplate",
            "one-gpu",
            {"spec": {"devices": {"requests": [request]}}},
            namespace="default",
        ),
    ]


def member(name: str, group: str) -> Object:
    return pod(name, group=group, requests={"cpu": "1"}, resourceClaims=CLAIMS)


def node_of(world: World, name: str) -> str | None:
    found = world.client.get(Key("pods", "default", name))
    return found["spec"].get("nodeName") if found is not None else None


def why_waits(world: World, group: str) -> str:
    found = world.client.get(Key("podgroups.scheduling.phalanx.dev", "default", group))
    return str(found["status"]) if found is not None else ""


async def lose(world: World, name: str) -> None:
    found = world.client.get(Key("pods", "default", name))
    assert found is not None
    world.client.delete(Key("pods", "default", name), uid=found["metadata"]["uid"])
    await asyncio.sleep(60)
    assert world.client.get(Key("pods", "default", name)) is None


async def started(world: World) -> None:
    """A gang has both devices, and another gang waits for one."""
    serve(world.server)
    world.controllers.callback(ResourceClaims(world.client).close)
    world.create([node("n1"), *devices()])
    world.start()
    await asyncio.sleep(5)
    world.create([pod_group("train", min_member=2), member("train-0", "train"), member("train-1", "train")])
    await asyncio.sleep(10)
    assert node_of(world, "train-1") == "n1"
    world.create([pod_group("next", min_member=1), member("next-0", "next")])
    await asyncio.sleep(10)


async def replaced(world: World) -> None:
    """The new member runs, and the other gang still waits."""
    world.create([member("train-2", "train")])
    await asyncio.sleep(30)
    assert node_of(world, "train-2") == "n1"
    assert node_of(world, "next-0") is None


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_replacement_gets_the_device_and_the_other_gang_waits(replicas: int) -> None:
    """The order in which the scheduler sees the ends of the pod and of its claim depends on the seed."""

    async def play(world: World) -> None:
        await started(world)
        await lose(world, "train-1")
        assert node_of(world, "next-0") is None
        status = why_waits(world, "next")
        assert "CapacityReserved" in status
        assert re.search(
            f"device {DRIVER}/n1/gpu-[01], is reserved for missing members of default/train", status
        )
        await replaced(world)

    world = in_world(WorldSettings(seed=1, replicas=replicas, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


def test_a_new_leader_holds_the_device_too() -> None:
    async def play(world: World) -> None:
        await started(world)
        await lose(world, "train-1")
        world.replicas[0].kill()
        await asyncio.sleep(60)
        assert node_of(world, "next-0") is None
        await replaced(world)

    in_world(WorldSettings(seed=1, replicas=1), play)
