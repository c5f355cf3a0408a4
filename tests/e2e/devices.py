"""Devices as a driver publishes them, and gangs whose pods have claims to them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.workloads import Manifest, create, listed, members, pod_group

API = "resource.k8s.io/v1"
PATH = f"/apis/{API}"
DRIVER = "gpu.example.com"
FABRIC = "fabric.example.com"
SLICED = "sliced.example.com"


def _object(kind: str, name: str, spec: Manifest, *, space: str = "") -> Manifest:
    meta = {"name": name, "namespace": space} if space else {"name": name}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def device_class(name: str, driver: str) -> Manifest:
    """All devices of one driver."""
    expression = f'device.driver == "{driver}"'
    return _object("DeviceClass", name, {"selectors": [{"cel": {"expression": expression}}]})


def node_slice(node: str, *, count: int) -> Manifest:
    """The GPUs of one node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{index}"} for index in range(count)]
    return _object(
        "ResourceSlice", node, {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    )


def channel(*taints: Manifest) -> Manifest:
    """A device that its driver prepares after the allocation."""
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    return {"name": "channel", "taints": list(taints), **conditions}


def fabric_slice(name: str) -> Manifest:
    """A channel that all nodes can use."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": FABRIC, "allNodes": True, "pool": pool, "devices": [channel()]}
    return _object("ResourceSlice", name, spec)


def sliced_gpu(node: str) -> Manifest:
    """A GPU of a node that several claims can have."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    memory = {"value": "80Gi", "requestPolicy": policy}
    device = {"name": "gpu", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
    spec = {"driver": SLICED, "nodeName": node, "pool": pool, "devices": [device]}
    return _object("ResourceSlice", f"sliced-{node}", spec)


def _wanted(device_class: str, **more: Any) -> Manifest:
    exactly = {"deviceClassName": device_class, **more}
    return {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}


def template(name: str, *, space: str, device_class: str, **more: Any) -> Manifest:
    """A template for claims to one device; `more` are fields of the request."""
    return _object("ResourceClaimTemplate", name, {"spec": _wanted(device_class, **more)}, space=space)


def claim(name: str, *, space: str, device_class: str) -> Manifest:
    """A claim to one device."""
    return _object("ResourceClaim", name, _wanted(device_class), space=space)


def claiming_gang(name: str, *, space: str, size: int, claims: list[Manifest]) -> list[Manifest]:
    """A gang whose pods have these entries in spec.resourceClaims."""
    pods = members(name, space=space, size=size, requests={"cpu": "1"})
    for pod in pods:
        pod["spec"]["resourceClaims"] = claims
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": each["name"]} for each in claims]
    return [pod_group(name, space=space, size=size), *pods]


async def create_devices(plane: ControlPlane, *, space: str, nodes: list[str], count: int) -> None:
    """GPUs of nodes, one channel for all nodes, their classes, a template and a shared claim."""
    await create(
        plane,
        device_class("gpu", DRIVER),
        device_class("channel", FABRIC),
        fabric_slice("rack"),
        *(node_slice(node, count=count) for node in nodes),
        template("one-gpu", space=space, device_class="gpu"),
        claim("rack", space=space, device_class="channel"),
    )


async def claims_in(plane: ControlPlane, space: str) -> list[Manifest]:
    """All claims of a namespace."""
    return await listed(plane, f"{PATH}/namespaces/{space}/resourceclaims")


def allocated_devices(claims: list[Manifest]) -> list[tuple[str, str, str]]:
    """The devices of all allocations. Fails if one is allocated twice."""
    found = [
        (result["driver"], result["pool"], result["device"])
        for each in claims
        for result in each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    twice = [device for device, count in Counter(found).items() if count > 1]
    assert not twice, f"allocated twice: {twice}"
    return sorted(found)


async def until(so: Callable[[], Awaitable[Any]]) -> None:
    """Ask again until the answer is true."""
    async with asyncio.timeout(120):
        while not await so():
            await asyncio.sleep(0.05)
