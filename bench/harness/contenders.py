"""The schedulers that a benchmark compares, and how each is started on a control plane."""

import asyncio
import compileall
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import phalanx
from msgspec import Struct
from phalanx_controlplane.components import KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.go_modules import Progress
from phalanx_controlplane.process import die_with_parent

from bench.harness.dialects import PhalanxDialect, PlainDialect
from bench.harness.gangs import Dialect

_READY_WITHIN_S: Final = 300.0
"""For kube-scheduler, which took two minutes and more with 10,000 pods in gangs of 100."""
_END_WITHIN_S: Final = 20.0


class Running(Struct, frozen=True):
    """A running contender: the time of its start (monotonic seconds), and its process id."""

    started_at: float
    pid: int


Start = Callable[[ControlPlane], AbstractAsyncContextManager[Running]]
Build = Callable[[Progress], object]


def _nothing_to_build(_progress: Progress) -> None:
    """Build nothing: the control plane or this checkout has the program."""


def _compile(_progress: Progress) -> None:
    """Compile to bytecode as an installer does; otherwise a checkout may compile at each start."""
    compileall.compile_dir(phalanx.__path__[0], quiet=1)


class Contender(Struct, frozen=True):
    """`dialect` writes its gangs and pods; `start` runs it until the context ends.

    `feature_gates` are the settings that its API server and controller manager need: gates such as
    `GenericWorkload=true`, and API versions such as `scheduling.k8s.io/v1beta1=true`, recognised by the
    slash. `deviation` describes, for the reader of the table, how it differs from its shipped configuration.
    `version` is the version of its program where the control plane does not have it. `build` is called before
    each run and returns at once when the program is built already.
    """

    name: str
    dialect: Dialect
    start: Start
    kube_scheduler: KubeScheduler | None = None
    feature_gates: tuple[str, ...] = ()
    deviation: str = ""
    decides: bool = True
    """Whether it checks what fits; a contender that does not only measures the API server."""
    only_with: tuple[Literal["level", "queue"], ...] = ()
    """Runs only workloads whose gangs have one of these; empty: runs all workloads."""
    build: Build = _nothing_to_build
    version: str = ""


@asynccontextmanager
async def program(*command: str, log: Path) -> AsyncIterator[Running]:
    """A child process that is ended with SIGTERM; a Ctrl-C of the benchmark does not reach it."""
    with log.open("wb") as output:
        started_at = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        try:
            yield Running(started_at, process.pid)
        finally:
            if process.returncode is None:
                process.terminate()
            await _end(process)


async def _end(process: Process) -> None:
    try:
        async with asyncio.timeout(_END_WITHIN_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def _bare(plane: ControlPlane) -> AsyncIterator[Running]:
    arguments = (sys.executable, "-m", "bench.harness.bare_binds", "--kubeconfig", str(plane.kubeconfig_path))
    async with program(*arguments, log=plane.logs_folder / "bare.log") as running:
        yield running


@asynccontextmanager
async def _phalanx(plane: ControlPlane) -> AsyncIterator[Running]:
    arguments = (sys.executable, "-m", "phalanx.cli", "run", "--kubeconfig", str(plane.kubeconfig_path))
    ports = ("--http", "127.0.0.1:0", "--debug", "127.0.0.1:0")
    async with program(*arguments, *ports, log=plane.logs_folder / "phalanx.log") as running:
        yield running


@asynccontextmanager
async def _kube_scheduler(plane: ControlPlane) -> AsyncIterator[Running]:
    """Start kube-scheduler again, which was stopped before any pods existed.

    With gangs it answers no request, its readiness probe included, until it has processed all waiting pods.
    """
    started_at = time.monotonic()
    await plane.start_component("kube-scheduler", within=_READY_WITHIN_S)
    yield Running(started_at, plane.pid("kube-scheduler"))


BARE = Contender(
    name="bare binding POSTs",
    dialect=PlainDialect(scheduler_name="nobody"),
    start=_bare,
    decides=False,
)
PHALANX = Contender(name="phalanx", dialect=PhalanxDialect(), start=_phalanx, build=_compile)
KUBE_SCHEDULER = Contender(
    name="kube-scheduler (no gangs)",
    dialect=PlainDialect(scheduler_name="default-scheduler"),
    start=_kube_scheduler,
    kube_scheduler=KubeScheduler(),
    deviation="client limits of 5,000 requests a second",
)
ALL = (BARE, PHALANX, KUBE_SCHEDULER)
