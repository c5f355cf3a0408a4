"""Clusters of the demo: one or two, with the scheduler running on one of them.

Embedded clusters live in this process and are reached over HTTP on loopback. With KWOK they are real control
planes: etcd, kube-apiserver, kube-controller-manager, and fake nodes.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from phalanx.kube.errors import NotFound
from phalanx.model.api.core import Lease
from phalanx.model.api.kinds import KINDS
from phalanx_controlplane.process import Process
from rich.console import Console

from phalanx_simulator.demos.cluster import WITH_CRDS, WITHOUT_CRDS, DemoCluster, DemoFailed, following

ClusterKind = Literal["embedded", "kwok"]

_SET_UP: Final = {
    "embedded": "Setting up: API servers in memory on loopback, fake kubelets, and `phalanx run`.",
    "kwok": "Setting up: etcd, kube-apiserver, kube-controller-manager, KWOK, and `phalanx run`.",
}
_POD_BY_POD_NAMES: Final = {
    "embedded": "pod by pod (model of kube-scheduler)",
    "kwok": "kube-scheduler, pod by pod",
}


class Stage(Struct, frozen=True):
    """The clusters of the demo.

    `pod_by_pod` exists for act 1; its name describes its scheduler.
    """

    console: Console
    phalanx: DemoCluster
    pod_by_pod: DemoCluster | None
    pod_by_pod_name: str


@asynccontextmanager
async def set_up(
    kind: ClusterKind, *, console: Console, folder: Path, with_pod_by_pod: bool
) -> AsyncIterator[Stage]:
    """Start clusters without nodes, and Phalanx on one of them.

    Raises BinariesMissing where there is no control plane for KWOK and none can be built.
    """
    console.print(_SET_UP[kind])
    async with AsyncExitStack() as stack:
        start = _Embedded(stack, folder) if kind == "embedded" else _Kwok(stack, console)
        pod_by_pod = None
        if with_pod_by_pod:
            kubeconfig = await start.pod_by_pod()
            pod_by_pod = await stack.enter_async_context(following(kubeconfig, kinds=WITHOUT_CRDS))
        kubeconfig = await start.empty()
        phalanx = await stack.enter_async_context(following(kubeconfig, kinds=WITH_CRDS))
        await stack.enter_async_context(scheduling(phalanx, folder=folder))
        yield Stage(
            console=console, phalanx=phalanx, pod_by_pod=pod_by_pod, pod_by_pod_name=_POD_BY_POD_NAMES[kind]
        )


class _Embedded:
    """Starts clusters in this process; `stack` stops them. Both methods give a kubeconfig."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder

    async def pod_by_pod(self) -> Path:
        """With a model of kube-scheduler."""
        return await self._start("pod-by-pod", pod_by_pod=True)

    async def empty(self) -> Path:
        """Without a scheduler; it has our CRDs."""
        return await self._start("phalanx", pod_by_pod=False)

    async def _start(self, name: str, *, pod_by_pod: bool) -> Path:
        from phalanx.clock import SystemClock

        from phalanx_simulator.embedded.cluster import embedded_cluster

        cluster = await self._stack.enter_async_context(
            embedded_cluster(clock=SystemClock(), pod_by_pod=pod_by_pod)
        )
        return cluster.endpoint.write_kubeconfig(self._folder / f"{name}.kubeconfig")


class _Kwok:
    """Starts real control planes, built first where they are missing; `stack` stops them."""

    def __init__(self, stack: AsyncExitStack, console: Console) -> None:
        self._stack = stack
        self._console = console

    async def pod_by_pod(self) -> Path:
        """With the real kube-scheduler."""
        return await self._start(kube_scheduler=True)

    async def empty(self) -> Path:
        """Without a scheduler, with our CRDs."""
        kubeconfig = await self._start(kube_scheduler=False)
        await asyncio.to_thread(_install_crds, kubeconfig)
        return kubeconfig

    async def _start(self, *, kube_scheduler: bool) -> Path:
        from phalanx_controlplane.components import KubeScheduler
        from phalanx_controlplane.controlplane import ControlPlane

        plane = await self._stack.enter_async_context(
            ControlPlane.start(
                kube_scheduler=KubeScheduler() if kube_scheduler else None, progress=self._console.print
            )
        )
        return plane.kubeconfig_path


def _install_crds(kubeconfig: Path) -> None:
    command = [sys.executable, "-m", "phalanx.cli", "install", "--crds", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoFailed(f"the CRDs were not installed: {done.stderr.strip()}")


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
