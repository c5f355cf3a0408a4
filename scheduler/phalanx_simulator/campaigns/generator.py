"""A realistic fault campaign: Poisson processes per node and per GPU at published rates.

`published_rates` has every figure with its source. Each fault has a `cause` in its settings: a row of Llama
3's table, or `correlated`, `false positive`, `flap`, `job`.
"""

import heapq
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from phalanx.clock import Random
from phalanx.model.resources import GPU

from phalanx_simulator.campaigns.published_rates import (
    CAUSES,
    CORRELATED,
    DETECTION_S,
    FALSE_POSITIVE,
    FLAP,
    HANG,
    HANG_DETECTION_S,
    JOB_FAULTS_PER_GPU_DAY,
    NODE_FAILURE_RATE_SIGMA,
    NODE_FAULTS_PER_NODE_DAY,
    SECONDS_PER_DAY,
    Cause,
    Outcome,
    Repair,
    repair_s,
)
from phalanx_simulator.embedded.pod_requests import allocatable_of
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.fault import Fault, Setting
from phalanx_simulator.faults.kinds import Values
from phalanx_simulator.faults.node_conditions import HEALTHY_STATUS
from phalanx_simulator.faults.profiles import arrivals
from phalanx_simulator.faults.site import Site, site_of

CAUSE: Final = "cause"
CORRELATED_CAUSE: Final = "correlated"
FALSE_POSITIVE_CAUSE: Final = "false positive"
FLAP_CAUSE: Final = "flap"
JOB_CAUSE: Final = "job"

_HOUR_S: Final = 3600
_TRIES: Final = 20
_WITHIN_S: Final = 60
_FLAP_S: Final = (60, 1800)
_FLAP_PERIOD_S: Final = (1, 300)
_FALSE_TYPES: Final = tuple(type_ for type_ in HEALTHY_STATUS if type_ != "Ready")


def campaign(*, random: Random, nodes: Iterable[Object], hours: float, scale: float) -> tuple[Fault, ...]:
    """The faults of `hours`, in order of time.

    A node that is already out of service cannot fail again: the fault moves to another node, which is drawn
    with the failure rates of the nodes as weights.
    """
    manifests = list(nodes)
    if not manifests:
        return ()
    site, seconds = site_of(manifests), hours * _HOUR_S
    of_nodes = _node_faults(site, random=random, seconds=seconds, scale=scale)
    of_jobs = _job_faults(manifests, random=random, seconds=seconds, scale=scale)
    return tuple(sorted((*of_nodes, *of_jobs), key=lambda fault: fault.at_s))


def node_failure_rate_factors(count: int, random: Random) -> list[float]:
    """Failure rate of each node relative to the average; the mean is 1.

    The lognormal distribution is divided into `count` parts of equal probability; each node gets the mean of
    one part, in random order. So the worst nodes have the same share of all faults for every seed and cluster
    size.
    """
    normal = NormalDist()
    quantiles = [normal.inv_cdf(index / count) for index in range(1, count)]
    below = [0.0, *(normal.cdf(z - NODE_FAILURE_RATE_SIGMA) for z in quantiles), 1.0]
    factors = [(upper - lower) * count for lower, upper in pairwise(below)]
    random.shuffle(factors)
    return factors


class _Arrival(Struct, frozen=True, order=True):
    at_s: float
    node: str


def _node_faults(site: Site, *, random: Random, seconds: float, scale: float) -> list[Fault]:
    per_second = NODE_FAULTS_PER_NODE_DAY * scale / SECONDS_PER_DAY
    factors = node_failure_rate_factors(len(site.nodes), random)
    weights = list(accumulate(factors))
    coming = [
        [_Arrival(at_s, node) for at_s in arrivals(per_second * factor, random=random, seconds=seconds)]
        for node, factor in zip(site.nodes, factors, strict=True)
    ]
    faults: list[Fault] = []
    out_until: dict[str, float] = {}
    for arrival in heapq.merge(*coming):
        others = random.choices(site.nodes, cum_weights=weights, k=_TRIES)
        hit = _first_node_up(arrival, out_until, others)
        if hit is not None:
            for fault in _of_node(hit, site, random):
                faults.append(fault)
                end = fault.at_s + fault.number("detect_s") + fault.seconds
                out_until.update(dict.fromkeys(fault.targets, end))
    return faults


def _first_node_up(arrival: _Arrival, out_until: Mapping[str, float], others: list[str]) -> _Arrival | None:
    """Move an arrival to the next node that is up; None if none is."""
    for node in (arrival.node, *others):
        if arrival.at_s >= out_until.get(node, 0.0):
            return _Arrival(arrival.at_s, node)
    return None


def _of_node(arrival: _Arrival, site: Site, random: Random) -> list[Fault]:
    """The fault of a node at that moment, with optional flapping after the repair."""
    lot = random.random()
    if lot < CORRELATED:
        return [_correlated(arrival, site, random)]
    if lot < CORRELATED + FALSE_POSITIVE:
        return [_false_positive(arrival, random)]
    cause = random.choices(CAUSES, [known.count for known in CAUSES])[0]
    fault = _of_cause(arrival, cause, random)
    if fault.seconds > 0 and random.random() < FLAP:
        return [fault, _flap(fault, random)]
    return [fault]


def _of_cause(arrival: _Arrival, cause: Cause, random: Random) -> Fault:
    outcomes = [outcome for outcome, _ in cause.outcomes]
    outcome = random.choices(outcomes, [weight for _, weight in cause.outcomes])[0]
    return _fault(arrival, outcome, cause.name, random)


def _fault(arrival: _Arrival, outcome: Outcome, cause: str, random: Random) -> Fault:
    drawn = {name: random.choice(values) for name, values in outcome.settings.items()}
    detect_s = HANG_DETECTION_S if outcome.is_hang else random.randint(*DETECTION_S)
    family = "F8" if outcome.kind.startswith("pod-") else "F6"
    settings: dict[str, Setting] = {CAUSE: cause, "detect_s": detect_s, **drawn}
    seconds = repair_s(outcome.repair, random)
    return Fault(family, outcome.kind, arrival.at_s, (arrival.node,), seconds, settings)


def _correlated(arrival: _Arrival, site: Site, random: Random) -> Fault:
    """Faults of a switch (narrowest domain) or a power feed (a block)."""
    kind, depth = random.choice((("switch-out", -1), ("power-out", site.depth_of("power", "block"))))
    targets = site.domain_of(arrival.node, depth)
    settings: dict[str, Setting] = {CAUSE: CORRELATED_CAUSE, "each": "node-lost", "within_s": _WITHIN_S}
    return Fault(
        "F7", kind, arrival.at_s, targets, repair_s(Repair.REBOOT, random), {**settings, "restarted": 1}
    )


def _false_positive(arrival: _Arrival, random: Random) -> Fault:
    settings: dict[str, Setting] = {CAUSE: FALSE_POSITIVE_CAUSE, "type": random.choice(_FALSE_TYPES)}
    seconds = repair_s(Repair.RESET, random)
    return Fault("F6", "node-condition", arrival.at_s, (arrival.node,), seconds, settings)


def _flap(fault: Fault, random: Random) -> Fault:
    at_s = fault.at_s + fault.number("detect_s") + fault.seconds
    settings: dict[str, Setting] = {CAUSE: FLAP_CAUSE, "period_s": random.randint(*_FLAP_PERIOD_S)}
    seconds = round(random.uniform(*_FLAP_S), 3)
    return replace(fault, family="F6", kind="node-flap", at_s=at_s, seconds=seconds, settings=settings)


def _job_faults(nodes: list[Object], *, random: Random, seconds: float, scale: float) -> list[Fault]:
    """Failures of running work: each GPU has the same hazard rate, idle GPUs have none."""
    per_second = JOB_FAULTS_PER_GPU_DAY * scale / SECONDS_PER_DAY
    return [
        _fault(_Arrival(at_s, node["metadata"]["name"]), _job_outcome(random), JOB_CAUSE, random)
        for node in nodes
        for at_s in arrivals(per_second * allocatable_of(node).get(GPU, 0), random=random, seconds=seconds)
    ]


def _job_outcome(random: Random) -> Outcome:
    is_hang = random.random() < HANG
    reason, exit_code = ("NCCLTimeout", 1) if is_hang else ("CUDAError", 134)
    settings: dict[str, Values] = {"reason": (reason,), "exit_code": (exit_code,)}
    return Outcome("pod-gpu-failure", Repair.NONE, settings, is_hang=is_hang)
