"""The schedulers that a benchmark compares: how each is started on a control plane whose pods all wait."""

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
"""For a kube-scheduler: with 10,000 pods in gangs of 100 it took up to two minutes, and more."""
_END_WITHIN_S: Final = 20.0


class Running(Struct, frozen=True):
    """A contender under way: when it was started (monotonic seconds), and its process id."""

    started_at: float
    pid: int


Start = Callable[[ControlPlane], AbstractAsyncContextManager[Running]]
Build = Callable[[Progress], object]


def _nothing_to_build(_progress: Progress) -> None:
    """What the control plane and this checkout do not have already: nothing."""


def _compile(_progress: Progress) -> None:
    """As an installer does: in a checkout bytecode may be switched off, so that each start compiles."""
    compileall.compile_dir(phalanx.__path__[0], quiet=1)


class Contender(Struct, frozen=True):
    """`dialect` says how its gangs and pods are written; `start` runs it until the context ends.

    `feature_gates` are what its API server and controller manager need: gates such as `GenericWorkload=true`,
    and API versions such as `scheduling.k8s.io/v1beta1=true`, recognised by the slash. `deviation` says, for
    the reader of the table, where it does not run as its project ships it; `version` is that of its program
    where the control plane does not have it. `build` is called before each run and is quick when it is built.
    """

    name: str
    dialect: Dialect
    start: Start
    kube_scheduler: KubeScheduler | None = None
    feature_gates: tuple[str, ...] = ()
    deviation: str = ""
    decides: bool = True
    """Whether it looks at what fits where; who does not only shows what the API server can take."""
    only_with: tuple[Literal["level", "queue"], ...] = ()
    """Set up for these, and takes part only where gangs have one; empty: takes part everywhere."""
    build: Build = _nothing_to_build
    version: str = ""


@asynccontextmanager
async def program(*command: str, log: Path) -> AsyncIterator[Running]:
    """A child process, asked to end with SIGTERM; a Ctrl-C for the benchmark does not reach it."""
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
    """It came up with the control plane and was stopped before there were any pods.

    With gangs it answers nobody, its readiness probe included, until it has looked at all that wait.
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
