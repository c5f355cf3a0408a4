"""`python -m phalanx_controlplane.nodes up`: a cluster with real kubelets, until Ctrl-C. `down` ends it.

Everything runs in namespaces of its own: no port is open to other machines, and processes, mounts and
addresses end with the cluster, however it ends. From outside, the API server is reached on loopback.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from phalanx_controlplane import run_folder
from phalanx_controlplane.binaries import BinariesMissing, find_or_build
from phalanx_controlplane.limits import CONTROL_PLANE_POLL_S
from phalanx_controlplane.nodes import cgroups, limits, programs
from phalanx_controlplane.nodes.cluster import Wanted, cluster, obey
from phalanx_controlplane.nodes.programs import ProgramsMissing
from phalanx_controlplane.process import ComponentFailed

_READY: Final = "ready"


def main() -> int:
    """Run the command. The exit code is 2 if programs are missing, 1 if the cluster fails."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "build":
            programs.find_or_build(_report)
            return 0
        if arguments.command == "down":
            return _down(arguments.folder)
        wanted = Wanted(
            nodes=arguments.nodes, folder=arguments.folder.resolve(), images=tuple(arguments.image)
        )
        if arguments.command == "inside":
            asyncio.run(_inside(wanted, socket.socket(fileno=arguments.listener)))
            return 0
        if len(bytes(wanted.folder)) > limits.FOLDER_PATH_BYTES_MAX:
            _report(f"{wanted.folder}: longer than {limits.FOLDER_PATH_BYTES_MAX} bytes; use --folder")
            return 2
        return _up(wanted, commands=arguments.commands)
    except (BinariesMissing, ProgramsMissing) as missing:
        _report(str(missing))
        return 2
    except ComponentFailed as failed:
        _report(str(failed))
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m phalanx_controlplane.nodes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build kubelet and containerd; prints nothing if they exist")
    down = commands.add_parser("down", help="end the cluster of this folder")
    up = commands.add_parser("up", help="start a cluster, print its kubeconfig, run until Ctrl-C")
    up.add_argument(
        "--commands", action="store_true", help="obey `stop NODE` and `start NODE` on standard input"
    )
    inside = commands.add_parser("inside")
    inside.add_argument("--listener", type=int, required=True)
    for command in (down, up, inside):
        command.add_argument(
            "--folder", type=Path, required=True, help="files of the cluster, which are replaced"
        )
    for command in (up, inside):
        command.add_argument("--nodes", type=int, default=2)
        command.add_argument("--image", type=Path, action="append", default=[], help="an archive to import")
    return parser


def _up(wanted: Wanted, *, commands: bool) -> int:
    find_or_build(progress=_report)
    programs.find_or_build(_report)
    _clean(wanted)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    (wanted.folder / "pid").write_text(str(os.getpid()))
    with run_folder.reserve(1) as lease, socket.create_server(("127.0.0.1", lease.ports[0])) as listener:
        images = [f"--image={path.resolve()}" for path in wanted.images]
        child = subprocess.Popen(
            [
                *(*programs.NAMESPACES, sys.executable, "-m", "phalanx_controlplane.nodes", "inside"),
                f"--listener={listener.fileno()}",
                f"--folder={wanted.folder}",
                f"--nodes={wanted.nodes}",
                *images,
            ],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
        try:
            return _attend(child, commands=commands)
        finally:
            _clean(wanted)


def _attend(child: "subprocess.Popen[bytes]", *, commands: bool) -> int:
    """Wait for the end of the cluster. A closed pipe stops it, also if we are killed."""
    assert child.stdin is not None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if commands:
        threading.Thread(target=_pass_on, args=(child.stdin,), daemon=True).start()
    try:
        return child.wait()
    except KeyboardInterrupt:
        _report("stopping the cluster")
        child.stdin.close()
        return child.wait()


def _pass_on(commands: IO[bytes]) -> None:
    """Pass on what comes by standard input, until that is closed."""
    with contextlib.suppress(OSError), commands:
        for line in sys.stdin.buffer:
            commands.write(line)
            commands.flush()


async def _inside(wanted: Wanted, listener: socket.socket) -> None:
    listener.setblocking(False)
    async with cluster(wanted, listener=listener, progress=_report) as nodes:
        print(f"{_READY} {wanted.folder / 'kubeconfig'}", flush=True)
        await obey(nodes, report=_report_done)


def _down(folder: Path) -> int:
    """Tell the cluster to end, and wait until it has."""
    pid = folder / "pid"
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGTERM)
        asyncio.run(_until(lambda: not pid.exists()))
    return 0


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(CONTROL_PLANE_POLL_S)


def _clean(wanted: Wanted) -> None:
    """Remove what outlives the namespaces: the control groups and the files, but not the logs."""
    for name in wanted.names:
        cgroups.kill(wanted.cgroup(name))
        cgroups.remove(wanted.cgroup(name))
    for path in wanted.folder.iterdir() if wanted.folder.exists() else ():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with contextlib.suppress(OSError):
        wanted.folder.rmdir()


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report_done(line: str) -> None:
    print(f"done {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
