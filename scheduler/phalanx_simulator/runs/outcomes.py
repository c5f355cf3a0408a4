"""Outcomes of a run: jobs, broken gangs, restarts, lost pods and GPU time; durations as histograms.

The histograms have fixed bounds, so that those of many runs can be added without loss.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.resources import GPU

from phalanx_simulator.embedded.pod_requests import requests_of
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object, Store
from phalanx_simulator.faults.edits import POD_GROUPS, node_key
from phalanx_simulator.faults.effects import InjectedEffect, InjectedEffects
from phalanx_simulator.hosts.host import WorldClock

AT_MOST_S: Final = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 75, 90, 120, 150, 180, 240, 300, 360, 420, 480, 600),
    *(900, 1200, 1800, 2700, 3600, 5400, 7200, 14_400, 28_800, 86_400, 604_800, 31_536_000),
)
"""Upper bounds in seconds, dense in the range of typical repairs. The last, a year, includes longer
durations."""

Histogram = Mapping[int, int]
"""Counts by upper bound: durations up to this bound of AT_MOST_S and above the previous one; zeros are
omitted."""


def histogram(seconds: Iterable[float]) -> Histogram:
    """Count these durations."""
    counts = dict.fromkeys(AT_MOST_S, 0)
    for duration in seconds:
        counts[AT_MOST_S[min(bisect_left(AT_MOST_S, duration), len(AT_MOST_S) - 1)]] += 1
    return _without_zeros(counts)


def added(histograms: Iterable[Histogram]) -> Histogram:
    """The sum of the histograms."""
    counts = dict.fromkeys(AT_MOST_S, 0)
    for counted in histograms:
        for bound, count in counted.items():
            counts[bound] += count
    return _without_zeros(counts)


def percentile(counts: Histogram, percent: int) -> int | None:
    """An upper bound of the percentile in seconds; None for an empty histogram."""
    rank = _rank(sum(counts.values()), percent)
    reached = zip(counts, accumulate(counts.values()), strict=True)
    return next((bound for bound, so_far in reached if so_far > rank), None)


def exact_percentile(seconds: Iterable[float], percent: int) -> float | None:
    """The percentile of the durations themselves, to the millisecond."""
    ordered = sorted(seconds)
    return round(ordered[_rank(len(ordered), percent)], 3) if ordered else None


def _rank(count: int, percent: int) -> int:
    return min(count - 1, count * percent // 100)


def _without_zeros(counts: Mapping[int, int]) -> Histogram:
    return {bound: count for bound, count in counts.items() if count}


_ENDED: Final = ("Succeeded", "Failed")


class Outcomes(Struct, frozen=True, kw_only=True):
    """Outcomes of a run.

    GPU time is in device-hours, times are in seconds; percentiles are None where nothing was measured.

    goodput: GPU time of pods that succeeded or still run at the end, divided by all GPU time that was held.
    gangs_broken: number of times that a gang lost a running member, for any reason, before one had finished.
    gangs_whole_again: number of times that as many members ran after such a loss as before.
    restarts: those of gangs_broken that a fault caused: it affected a lost member, its node or its PodGroup,
        and had not ended more than a minute before.
    faults_met: faults that affected a running gang. A fault can affect many gangs, and many faults none.
    restarts_per_fault: restarts divided by faults_met.
    pods_lost: running pods that failed or were deleted.
    pods_lost_by_faults: those that faults caused, with all that their gang lost until it ran again. The
        others failed by themselves or were victims of preemption.
    whole_after_fault_*: time from the beginning of the fault that caused a restart until the gang is complete
        again. It includes the time until the fault is visible and until the pods are deleted.
    whole_again_*: time from the loss of the first running pod until the gang is complete again, for any
        reason. For a lost node it begins when its pods are deleted.
    whole_after_fault, whole_again: the histograms of these times; totals compute percentiles from them.
    """

    jobs_submitted: int
    jobs_finished: int
    gangs_broken: int
    gangs_whole_again: int
    restarts: int
    faults_met: int
    restarts_per_fault: float | None
    pods_lost: int
    pods_lost_by_faults: int
    whole_after_fault_p50_s: float | None
    whole_after_fault_p99_s: float | None
    whole_again_p50_s: float | None
    whole_again_p99_s: float | None
    whole_after_fault: Histogram
    whole_again: Histogram
    gpu_hours_held: float
    gpu_hours_lost: float
    goodput: float | None


class Cost(Struct, frozen=True):
    """Losses of a run with faults compared with its run without faults; a negative value is chance.

    jobs, goodput: value without faults minus value with faults. goodput is None if one run held no GPU.
    The other fields: value with faults minus value without.
    """

    jobs: int
    gangs_broken: int
    pods_lost: int
    gpu_hours_lost: float
    goodput: float | None


def cost_of(run: Outcomes, twin: Outcomes) -> Cost:
    """The losses of the run compared with its run without faults."""
    are_measured = run.goodput is not None and twin.goodput is not None
    return Cost(
        jobs=twin.jobs_finished - run.jobs_finished,
        gangs_broken=run.gangs_broken - twin.gangs_broken,
        pods_lost=run.pods_lost - twin.pods_lost,
        gpu_hours_lost=round(run.gpu_hours_lost - twin.gpu_hours_lost, 3),
        goodput=round((twin.goodput or 0) - (run.goodput or 0), 4) if are_measured else None,
    )


class OutcomeTracker:
    """Computes outcomes from the changes of a store.

    Faults record what they change in `effects`.
    """

    def __init__(self, store: Store, clock: WorldClock) -> None:
        self.effects = InjectedEffects(clock, self._on_hit)
        self._clock = clock
        self._running: dict[str, _Run] = {}
        self._gangs: dict[tuple[str, str], _GangRun] = {}
        self._jobs: dict[str, bool] = {}
        self._held_s = 0.0
        self._lost_s = 0.0
        self._broken = 0
        self._restarts = 0
        self._met = 0
        self._pods_lost = 0
        self._pods_lost_by_faults = 0
        self._after_loss: list[float] = []
        self._after_fault: list[float] = []
        store.subscribe("pods", self._on_pod)
        store.subscribe("jobs.batch", self._on_job)

    def outcomes(self) -> Outcomes:
        """The outcomes until now."""
        now = self._clock.monotonic()
        still = sum(run.gpus * (now - run.since) for run in self._running.values())
        held = self._held_s + still
        return Outcomes(
            jobs_submitted=len(self._jobs),
            jobs_finished=sum(self._jobs.values()),
            gangs_broken=self._broken,
            gangs_whole_again=len(self._after_loss),
            restarts=self._restarts,
            faults_met=self._met,
            restarts_per_fault=per_fault(self._restarts, self._met),
            pods_lost=self._pods_lost,
            pods_lost_by_faults=self._pods_lost_by_faults,
            whole_after_fault_p50_s=exact_percentile(self._after_fault, 50),
            whole_after_fault_p99_s=exact_percentile(self._after_fault, 99),
            whole_again_p50_s=exact_percentile(self._after_loss, 50),
            whole_again_p99_s=exact_percentile(self._after_loss, 99),
            whole_after_fault=histogram(self._after_fault),
            whole_again=histogram(self._after_loss),
            gpu_hours_held=round(held / 3600, 3),
            gpu_hours_lost=round(self._lost_s / 3600, 3),
            goodput=round(1 - self._lost_s / held, 4) if held else None,
        )

    def _on_job(self, change: Change) -> None:
        job = change.entry.data
        done = any(
            condition["type"] == "Complete" and condition["status"] == "True"
            for condition in job.get("status", {}).get("conditions", [])
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

    def _on_hit(self, effect: InjectedEffect, key: Key) -> None:
        if effect.has_met:
            return
        effect.has_met = any(run.gang is not None and key in run.keys for run in self._running.values())
        self._met += effect.has_met

    def _begin(self, uid: str, pod: Object) -> None:
        now = self._clock.monotonic()
        group = (pod["metadata"].get("labels") or {}).get(LABEL_POD_GROUP, "")
        namespace = pod["metadata"]["namespace"]
        gang = self._gangs.setdefault((namespace, group), _GangRun()) if group else None
        gpus = requests_of(pod).get(GPU, 0)
        self._running[uid] = _Run(gpus=gpus, since=now, gang=gang, keys=_keys(pod, group))
        if gang is not None:
            gang.running += 1
            gang.most = max(gang.most, gang.running)
            if gang.broken_at is not None and gang.running >= gang.most:
                self._repaired(gang, gang.broken_at, now)

    def _repaired(self, gang: "_GangRun", broken_at: float, now: float) -> None:
        self._after_loss.append(now - broken_at)
        if gang.fault_at is not None:
            self._after_fault.append(now - gang.fault_at)
        gang.broken_at = gang.fault_at = None
        gang.lost = 0

    def _end(self, uid: str, run: "_Run", *, well: bool) -> None:
        del self._running[uid]
        now = self._clock.monotonic()
        seconds = run.gpus * (now - run.since)
        self._held_s += seconds
        if run.gang is not None:
            run.gang.running -= 1
            run.gang.finishing |= well
        if not well:
            self._lost_s += seconds
            self._lose(run, now)

    def _lose(self, run: "_Run", now: float) -> None:
        self._pods_lost += 1
        began = self.effects.began_s(*run.keys)
        fault_at = None if began is None else max(began, run.since)
        gang = run.gang
        if gang is None or gang.finishing:
            self._pods_lost_by_faults += fault_at is not None
            return
        if gang.broken_at is None:
            self._broken += 1
            gang.broken_at = now
        gang.lost += 1
        if gang.fault_at is None and fault_at is not None:
            gang.fault_at = fault_at
            self._restarts += 1
        if gang.fault_at is not None:
            self._pods_lost_by_faults += gang.lost
            gang.lost = 0


def per_fault(count: int, faults: int) -> float | None:
    """Ratio to the thousandth; None without faults."""
    return round(count / faults, 3) if faults else None


class _GangRun(Struct):
    """State of a gang.

    `lost`: pods lost since it broke, while no fault is known as the cause.
    """

    running: int = 0
    most: int = 0
    lost: int = 0
    broken_at: float | None = None
    fault_at: float | None = None
    finishing: bool = False


class _Run(Struct):
    """A running pod.

    `keys`: objects; a fault that affects one of them counts as the cause of the pod's loss.
    """

    gpus: int
    since: float
    gang: _GangRun | None
    keys: tuple[Key, ...]


def _keys(pod: Object, group: str) -> tuple[Key, ...]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    own = (Key("pods", namespace, name), node_key(pod["spec"].get("nodeName", "")))
    return (*own, Key(POD_GROUPS, namespace, group)) if group else own
