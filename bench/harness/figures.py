"""Computes the figures of a run from its observation. Pure functions."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct
from phalanx.model.resources import CPU, GPU, request_amount

from bench.harness.gangs import Gang, pods
from bench.harness.observation import Observation, PodTimes
from bench.harness.rules import Rule
from bench.harness.workloads import Until, Workload

CURVE_POINTS: Final = 60

_RATE_SPAN_S: Final = 0.1
"""Binds within a shorter time come from one or two reads of the watch, so that their rate is unknown."""

Amounts = dict[str, int]


class Figures(Struct, frozen=True, rename="camel"):
    """Times in seconds since the clock of the run started; None for events that did not happen."""

    pods: int
    bound: int
    first_bind_s: float | None
    last_bind_s: float | None
    last_running_s: float | None
    pods_per_s: float | None
    """From the start of the clock to the last bind."""
    rate_per_s: float | None
    """From the first bind to the last."""
    latency_p50_ms: float | None
    """From the observation of a pod until the observation of its bind."""
    latency_p99_ms: float | None
    gangs: int
    whole_gangs: int
    """Gangs whose pods were all bound."""
    pods_in_partial_gangs: int
    """Bound pods of gangs with unbound pods: they hold capacity without use."""
    torn_gangs: int
    """Gangs that require one rack or spine and are in several."""
    refused: int
    """Pods whose condition PodScheduled was False and that were not bound."""
    last_refusal_s: float | None
    """When the last of them got that condition for the first time."""
    overcommitted_nodes: int
    mean_occupancy: float | None
    """The share of the cluster's cores (GPUs where it has any) that these pods held until the last bind."""
    curve: list[tuple[float, int, float]]
    """Second, pods bound by then, share of the cluster held then."""
    largest_skew: int | None = None
    """Of pods of a gang between zones; None if the workload spreads none."""
    racks_per_gang: float | None = None
    """The mean number of racks of a gang; None if no gang prefers one."""


def figures(workload: Workload, seen: Observation, *, started_at: float) -> Figures:
    """The figures of one run. `started_at`: monotonic seconds, as are the times of the observation."""
    bound = sorted((pod for pod in seen.pods if pod.bound), key=lambda pod: pod.bound)
    times = [pod.bound - started_at for pod in bound]
    first, last = (times[0], times[-1]) if times else (None, None)
    refused = [pod.refused - started_at for pod in seen.pods if pod.refused and not pod.bound]
    running = [pod.running - started_at for pod in bound if pod.running]
    latencies = [1000 * (pod.bound - pod.created) for pod in bound]
    by_gang: defaultdict[str, list[PodTimes]] = defaultdict(list)
    for pod in bound:
        by_gang[pod.gang].append(pod)
    gangs = workload.arriving()
    whole = [gang for gang in gangs if len(by_gang[gang.name]) == gang.size]
    holdings = _holdings(gangs, seen.pods, started_at)
    return Figures(
        pods=workload.pods,
        bound=len(bound),
        first_bind_s=_rounded(first, 3),
        last_bind_s=_rounded(last, 3),
        last_running_s=_rounded(max(running, default=None), 3),
        pods_per_s=_rounded(_per_second(len(bound), last), 1),
        rate_per_s=_rounded(_per_second(len(bound) - 1, times[-1] - times[0]) if times else None, 1),
        latency_p50_ms=_rounded(percentile(latencies, 50), 1),
        latency_p99_ms=_rounded(percentile(latencies, 99), 1),
        gangs=len(gangs),
        whole_gangs=len(whole),
        pods_in_partial_gangs=len(bound) - sum(gang.size for gang in whole),
        torn_gangs=sum(_is_torn(gang, by_gang[gang.name], workload) for gang in gangs),
        refused=len(refused),
        last_refusal_s=_rounded(max(refused, default=None), 3),
        overcommitted_nodes=_overcommitted(workload, holdings),
        mean_occupancy=_rounded(_mean_occupancy(workload, holdings, last), 4),
        curve=_curve(workload, holdings, times),
        largest_skew=_largest_skew(workload, by_gang),
        racks_per_gang=_racks_per_gang(workload, by_gang),
    )


def why_not_finished(workload: Workload, seen: Observation, *, is_met: bool, has_ended: bool) -> str:
    """Why a run did not finish; "" when it did."""
    if is_met:
        return ""
    bound = sum(pod.bound > 0 for pod in seen.pods)
    cause = "the scheduler ended" if has_ended else f"not finished in {workload.limit_seconds:g} s"
    what = f"{bound:,} of {workload.pods:,} pods bound"
    if workload.until is Until.ANSWERED:
        refused = sum(pod.refused > 0 and not pod.bound for pod in seen.pods)
        what += f", {refused:,} refused"
    return f"{cause}: {what}"


def percentile(values: Iterable[float], percent: int) -> float | None:
    """The percentile by nearest rank; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(math.ceil(percent * len(ordered) / 100), 1) - 1]


class Spread(Struct, frozen=True):
    """The median, the least and the most of several runs."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float | None]) -> Spread | None:
    """None unless every run has a value."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Spread(statistics.median(known), min(known), max(known))


class _Holding(Struct, frozen=True):
    """At `second` a pod starts to use its requests on a node, or with `sign` -1 stops."""

    second: float
    sign: int
    node: str
    requests: Amounts


def _holdings(gangs: Sequence[Gang], seen: Iterable[PodTimes], started_at: float) -> list[_Holding]:
    """All changes in the order of time; at equal times, releases come first."""
    requests: dict[str, Amounts] = {}
    for gang in gangs:
        for manifest in pods(gang):
            written = manifest["spec"]["containers"][0]["resources"]["requests"]
            requests[manifest["metadata"]["name"]] = {r: request_amount(r, q) for r, q in written.items()}
    found = []
    for pod in seen:
        if pod.bound and pod.name in requests:
            found.append(_Holding(pod.bound - started_at, 1, pod.node, requests[pod.name]))
            if pod.ended:
                found.append(_Holding(pod.ended - started_at, -1, pod.node, requests[pod.name]))
    return sorted(found, key=lambda each: (each.second, each.sign))


def _overcommitted(workload: Workload, holdings: Iterable[_Holding]) -> int:
    """The number of nodes that were over-committed at any time, without the existing pods."""
    offered = workload.nodes.allocatable
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    over = set()
    for each in holdings:
        for resource, amount in each.requests.items():
            held[each.node][resource] += each.sign * amount
            if held[each.node][resource] > offered[resource]:
                over.add(each.node)
    return len(over)


def _steps(workload: Workload, holdings: Iterable[_Holding]) -> list[tuple[float, float]]:
    """Pairs of a second and the share of the cluster that is used from then on."""
    resource = GPU if workload.nodes.gpus else CPU
    whole = workload.nodes.count * workload.nodes.allocatable[resource]
    held, steps = 0, []
    for each in holdings:
        held += each.sign * each.requests.get(resource, 0)
        steps.append((each.second, held / whole))
    return steps


def _mean_occupancy(workload: Workload, holdings: Sequence[_Holding], last: float | None) -> float | None:
    if not last or last <= 0:
        return None
    steps = [*(step for step in _steps(workload, holdings) if step[0] < last), (last, 0.0)]
    held = (share * (end - max(begin, 0.0)) for (begin, share), (end, _) in pairwise(steps))
    return sum(held) / last


def _curve(
    workload: Workload, holdings: Sequence[_Holding], times: Sequence[float]
) -> list[tuple[float, int, float]]:
    if not times:
        return []
    steps = _steps(workload, holdings)
    points = []
    for number in range(CURVE_POINTS + 1):
        second = times[-1] * number / CURVE_POINTS
        held = next((share for at, share in reversed(steps) if at <= second), 0.0)
        points.append((round(second, 3), sum(at <= second for at in times), round(held, 4)))
    return points


def _is_torn(gang: Gang, bound: Iterable[PodTimes], workload: Workload) -> bool:
    if not gang.level:
        return False
    wide = workload.nodes.rack if gang.level == "rack" else workload.nodes.spine
    return len({_number(pod) // wide for pod in bound}) > 1


def _largest_skew(workload: Workload, by_gang: Mapping[str, list[PodTimes]]) -> int | None:
    """The largest difference of pods of one gang between two zones, of gangs that spread."""
    zones = range(-(-workload.nodes.count // workload.nodes.zone))
    skews = []
    for gang in workload.arriving():
        if gang.rule is Rule.SPREAD:
            held = Counter(_number(pod) // workload.nodes.zone for pod in by_gang.get(gang.name, ()))
            skews.append(max(held[zone] for zone in zones) - min(held[zone] for zone in zones))
    return max(skews, default=None)


def _racks_per_gang(workload: Workload, by_gang: Mapping[str, list[PodTimes]]) -> float | None:
    racks = [
        len({_number(pod) // workload.nodes.rack for pod in by_gang.get(gang.name, ())})
        for gang in workload.arriving()
        if gang.rule is Rule.AFFINITY
    ]
    return round(statistics.mean(racks), 2) if racks else None


def _number(pod: PodTimes) -> int:
    """The number of its node."""
    return int(pod.node.rpartition("-")[2])


def _per_second(count: int, seconds: float | None) -> float | None:
    return count / seconds if seconds and seconds >= _RATE_SPAN_S else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
