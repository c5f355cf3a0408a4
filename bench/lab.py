"""`python -m bench.lab --trace PATH`: a week of Microsoft's Philly trace under four configurations.

    python -m bench.lab --trace PATH [--days N] [--load PERCENT] [--kill-after SECONDS]

PATH is the CSV of jobs (timestamp, duration, num_gpus, cluster). `phalanx lab` plays the days with the most
submissions as the cluster is, with 20 more nodes, with backfill, and without guarantees: once in processes of
this machine, and once on a Dask cluster of two workers on loopback of which one is killed while it works. The
two must print the same bytes. Writes bench/results/lab.json, and the page with plots to --page. The exit code
is 1 if they differ.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from bench.record import record
from tests.lab.dask_processes import kill_one_that_works, running_cluster

RESULTS: Final = Path(__file__).parent / "results"
MORE_NODES: Final = 20
VARIANTS: Final = (
    {"name": "as it is"},
    {"name": f"{MORE_NODES} more nodes", "addNodes": MORE_NODES},
    {"name": "backfill", "backfill": "Easy"},
    {"name": "no guarantees", "guarantees": "none"},
)


class Printed(Struct, frozen=True):
    """What a command printed, and how long it took in seconds."""

    output: bytes
    seconds: float


def study_of(trace: Path, *, days: int, load: int) -> dict[str, Any]:
    """The study; its file may be JSON, which is YAML."""
    return {
        "history": {"path": str(trace.resolve()), "format": "philly", "days": days},
        "cluster": {"loadPercent": load},
        "variants": list(VARIANTS),
    }


def here(study: Path, page: Path) -> Printed:
    """Play the study in processes of this machine, and write the page."""
    began = time.monotonic()
    done = subprocess.run([*_command(study), "--page", str(page)], stdout=subprocess.PIPE, check=True)
    return Printed(done.stdout, time.monotonic() - began)


def on_dask(study: Path, *, kill_after_s: float) -> Printed:
    """Play the study on a cluster of which one worker is killed. Raises AssertionError if none was."""
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder)) as cluster:
        began = time.monotonic()
        command = [*_command(study), "--dask", cluster.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
            kill_one_that_works(cluster, running, after_s=kill_after_s)
            output, _ = running.communicate()
        if running.returncode != 0 or cluster.dead != 1:
            raise AssertionError(f"exit code {running.returncode}, {cluster.dead} workers died")
        return Printed(output, time.monotonic() - began)


def _command(study: Path) -> list[str]:
    return [sys.executable, "-m", "phalanx.cli", "lab", str(study), "-o", "json"]


def main(arguments: list[str] | None = None) -> int:
    """Play both, compare and write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trace", type=Path, required=True, help="CSV of jobs")
    parser.add_argument("--days", type=int, default=7, help="days that are played")
    parser.add_argument("--load", type=int, default=80, help="average demand in percent of all GPUs")
    parser.add_argument("--kill-after", type=float, default=60, help="seconds of work before a kill")
    parser.add_argument("--page", type=Path, default=Path("lab.html"), help="file of the page")
    options = parser.parse_args(arguments)
    if not options.trace.is_file():
        parser.error(f"--trace: expected a readable file, found {options.trace}")
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder, "study.yaml")
        study.write_text(json.dumps(study_of(options.trace, days=options.days, load=options.load)))
        single = here(study, options.page)
        print(f"on this machine: {single.seconds:.0f} s", file=sys.stderr)
        shared = on_dask(study, kill_after_s=options.kill_after)
        print(f"on Dask with a killed worker: {shared.seconds:.0f} s", file=sys.stderr)
    is_equal = single.output == shared.output
    record(
        RESULTS / "lab.json",
        {
            "secondsHere": round(single.seconds, 1),
            "secondsOnDaskWithAKilledWorker": round(shared.seconds, 1),
            "sameBytes": is_equal,
            "bytes": len(single.output),
            "study": _to_keep(json.loads(single.output)),
        },
    )
    print("same bytes" if is_equal else "the results differ")
    return 0 if is_equal else 1


def _to_keep(results: dict[str, Any]) -> dict[str, Any]:
    """The results without what only the plots need, and without the folder of the trace."""
    variants = [
        {**each, "outcome": {key: value for key, value in each["outcome"].items() if key != "timeline"}}
        for each in results["variants"]
    ]
    played = {**results["played"], "path": Path(results["played"]["path"]).name}
    return {**results, "played": played, "variants": variants}


if __name__ == "__main__":
    sys.exit(main())
