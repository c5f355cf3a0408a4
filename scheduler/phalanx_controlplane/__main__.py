"""Build or start the control plane by hand: `python -m phalanx_controlplane build` or `up`."""

import argparse
import asyncio
import signal
import sys

from phalanx_controlplane import binaries
from phalanx_controlplane.components import KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane


def main() -> int:
    """Run the command. The exit code is 2 if the programs are missing and cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m phalanx_controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build all programs; prints nothing if they exist")
    up = commands.add_parser("up", help="start a control plane, print its kubeconfig, run until Ctrl-C")
    up.add_argument("--kube-scheduler", action="store_true", help="with kube-scheduler")
    arguments = parser.parse_args()
    try:
        if arguments.command == "build":
            binaries.find_or_build(progress=_report)
        else:
            asyncio.run(_up(kube_scheduler=KubeScheduler() if arguments.kube_scheduler else None))
    except binaries.BinariesMissing as missing:
        _report(str(missing))
        return 2
    return 0


async def _up(*, kube_scheduler: KubeScheduler | None) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ControlPlane.start(kube_scheduler=kube_scheduler, progress=_report) as plane:
        print(f"export KUBECONFIG={plane.kubeconfig_path}", flush=True)
        _report(
            "There are no nodes yet: one with the annotation kwok.x-k8s.io/node: fake is kept alive by KWOK"
        )
        await stopped.wait()


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
