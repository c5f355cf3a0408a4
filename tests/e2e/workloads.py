"""Fake clusters and gangs for the end-to-end tests, as plain manifests."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.e2e.pod_history import GROUP_LABEL
from tests.fake_objects import create_many, fake_node, fake_pod, namespace

ROLE_LABEL = "scheduling.phalanx.dev/role"

Manifest = dict[str, Any]


def pod_group(name: str, *, space: str, size: int, **spec: Any) -> Manifest:
    """A gang that needs all of its `size` pods; `spec` has further fields."""
    return {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": space},
        "spec": {"minMember": size, **spec},
    }


def queue(name: str, **spec: Any) -> Manifest:
    """A queue at the root."""
    version = "scheduling.phalanx.dev/v1alpha1"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def members(
    group: str, *, space: str, size: int, requests: Mapping[str, str], scheduler: str = "phalanx"
) -> list[Manifest]:
    """The pods of a gang."""
    return [
        fake_pod(
            f"{group}-{i}",
            namespace=space,
            scheduler_name=scheduler,
            labels={GROUP_LABEL: group},
            requests=requests,
        )
        for i in range(size)
    ]


def training_job(name: str, *, space: str, scheduler: str = "phalanx") -> tuple[Manifest, list[Manifest]]:
    """PodGroup and pods of a job of 2 parameter servers and 4 workers, one CPU each."""
    roles = [{"name": "ps", "count": 2}, {"name": "worker", "count": 4}]
    pods = [
        fake_pod(
            f"{name}-{role['name']}-{i}",
            namespace=space,
            scheduler_name=scheduler,
            labels={GROUP_LABEL: name, ROLE_LABEL: str(role["name"])},
            requests={"cpu": "1"},
        )
        for role in roles
        for i in range(int(str(role["count"])))
    ]
    return pod_group(name, space=space, size=len(pods), roles=roles), pods


def nodes(
    count: int, *, cpu: int, prefix: str = "node", labels: Mapping[str, str] | None = None
) -> list[Manifest]:
    """Fake nodes with different amounts of memory, as real nodes have."""
    return [
        fake_node(
            f"{prefix}-{i:04d}",
            labels=labels,
            allocatable={"cpu": str(cpu), "memory": f"{268435456 - 4 * i}Ki"},
        )
        for i in range(count)
    ]


async def create_cluster(plane: ControlPlane, *, count: int, cpu: int, space: str) -> None:
    """A namespace, and nodes that are ready for pods."""
    async with plane.session() as session:
        await api.apply(session, namespace(space))
    await create(plane, *nodes(count, cpu=cpu))
    while any(node["spec"].get("taints") for node in await nodes_of(plane)):
        await asyncio.sleep(0.2)


async def create(plane: ControlPlane, *objects: Manifest) -> None:
    """Create many objects concurrently."""
    async with plane.session() as session:
        await create_many(session, objects)


async def create_in_order(plane: ControlPlane, objects: list[Manifest]) -> None:
    """Create one object after the other."""
    async with plane.session() as session:
        for each in objects:
            await create_many(session, [each])


async def nodes_of(plane: ControlPlane) -> list[Manifest]:
    """Every node of the API server."""
    return await listed(plane, "/api/v1/nodes")


async def listed(plane: ControlPlane, path: str) -> list[Manifest]:
    """The items of a complete list."""
    items: list[Manifest] = (await fetched(plane, path))["items"]
    return items


async def fetched(plane: ControlPlane, path: str) -> Manifest:
    """One object or list. Raises aiohttp.ClientResponseError."""
    async with plane.session() as session, session.get(path, raise_for_status=True) as answer:
        found: Manifest = await answer.json()
        return found


async def delete(plane: ControlPlane, path: str) -> None:
    """Delete one object; the garbage collector deletes what it owns. Raises aiohttp.ClientResponseError."""
    query = {"propagationPolicy": "Background"}
    async with plane.session() as session, session.delete(path, params=query, raise_for_status=True):
        return


async def succeed(session: aiohttp.ClientSession, *, namespace: str, name: str) -> None:
    """Let a running pod succeed."""
    headers = {"Content-Type": "application/merge-patch+json"}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    body = {"status": {"phase": "Succeeded"}}
    async with session.patch(path, json=body, headers=headers, raise_for_status=True) as answer:
        await answer.read()


async def create_gangs(
    plane: ControlPlane, *, space: str, count: int, size: int, cpu: tuple[str, ...] = ("1",)
) -> dict[str, int]:
    """PodGroups and all their pods, gang by gang; the number of members by gang. `cpu` is cycled through."""
    names = [f"gang-{i:03d}" for i in range(count)]
    await create(plane, *(pod_group(name, space=space, size=size) for name in names))
    pods = [
        pod
        for i, name in enumerate(names)
        for pod in members(name, space=space, size=size, requests={"cpu": cpu[i % len(cpu)], "memory": "1Gi"})
    ]
    await create(plane, *pods)
    return {f"{space}/{name}": size for name in names}
