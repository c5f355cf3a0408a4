"""Histories with the columns of Alibaba's GPU trace of 2023 (OpenB): a pod on each row, and a list of nodes.

https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023
"""

from collections import Counter
from pathlib import Path
from typing import Final

from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import (
    History,
    HistoryError,
    NodeKind,
    QueueNames,
    in_order,
    notes_of,
    pools_of,
)
from phalanx_simulator.lab.history.rows import Row, rows_of

_POD_COLUMNS: Final = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
    *("qos", "creation_time", "deletion_time", "scheduled_time"),
)
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_WHOLE_GPU: Final = 1000


def read_alibaba(path: Path, *, nodes: Path | None = None) -> History:
    """Read a list of pods, and a list of nodes if there is one. Raises HistoryError and OSError.

    A pod's queue is its `qos`. It ran from `scheduled_time` to `deletion_time`. A part of a GPU counts as a
    whole one.
    """
    names = QueueNames()
    jobs: list[RecordedJob] = []
    unscheduled = shared = 0
    for row in rows_of(path, _POD_COLUMNS):
        job = _job_of(row, names)
        if job is None:
            unscheduled += 1
            continue
        jobs.append(job)
        shared += job.gpus == 1 and row.whole("gpu_milli") < _WHOLE_GPU
    if not jobs:
        raise HistoryError(f"{path}: expected a pod that was scheduled and ran, found none")
    notes = notes_of(
        (unscheduled, "left out: they were not scheduled, or ended at once"),
        (shared, "with a part of a GPU, which counts as a whole one"),
    )
    return History(in_order(jobs), pools=() if nodes is None else _read_pools(nodes), notes=notes)


def _job_of(row: Row, names: QueueNames) -> RecordedJob | None:
    """None for a pod without a run time."""
    created, ended = row.seconds("creation_time"), row.seconds("deletion_time")
    if not row.text("scheduled_time"):
        return None
    began = row.seconds("scheduled_time")
    if began < created:
        raise row.error("scheduled_time", f"expected creation_time, {created:g}, or later; found {began:g}")
    if ended < began:
        raise row.error("deletion_time", f"expected scheduled_time, {began:g}, or later; found {ended:g}")
    if ended == began:
        return None
    return RecordedJob(
        name=f"job-{row.line}",
        tenant=names.name_of(row.text("qos")),
        submit_ms=round(created * 1000),
        run_ms=round((ended - began) * 1000),
        pods=1,
        gpus=row.whole("num_gpu"),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        models=tuple(sorted({model for model in row.text("gpu_spec").split("|") if model})),
    )


def _read_pools(path: Path) -> tuple[Pool, ...]:
    """Equal nodes as one pool, the most GPUs first."""
    counts: Counter[NodeKind] = Counter()
    for row in rows_of(path, _NODE_COLUMNS):
        size = (row.whole("gpu"), row.text("model"), row.whole("cpu_milli"), row.whole("memory_mib"))
        counts[size] += 1
    if not counts:
        raise HistoryError(f"{path}: expected a node, found none")
    return pools_of(counts)
