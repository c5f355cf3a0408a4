"""`python -m bench.published.knavigator --templates FOLDER FILE ...`: plays workflow files of Knavigator.

The files are played one after the other on one new cluster: what one registers, the next one may use. Paths
of templates in them start at FOLDER, the folder of Knavigator. Pods name the scheduler that is played.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from phalanx.observe.logs import configure_logs

from bench.published.knavigator.case import Workflows
from bench.published.knavigator.files import BadWorkflow
from bench.published.knavigator.go_templates import BadTemplate
from bench.published.places import OURS, POD_BY_POD, real, simulated
from bench.published.site import Refused


async def _ask() -> None:
    await asyncio.to_thread(input, "Paused. Press Enter to go on. ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when a task failed, 2 when a file could not be played."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.published.knavigator",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--templates", type=Path, default=Path(), help="the folder of Knavigator")
    parser.add_argument("--real", action="store_true", help="on a real control plane, not simulated")
    parser.add_argument("--kube-scheduler", action="store_true", help="instead of Phalanx")
    parser.add_argument("--until-ended", action="store_true", help="wait for the end of all pods")
    options = parser.parse_args(arguments)
    configure_logs(level="critical")
    files = tuple(str(path.resolve()) for path in options.files)
    case = Workflows(options.templates, files, options.until_ended, _ask)
    scheduler = POD_BY_POD if options.kube_scheduler else OURS
    try:
        played = asyncio.run(real(case, scheduler)) if options.real else simulated(case, scheduler)
    except (BadWorkflow, BadTemplate, Refused, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for name, value in played.figures.items():
        print(f"{name}: {value}")
    for wrong in played.wrong:
        print(f"failed: {wrong}")
    return 1 if played.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
