"""Histories as a folder of files that `phalanx snapshot` wrote, from time to time, of one scheduler."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.resources import CPU, GPU, MEMORY, Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.gpu_shares.devices import device_count, requests_share
from phalanx.observe.recording import RecordingError, decode

from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import (
    History,
    HistoryError,
    NodeKind,
    QueueNames,
    RecordedQueue,
    in_order,
    notes_of,
    pools_of,
)

_MODEL: Final = "nvidia.com/gpu.product"
_RACK: Final = "cloud.provider.com/topology-rack"
_MIB: Final = 1 << 20
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class _Run(Struct):
    """What is known of a gang: the last state in which it had nodes. Times in milliseconds."""

    gang: Gang
    began: int | None = None
    seen: int = 0
    ended: int | None = None


def read_snapshots(folder: Path) -> History:
    """Read all files of the folder, in the order of the times inside. Raises HistoryError and OSError.

    The run time of a gang ends when its pods ended; if no file shows that, halfway between the last file that
    shows it running and the next one.
    """
    snapshots = sorted(_decoded(folder), key=lambda each: each.now)
    if len(snapshots) < 2:
        raise HistoryError(
            f"{folder}: expected at least two files of `phalanx snapshot`, found {len(snapshots)}"
        )
    return _History(snapshots).history(folder)


def _decoded(folder: Path) -> Iterator[Snapshot]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            try:
                yield decode(path.read_bytes()).snapshot
            except RecordingError as error:
                raise HistoryError(f"{path}: {error}") from error


class _History:
    """The gangs of all snapshots."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._last = snapshots[-1]
        self._names = QueueNames()
        self._runs: dict[str, _Run] = {}
        for before, after in pairwise((None, *snapshots)):
            assert after is not None
            self._end_those_that_left(before, after)
            for key, gang in after.gangs.items():
                _update(self._runs.setdefault(key, _Run(gang)), gang, after.now)

    def _end_those_that_left(self, before: Snapshot | None, after: Snapshot) -> None:
        for key in before.gangs if before is not None else ():
            run = self._runs[key]
            if key not in after.gangs and run.began is not None and run.ended is None:
                run.ended = (run.seen + after.now) // 2

    def history(self, folder: Path) -> History:
        """The jobs, and the cluster of the last snapshot."""
        running = sum(run.began is not None and run.ended is None for run in self._runs.values())
        found = (self._job_of(f"job-{number}", run) for number, run in enumerate(self._runs.values(), 1))
        jobs = [job for job in found if job is not None]
        if not jobs:
            raise HistoryError(f"{folder}: expected a gang that ran, found none")
        notes = notes_of(
            (
                len(self._runs) - len(jobs),
                "left out: no snapshot shows them run",
            ),
            (
                running,
                "that still ran at the last snapshot: assumed to end then, or at their maximum run time",
            ),
        )
        queues = {
            self._names.name_of(name): RecordedQueue(queue.guarantee.get(GPU, 0), queue.weight)
            for name, queue in sorted(self._last.queues.items())
            if all(each.parent != name for each in self._last.queues.values())
        }
        return History(in_order(jobs), _seen_pools(self._last), queues, notes)

    def _job_of(self, name: str, run: _Run) -> RecordedJob | None:
        """None for a gang of which no run was seen."""
        if run.began is None:
            return None
        limit_ms = run.gang.spec.runtime.max_ms if run.gang.spec.runtime else None
        ended = run.ended
        if ended is None:
            ended = max(self._last.now, run.began + limit_ms) if limit_ms else self._last.now
        members = [each for each in run.gang.members if _gpus(each)] or list(run.gang.members)
        return RecordedJob(
            name=name,
            tenant=self._names.name_of(run.gang.queue),
            submit_ms=run.gang.created * 1000,
            run_ms=max(1, ended - run.began),
            pods=len(members),
            gpus=max(map(_gpus, members)),
            cpu_milli=max(each.shape.requests.get(CPU, 0) for each in members),
            memory_mib=max(-(-each.shape.requests.get(MEMORY, 0) // _MIB) for each in members),
            limit_s=limit_ms // 1000 if limit_ms else None,
            priority=run.gang.priority,
        )


def _update(run: _Run, gang: Gang, now: int) -> None:
    placed = [each for each in gang.members if each.node is not None]
    if placed:
        run.gang, run.seen = gang, now
        run.began = 1000 * min(each.running_since or each.bound_since or gang.created for each in placed)
        if all(each.phase in _ENDED for each in placed):
            run.ended = 1000 * max(_end_of(each) for each in placed) or now
    elif run.began is None:
        run.gang = gang


def _end_of(pod: Pod) -> int:
    return pod.ran[1] if pod.ran is not None else pod.ended


def _gpus(pod: Pod) -> int:
    """A part of a GPU counts as a whole one."""
    requests: Resources = pod.shape.requests
    return requests.get(GPU, 0) or int(requests_share(requests))


def _seen_pools(snapshot: Snapshot) -> tuple[Pool, ...]:
    """Equal nodes that take pods as one pool, the most GPUs first."""
    counts: Counter[NodeKind] = Counter()
    racks: dict[NodeKind, set[str]] = {}
    for state in snapshot.nodes.values():
        node = state.node
        if node.is_ready and not node.unschedulable:
            kind = _kind_of(node)
            counts[kind] += 1
            racks.setdefault(kind, set()).update({node.labels[_RACK]} if _RACK in node.labels else ())
    return pools_of(counts, racks={kind: len(found) for kind, found in racks.items()})


def _kind_of(node: Node) -> NodeKind:
    offered = node.allocatable
    gpus = offered.get(GPU, 0) or device_count(offered)
    return gpus, node.labels.get(_MODEL, ""), offered.get(CPU, 0), offered.get(MEMORY, 0) // _MIB
