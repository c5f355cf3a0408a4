"""`python -m bench.cluster_year`: 8,760 simulated hours of 256 nodes at ten times realistic failure rates.

73 runs of five simulated days each, from seeds 1 to 73: 80 minutes on two cores. The results of
finished runs are kept in the folder `--keep`, so that an interrupted benchmark can be resumed. Writes
bench/results/cluster_year.json when all runs have finished.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import msgspec
from phalanx_simulator.runs.simulation import Summary
from phalanx_simulator.runs.totals import Adder

from bench.record import record

RESULTS = Path(__file__).parent / "results"

SEEDS = range(1, 74)

SETTINGS = ("--nodes", "256", "--hours", "120", "--faults", "life-x10", "--load", "0.03")
"""The load is small because the jobs of a busy cluster cost more to simulate than its faults."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a check was violated."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_year", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path(gettempdir()) / "phalanx-cluster-year",
        help="folder of finished runs",
    )
    options = parser.parse_args(arguments)
    options.keep.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(_run, seed, options.keep) for seed in SEEDS]
        for done, run in enumerate(as_completed(runs), start=1):
            run.result()
            print(f"{done} of {len(runs)} runs", file=sys.stderr, flush=True)
    summaries = [msgspec.json.decode(_file(seed, options.keep).read_bytes(), type=Summary) for seed in SEEDS]
    result = _together(summaries)
    record(RESULTS / "cluster_year.json", result)
    print(json.dumps({name: value for name, value in result.items() if name != "decisionHashes"}, indent=2))
    return 1 if result["totals"]["violationCount"] else 0


def _file(seed: int, folder: Path) -> Path:
    return folder / f"{seed}.json"


def _run(seed: int, folder: Path) -> None:
    """Raises CalledProcessError when the run did not finish; a violation is no such error."""
    if _file(seed, folder).exists():
        return
    words = [sys.executable, "-m", "phalanx.cli", "simulate", "--seed", str(seed), *SETTINGS, "-o", "json"]
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if ended.returncode not in (0, 1):
        raise subprocess.CalledProcessError(ended.returncode, words)
    unfinished = folder / f"{seed}.unfinished"
    unfinished.write_bytes(ended.stdout)
    unfinished.rename(_file(seed, folder))


def _together(summaries: Iterable[Summary]) -> dict[str, Any]:
    adder, hashes = Adder(), {}
    for summary in summaries:
        adder.add(summary)
        hashes[summary.seed] = summary.decision_hash
    return {
        "settings": " ".join(SETTINGS),
        "totals": msgspec.to_builtins(adder.totals()),
        "decisionHashes": hashes,
    }


if __name__ == "__main__":
    sys.exit(main())
