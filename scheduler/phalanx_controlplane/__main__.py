"""Build or start the control plane by hand: `python -m phalanx_controlplane build` or `up`."""

import argparse
import asyncio
import signal
import sys

from phalanx_controlplane import binaries, releases
from phalanx_controlplane.components import DEFAULT_STAGES, ENDLESS_STAGES, KubeScheduler
from phalanx_controlplane.controllers import catalog
from phalanx_controlplane.controllers.running import Reachable, running
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.programs import ProgramMissing


def main() -> int:
    """Run the command. The exit code is 2 if programs are missing and cannot be built."""
    arguments = _parser().parse_args()
    names = _names(arguments.controllers)
    try:
        release = arguments.kubernetes or releases.chosen()
        releases.find_or_build_release(release, progress=_report)
        for controller in catalog.named(names):
            controller.program.build(_report)
        if arguments.command == "up":
            asyncio.run(_up(arguments, names, release))
    except (binaries.BinariesMissing, ProgramMissing, catalog.UnknownController, Reachable) as failed:
        _report(str(failed))
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m phalanx_controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build all programs; prints nothing if they exist")
    up = commands.add_parser("up", help="start a control plane, print its kubeconfig, run until Ctrl-C")
    up.add_argument("--kube-scheduler", action="store_true", help="with kube-scheduler")
    up.add_argument(
        "--endless-jobs",
        action="store_true",
        help="pods of Jobs run until they are deleted; without it they complete at once",
    )
    for command in (build, up):
        command.add_argument(
            "--kubernetes",
            choices=releases.known(),
            help=f"the release of Kubernetes: what {releases.VARIABLE} names, else {releases.newest()}",
        )
        command.add_argument(
            "--controllers",
            nargs="*",
            metavar="NAME",
            help=f"with workload controllers; without names, all of {', '.join(_all())}",
        )
    return parser


def _names(given: list[str] | None) -> list[str]:
    """The names that follow `--controllers`: none without it, all if nothing follows."""
    return [] if given is None else given or _all()


def _all() -> list[str]:
    return [each.name for each in catalog.CONTROLLERS]


async def _up(arguments: argparse.Namespace, names: list[str], release: str) -> None:
    kube_scheduler = KubeScheduler() if arguments.kube_scheduler else None
    stages = ENDLESS_STAGES if arguments.endless_jobs else DEFAULT_STAGES
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with (
        ControlPlane.start(kube_scheduler=kube_scheduler, stages=stages, release=release) as plane,
        running(plane, names),
    ):
        print(f"export KUBECONFIG={plane.kubeconfig_path}", flush=True)
        _report(
            "There are no nodes yet: one with the annotation kwok.x-k8s.io/node: fake is kept alive by KWOK"
        )
        await stopped.wait()


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
