"""The scheduler of the demo: `phalanx run` as a process of its own, as in production."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from phalanx.kube.errors import NotFound
from phalanx.model.api.core import Lease
from phalanx.model.api.kinds import KINDS
from phalanx_controlplane.process import Process

from phalanx_simulator.demos.cluster import DemoCluster

_NAMESPACE: Final = "kube-system"
_IDENTITY: Final = "phalanx-demo"


@asynccontextmanager
async def scheduling(cluster: DemoCluster, *, folder: Path) -> AsyncIterator[None]:
    """Run Phalanx on a cluster while the context lasts, and wait until it leads."""
    process = Process(
        name="phalanx run", command=_command(cluster), log=folder / "scheduler.log", home=folder
    )
    cluster.why_down = lambda: _why_down(process)
    try:
        await cluster.until_answered(lambda: _leads(cluster), what="the scheduler leads")
        yield
    finally:
        await process.stop()


def _command(cluster: DemoCluster) -> list[str]:
    options = {
        "--kubeconfig": str(cluster.kubeconfig),
        "--http": "127.0.0.1:0",
        "--debug": "127.0.0.1:0",
        "--lease-namespace": _NAMESPACE,
        "--identity": _IDENTITY,
    }
    return [sys.executable, "-m", "phalanx.cli", "run", *(word for pair in options.items() for word in pair)]


def _why_down(process: Process) -> str | None:
    return None if process.running else f"the scheduler has ended:\n{process.tail(10)}"


async def _leads(cluster: DemoCluster) -> bool | None:
    path = KINDS["Lease"].path(namespace=_NAMESPACE, name="phalanx")
    try:
        lease = await cluster.client.get(path, msgspec.json.Decoder(Lease).decode)
    except NotFound:
        return None
    return lease.spec.holder_identity == _IDENTITY or None
