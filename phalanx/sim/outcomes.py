"""What users got out of a run: work done and lost, gangs broken and made whole again, waiting times."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.resources import GPU
from phalanx.sim.clocks import WorldClock
from phalanx.sim.footprint import requests_of
from phalanx.sim.store import Change, ChangeType, Object, Store

_ENDED: Final = ("Succeeded", "Failed")


class Outcomes(Struct, frozen=True):
    """GPU time is in device-hours. Times are in seconds; percentiles are None where nothing was measured.

    goodput: GPU time of pods that succeeded, or still run at the end, over all GPU time that was held.
    gangs_broken: times that a gang lost a running member before it had finished.
    pods_lost: running pods that ended badly or were deleted.
    whole_again_*: from such a loss until all of its members run again, or the gang is gone.
    """

    jobs_submitted: int
    jobs_finished: int
    gangs_broken: int
    pods_lost: int
    whole_again_p50_s: float | None
    whole_again_p99_s: float | None
    gpu_hours_held: float
    gpu_hours_lost: float
    goodput: float | None


class OutcomeTracker:
    """Listens to a store from the beginning."""

    def __init__(self, store: Store, clock: WorldClock) -> None:
        self._clock = clock
        self._running: dict[str, _Run] = {}
        self._gangs: dict[tuple[str, str], _GangRun] = {}
        self._jobs: dict[str, bool] = {}
        self._held_s = 0.0
        self._lost_s = 0.0
        self._broken = 0
        self._pods_lost = 0
        self._repairs: list[float] = []
        store.subscribe("pods", self._on_pod)
        store.subscribe("jobs.batch", self._on_job)

    def outcomes(self) -> Outcomes:
        """As of now."""
        now = self._clock.monotonic()
        still = sum(run.gpus * (now - run.since) for run in self._running.values())
        held = self._held_s + still
        return Outcomes(
            jobs_submitted=len(self._jobs),
            jobs_finished=sum(self._jobs.values()),
            gangs_broken=self._broken,
            pods_lost=self._pods_lost,
            whole_again_p50_s=_percentile(self._repairs, 50),
            whole_again_p99_s=_percentile(self._repairs, 99),
            gpu_hours_held=round(held / 3600, 3),
            gpu_hours_lost=round(self._lost_s / 3600, 3),
            goodput=round(1 - self._lost_s / held, 4) if held else None,
        )

    def _on_job(self, change: Change) -> None:
        job = change.entry.data
        done = any(
            one["type"] == "Complete" and one["status"] == "True"
            for one in job.get("status", {}).get("conditions", [])
        )
        uid = job["metadata"]["uid"]
        self._jobs[uid] = self._jobs.get(uid, False) or done

    def _on_pod(self, change: Change) -> None:
        pod = change.entry.data
        uid, phase = pod["metadata"]["uid"], pod.get("status", {}).get("phase")
        gone = change.type is ChangeType.DELETED
        run = self._running.get(uid)
        if run is None and phase == "Running" and not gone:
            self._begin(uid, pod)
        elif run is not None and (gone or phase in _ENDED):
            self._end(uid, run, well=phase == "Succeeded")

    def _begin(self, uid: str, pod: Object) -> None:
        now = self._clock.monotonic()
        gang = self._gang_of(pod)
        self._running[uid] = _Run(gpus=requests_of(pod).get(GPU, 0), since=now, gang=gang)
        if gang is not None:
            gang.running += 1
            gang.most = max(gang.most, gang.running)
            if gang.broken_at is not None and gang.running >= gang.most:
                self._repairs.append(now - gang.broken_at)
                gang.broken_at = None

    def _end(self, uid: str, run: "_Run", *, well: bool) -> None:
        del self._running[uid]
        now = self._clock.monotonic()
        seconds = run.gpus * (now - run.since)
        self._held_s += seconds
        if not well:
            self._lost_s += seconds
            self._pods_lost += 1
        if run.gang is not None:
            run.gang.running -= 1
            if well:
                run.gang.finishing = True
            elif run.gang.broken_at is None and not run.gang.finishing:
                self._broken += 1
                run.gang.broken_at = now

    def _gang_of(self, pod: Object) -> "_GangRun | None":
        group = (pod["metadata"].get("labels") or {}).get(LABEL_POD_GROUP)
        if not group:
            return None
        return self._gangs.setdefault((pod["metadata"]["namespace"], group), _GangRun())


class _GangRun(Struct):
    running: int = 0
    most: int = 0
    broken_at: float | None = None
    finishing: bool = False


class _Run(Struct):
    gpus: int
    since: float
    gang: _GangRun | None


def _percentile(values: Iterable[float], percent: int) -> float | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3)
