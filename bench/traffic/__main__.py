"""Traffic between nodes and between racks, and a modelled run time, under several schedulers.

    python -m bench.traffic [--seeds N]

The same jobs arrive on the same cluster: three jobs of 2 parameter servers and 4 workers, the case for which
Volcano has its plugin task-topology, and 24 jobs on 64 nodes for each seed. Jobs come one by one, or at once,
and then a scheduler that places pod after pod sees their pods in turn. Phalanx decides with and without
`traffic`, the real kube-scheduler places pod after pod, and binpack and task-topology are emulated
(`emulated.py` states how). `model.py` states the model of the run time. Writes bench/results/traffic.json;
python -m bench.plots draws it.
"""

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.record import record
from bench.traffic.cases import Case, many_jobs, three_jobs
from bench.traffic.emulated import Placement, binpack, task_topology
from bench.traffic.model import measured
from bench.traffic.real import by_kube_scheduler, by_phalanx

RESULTS = Path(__file__).parent.parent / "results"

METHODS: Final[dict[str, Callable[[Case], Placement]]] = {
    "kube-scheduler": lambda case: asyncio.run(by_kube_scheduler(case)),
    "binpack (emulated)": binpack,
    "task-topology (emulated)": task_topology,
}


def main() -> None:
    """Print one line per case and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="large cases")
    options = parser.parse_args()
    cases = [*three_jobs(), *(many_jobs(seed) for seed in range(options.seeds))]
    record(RESULTS / "traffic.json", [_rows(case) for case in cases])


def _rows(case: Case) -> dict[str, Any]:
    """The results of all methods for one case."""
    found: dict[str, Any] = {}
    for name, method in METHODS.items():
        found[name] = _row(case, name, method(case), {})
    for name, traffic in (("Phalanx without traffic", False), ("Phalanx", True)):
        decided = by_phalanx(case, traffic=traffic)
        more = {"proven": decided.proven, "gangs": decided.gangs, "cpuSeconds": decided.seconds}
        found[name] = _row(case, name, decided.placement, more)
    return {"case": case.name, "nodes": len(case.nodes), "jobs": len(case.jobs), "methods": found}


def _row(case: Case, name: str, placement: Placement, more: dict[str, Any]) -> dict[str, Any]:
    row = {**msgspec.to_builtins(measured(case, placement)), **more}
    print(f"{case.name:<34} {name:<26} {row}", flush=True)
    return row


if __name__ == "__main__":
    main()
