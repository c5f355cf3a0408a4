"""Creates the volumes of claims whose node is selected, as the external provisioner of a CSI driver does.

kube-controller-manager binds them. It is the same for all schedulers and takes no time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_simulator.embedded.provisioned_volumes import provisioned_volume, selected_node

from bench.harness.gangs import NAMESPACE
from bench.harness.rules import DRIVER, Rule
from bench.harness.workloads import Workload

_CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
_VOLUMES: Final = "/api/v1/persistentvolumes"
_AT_ONCE: Final = 16
"""Requests at the same time; an external provisioner has a hundred workers and a limit on their rate."""
_EXISTS: Final = 409


class ProvisionerFailed(Exception):
    """A volume could not be created; the message has the answer of the API server."""


@asynccontextmanager
async def provisioning(plane: ControlPlane, workload: Workload) -> AsyncIterator[None]:
    """Run a provisioner while the context lasts, if the workload has volumes."""
    if all(kind.rule is not Rule.VOLUME for kind in workload.gangs):
        yield
        return
    async with plane.session() as session:
        task = asyncio.create_task(_run(session))
        try:
            yield
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def _run(session: aiohttp.ClientSession) -> None:
    waiting: asyncio.Queue[tuple[dict[str, Any], str]] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(_create(session, waiting))
        tasks.create_task(_watch(session, waiting))


async def _watch(
    session: aiohttp.ClientSession, waiting: "asyncio.Queue[tuple[dict[str, Any], str]]"
) -> None:
    seen: set[str] = set()
    timeout = aiohttp.ClientTimeout(total=None)
    while True:
        async with session.get(
            _CLAIMS, params={"watch": "true"}, timeout=timeout, raise_for_status=True
        ) as lines:
            buffered = b""
            async for chunk in lines.content.iter_any():
                *whole, buffered = (buffered + chunk).split(b"\n")
                for line in whole:
                    _note(msgspec.json.decode(line)["object"], seen, waiting)


def _note(
    claim: dict[str, Any], seen: set[str], waiting: "asyncio.Queue[tuple[dict[str, Any], str]]"
) -> None:
    metadata = claim.get("metadata", {})
    node = selected_node(claim) if metadata else ""
    if node and metadata["uid"] not in seen:
        seen.add(metadata["uid"])
        waiting.put_nowait((claim, node))


async def _create(
    session: aiohttp.ClientSession, waiting: "asyncio.Queue[tuple[dict[str, Any], str]]"
) -> None:
    while True:
        claim, node = await waiting.get()
        async with session.post(_VOLUMES, json=provisioned_volume(claim, node, DRIVER)) as answer:
            if not answer.ok and answer.status != _EXISTS:
                raise ProvisionerFailed(await answer.text())
            await answer.read()
