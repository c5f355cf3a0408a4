"""`phalanx demo`: gangs placed by the real scheduler, in three acts."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from phalanx.cli.exits import BadInput, Exit

if TYPE_CHECKING:
    from rich.console import Console

    from phalanx_simulator.demos.environment import ClusterKind, Stage

_WIDTH_MAX: Final = 100
"""Maximum width in columns, and the width of output that does not go to a terminal."""

_ACTS: Final = (1, 2, 3)


class _Request(Struct, frozen=True):
    """Acts to show, cluster, console and log folder."""

    cluster: "ClusterKind"
    acts: tuple[int, ...]
    console: "Console"
    folder: Path


def demo(*, cluster: Literal["embedded", "kwok"] = "embedded", act: Literal[1, 2, 3] | None = None) -> int:
    """Show gangs placed by the real scheduler. Exit code 0 when every act has the expected result.

    Parameters
    ----------
    cluster
        embedded: an API server in memory with fake kubelets, nothing to install. kwok: real control planes
        with fake nodes, the real kube-scheduler beside Phalanx; they are built on first use, which needs Go.
    act
        Run one act only: 1 five training jobs, 2 a gang of 64 GPUs on a tree, 3 a gang that cannot fit.
    """
    from phalanx.kube.errors import ApiError
    from phalanx.ports import OutcomeUnknown, RequestNotSent
    from phalanx_controlplane.binaries import BinariesMissing
    from phalanx_controlplane.process import ComponentFailed
    from phalanx_controlplane.run_folder import PortsTaken

    from phalanx_simulator.demos.cluster import DemoFailed

    if cluster == "kwok":
        _require_control_plane()
    console, code = _console(), Exit.OK
    try:
        with _folder() as folder:
            acts = (act,) if act else _ACTS
            asyncio.run(_perform(_Request(cluster=cluster, acts=acts, console=console, folder=folder)))
    except* (
        DemoFailed,
        ApiError,
        BinariesMissing,
        ComponentFailed,
        OutcomeUnknown,
        PortsTaken,
        RequestNotSent,
    ) as failures:
        _print_failures(failures)
        code = Exit.FAILED
    return code


def _require_control_plane() -> None:
    from phalanx_controlplane.binaries import BinariesMissing, find
    from phalanx_controlplane.go_modules import can_build

    try:
        if find() is not None or can_build():
            return
    except BinariesMissing as missing:
        raise BadInput(f"demo: {missing}") from missing
    raise BadInput(
        "demo: --cluster kwok needs Go 1.26 or newer to build a control plane once, or KUBEBUILDER_ASSETS "
        "set to a folder that holds one; --cluster embedded needs neither"
    )


async def _perform(request: _Request) -> None:
    """Set up the clusters and run the acts.

    Raises DemoFailed at the first unexpected result.
    """
    from phalanx.observe.logs import configure_logs

    from phalanx_simulator.demos.environment import set_up

    loop, console = asyncio.get_running_loop(), request.console
    loop.add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    began = loop.time()
    with (request.folder / "demo.log").open("w") as log:
        configure_logs(stream=log)
        with_pod_by_pod = 1 in request.acts
        async with set_up(
            request.cluster, console=console, folder=request.folder, with_pod_by_pod=with_pod_by_pod
        ) as stage:
            for number in request.acts:
                await _play(number, stage)
    console.print(f"\nEvery act had the expected result; {loop.time() - began:.0f} s with set-up.")


async def _play(number: int, stage: "Stage") -> None:
    from phalanx_simulator.demos import placed_gang, training_jobs, waiting_gang
    from phalanx_simulator.demos.cluster import DemoFailed

    act = dict(zip(_ACTS, (training_jobs, placed_gang, waiting_gang), strict=True))[number]
    stage.console.print(f"\n[bold reverse] Act {number} of {len(_ACTS)} [/][bold]  {act.TITLE}[/]\n")
    try:
        await stage.phalanx.clear()
        verdict = await act.play(stage)
    except* DemoFailed as failures:
        raise DemoFailed(f"act {number} failed: {_first(failures)}") from failures
    stage.console.print(f"\n[bold]{verdict}[/]")


def _first(failures: BaseExceptionGroup[Exception]) -> Exception:
    """The first failure, without the groups around it."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _console() -> "Console":
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, _WIDTH_MAX) if console.is_terminal else _WIDTH_MAX
    return console


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for kubeconfigs and logs.

    It is kept only after a failure, whose notes name it.
    """
    path, keep = Path(tempfile.mkdtemp(prefix="phalanx-demo-")), False
    try:
        yield path
    except Exception as failure:
        failure.add_note(f"The logs of the scheduler and of the demo are in {path}")
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)


def _print_failures(failures: BaseExceptionGroup[Exception]) -> None:
    """Print each failure with its notes on standard error."""
    lines: list[str] = []
    for failure in failures.exceptions:
        if isinstance(failure, BaseExceptionGroup):
            _print_failures(failure)
        else:
            lines.append(f"demo: {failure}")
        lines.extend(getattr(failure, "__notes__", ()))
    lines.extend(getattr(failures, "__notes__", ()))
    print("\n".join(lines), file=sys.stderr)
