"""Histories as `sacct` prints them, one job on each row:

    sacct --allusers --allocations --parsable2 --starttime 2026-01-01 --endtime 2026-02-01 \\
      --format JobIDRaw,Account,Submit,ElapsedRaw,NNodes,AllocTRES,ReqTRES,TimelimitRaw,State

Fields: https://slurm.schedmd.com/sacct.html. Only Submit, ElapsedRaw, NNodes and AllocTRES are needed.
"""

import re
from pathlib import Path
from typing import Final

from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import (
    History,
    HistoryError,
    QueueNames,
    in_order,
    notes_of,
)
from phalanx_simulator.lab.history.philly import defaults_for
from phalanx_simulator.lab.history.rows import Row, rows_of

PODS_PER_JOB_MAX: Final = 10_000
"""Pods of one job at most. A larger number is an error of the file."""

_COLUMNS: Final = ("Submit", "ElapsedRaw", "NNodes", "AllocTRES")
QUEUE_COLUMNS: Final = ("Account", "Partition", "QOS", "User")
"""Columns that can name the queue of a job."""

_ALL_GPUS: Final = "gres/gpu"
_GPUS_OF_A_MODEL: Final = "gres/gpu:"
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_MIB: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
"""MiB by unit; Slurm prints memory without a unit in MiB."""


def read_sacct(path: Path, *, queue_column: str = "Account") -> History:
    """Read the output of sacct. Raises HistoryError and OSError.

    A job is as many equal pods as it had nodes. Steps are left out, as are jobs that did not run.
    """
    names = QueueNames()
    jobs: list[RecordedJob] = []
    not_run = uneven = 0
    for row in rows_of(path, (*_COLUMNS, queue_column), delimiter="|"):
        if "." in row.text("JobIDRaw", row.text("JobID")):
            continue
        job = None if row.whole("ElapsedRaw") == 0 else _job_of(row, names, queue_column)
        if job is None:
            not_run += 1
            continue
        jobs.append(job)
        uneven += job.pods * job.gpus != _gpus(_tres(row))
    if not jobs:
        raise HistoryError(f"{path}: expected a job that ran, found none")
    notes = notes_of(
        (not_run, "left out: they did not run, or have no allocation"),
        (
            uneven,
            "with GPUs that cannot be divided equally between the nodes: rounded up on each",
        ),
    )
    return History(in_order(jobs), notes=notes)


def _job_of(row: Row, names: QueueNames, queue_column: str) -> RecordedJob | None:
    """None for a job without an allocation."""
    tres = _tres(row)
    if not tres:
        return None
    pods = row.whole("NNodes", least=1)
    if pods > PODS_PER_JOB_MAX:
        raise row.error("NNodes", f"expected at most {PODS_PER_JOB_MAX} nodes, found {pods}")
    gpus = -(-_gpus(tres) // pods)
    cpu_milli, memory_mib = defaults_for(gpus)
    if "cpu" in tres:
        cpu_milli = -(-round(1000 * tres["cpu"]) // pods)
    if "mem" in tres:
        memory_mib = -(-round(tres["mem"]) // pods)
    return RecordedJob(
        name=f"job-{row.line}",
        tenant=names.name_of(row.text(queue_column)),
        submit_ms=round(row.time("Submit") * 1000),
        run_ms=row.whole("ElapsedRaw") * 1000,
        pods=pods,
        gpus=gpus,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        limit_s=_limit_s(row),
    )


def _tres(row: Row) -> dict[str, float]:
    """What it was allocated, else what it requested, as in `cpu=8,mem=64G,gres/gpu:a100=4`; memory in MiB."""
    text = row.text("AllocTRES", row.text("ReqTRES"))
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        read = _AMOUNT.fullmatch(amount)
        if read is None:
            raise row.error("AllocTRES", f"expected NAME=AMOUNT,..., found {part!r}")
        found[name] = float(read[1]) * (_MIB[read[2]] if name == "mem" else 1)
    return found


def _gpus(tres: dict[str, float]) -> int:
    """All GPUs; without the sum of all models, the sum of the models."""
    if _ALL_GPUS in tres:
        return int(tres[_ALL_GPUS])
    return sum(int(amount) for name, amount in tres.items() if name.startswith(_GPUS_OF_A_MODEL))


def _limit_s(row: Row) -> int | None:
    """The time limit, which sacct prints in minutes; None for UNLIMITED and Partition_Limit."""
    text = row.text("TimelimitRaw")
    return int(text) * 60 if text.isascii() and text.isdecimal() and int(text) else None
