"""Objects of fake clusters, and bulk creation of thousands of them."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp
from phalanx_controlplane import limits
from phalanx_controlplane.components import FAKE_NODE_ANNOTATION

Manifest = dict[str, Any]

_CORE_PATH: Final = "/api/v1"


class CreateFailed(Exception):
    """The API server refused an object; the message carries its answer."""


def fake_node(
    name: str, *, labels: Mapping[str, str] | None = None, allocatable: Mapping[str, str] | None = None
) -> Manifest:
    """A node with KWOK as its kubelet.

    `allocatable` adds to the resources of a typical server.
    """
    resources = {
        "cpu": "32",
        "memory": "256Gi",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        **(allocatable or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "type": "kwok", **(labels or {})},
            "annotations": {FAKE_NODE_ANNOTATION: "fake"},
        },
        "status": {"allocatable": resources, "capacity": dict(resources)},
    }


def fake_pod(
    name: str,
    *,
    namespace: str = "default",
    scheduler_name: str = "phalanx",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
) -> Manifest:
    """A pod with one container, `requests` as its requests and limits."""
    resources = {"requests": dict(requests or {}), "limits": dict(requests or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{"name": "main", "image": "fake", "resources": resources}],
        },
    }


def namespace(name: str, *, labels: Mapping[str, str] | None = None) -> Manifest:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}


def collection_path(manifest: Manifest) -> str:
    """The collection path of a manifest; namespaced if its metadata names a namespace."""
    version: str = manifest["apiVersion"]
    base = _CORE_PATH if version == "v1" else f"/apis/{version}"
    space = manifest["metadata"].get("namespace")
    return f"{base}/namespaces/{space}/{_plural(manifest)}" if space else f"{base}/{_plural(manifest)}"


def _plural(manifest: Manifest) -> str:
    kind = str(manifest["kind"]).lower()
    if kind.endswith("s"):
        return f"{kind}es"
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


async def create_many(session: aiohttp.ClientSession, objects: Iterable[Manifest]) -> None:
    """Create objects concurrently, in order of sending.

    Raises a group with CreateFailed at a refusal.
    """
    waiting = iter(objects)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(limits.BULK_CREATE_CONCURRENCY):
            tasks.create_task(_create_each(session, waiting))


async def _create_each(session: aiohttp.ClientSession, waiting: Iterable[Manifest]) -> None:
    for manifest in waiting:
        async with session.post(collection_path(manifest), json=manifest) as answer:
            if answer.status >= 400:
                raise CreateFailed(
                    f"{manifest['kind']} {manifest['metadata']['name']}: {await answer.text()}"
                )
            await answer.read()
