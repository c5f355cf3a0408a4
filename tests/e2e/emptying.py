"""Deletes what a test has created on a control plane that other tests use afterwards."""

import asyncio
from typing import Final

import aiohttp
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.workloads import Manifest

CORE: Final = "/api/v1"
KINDS: Final = (
    "/apis/batch/v1/jobs",
    f"{CORE}/pods",
    "/apis/scheduling.phalanx.dev/v1alpha1/podgroups",
    "/apis/scheduling.phalanx.dev/v1alpha1/queues",
    "/apis/scheduling.phalanx.dev/v1alpha1/topologies",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    f"{CORE}/persistentvolumeclaims",
    f"{CORE}/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    f"{CORE}/nodes",
    "/apis/coordination.k8s.io/v1/namespaces/phalanx-system/leases",
    DEFINITIONS := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)
"""In the order of deletion: what owns or uses something comes before it."""

TIMEOUT_S: Final = 120
TOO_MANY_REQUESTS: Final = 429
RETRY_S: Final = 0.2
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
AT_ONCE: Final = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}


async def empty(plane: ControlPlane, *, kept: frozenset[str]) -> None:
    """Delete all objects of these kinds but definitions of these names, and wait until they are gone.

    Namespaces stay: deleting one takes seconds. The Lease of a killed scheduler is deleted, so that the next
    scheduler does not wait until it expires.
    """
    async with plane.session() as session, asyncio.timeout(TIMEOUT_S):
        for kind in KINDS:
            while left := [each for each in await _listed(session, kind) if _name(each) not in kept]:
                await asyncio.gather(*(_release(session, kind, each) for each in left if kind != DEFINITIONS))
                await asyncio.gather(*(_delete(session, path) for path in _paths(kind, left)))


async def definitions(plane: ControlPlane) -> frozenset[str]:
    """The names of all CustomResourceDefinitions."""
    async with plane.session() as session:
        return frozenset(map(_name, await _listed(session, DEFINITIONS)))


def _name(found: Manifest) -> str:
    name: str = found["metadata"]["name"]
    return name


async def _listed(session: aiohttp.ClientSession, kind: str) -> list[Manifest]:
    """All objects of a kind. The API server answers 429 while it prepares the storage of a new definition."""
    while True:
        async with session.get(kind) as answer:
            if answer.status == TOO_MANY_REQUESTS:
                await asyncio.sleep(RETRY_S)
                continue
            answer.raise_for_status()
            items: list[Manifest] = (await answer.json())["items"]
            return items


async def _release(session: aiohttp.ClientSession, kind: str, found: Manifest) -> None:
    """Let it go without the consent of controllers, some of which do not run here."""
    if found["metadata"].get("finalizers"):
        body = {"metadata": {"finalizers": None}}
        async with session.patch(_path(kind, found), json=body, headers=MERGE) as answer:
            assert answer.status in (200, 404), await answer.text()


def _paths(kind: str, left: list[Manifest]) -> set[str]:
    """What to delete: whole collections, since one request for each object takes longer."""
    if kind == DEFINITIONS:
        return {_path(kind, each) for each in left}
    return {_path(kind, each).rpartition("/")[0] for each in left}


async def _delete(session: aiohttp.ClientSession, path: str) -> None:
    async with session.delete(path, params=AT_ONCE) as answer:
        assert answer.status in (200, 202, 404), await answer.text()


def _path(kind: str, found: Manifest) -> str:
    start, _, plural = kind.rpartition("/")
    space = found["metadata"].get("namespace")
    if space and "/namespaces/" not in kind:
        start = f"{start}/namespaces/{space}"
    return f"{start}/{plural}/{_name(found)}"
