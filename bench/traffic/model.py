"""Traffic of placements, and a modelled run time.

The model is that of bulk-synchronous parallel computing (L. G. Valiant, A bridging model for parallel
computation, CACM 33(8), 1990): a step takes the time to compute, and then the largest amount that any
processor sends or receives times the time for a unit. A processor is here the network interface of a node;
the uplinks of racks are counted in the same way. All jobs compute and exchange at the same time, so they
share interfaces and uplinks, and a job waits for the slowest that it uses. Traffic inside a node takes no
time.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from bench.traffic.cases import Case, Job
from bench.traffic.emulated import Placement

COMPUTE_S: Final = 1.0
"""Computing in a step: an assumption."""

NODE_MB_S: Final = 1250
"""A network interface of 10 Gbit/s."""

UPLINK_PART: Final = 4
"""Nodes of a rack share an uplink with a fourth of their bandwidth: an assumption."""


class Measured(Struct, frozen=True, rename="camel"):
    """One placement: gigabytes in a step of all jobs, and seconds for a step."""

    placed: int
    pods: int
    between_nodes_gb: float
    between_racks_gb: float
    step_mean_s: float
    step_max_s: float


def measured(case: Case, placement: Placement) -> Measured:
    """Count traffic, and model the time of a step of each job."""
    nodes = [_crossing(job, placement) for job in case.jobs]
    rack_of = {node.name: node.rack for node in case.nodes}
    per_rack = Counter(rack_of.values())
    racks = [[(rack_of[one], rack_of[other], size) for one, other, size in each] for each in nodes]
    racks = [[pair for pair in each if pair[0] != pair[1]] for each in racks]
    links = _busy_s(nodes, dict.fromkeys(rack_of, float(NODE_MB_S)))
    uplinks = _busy_s(racks, {rack: NODE_MB_S * count / UPLINK_PART for rack, count in per_rack.items()})
    steps = []
    for of_nodes, of_racks in zip(nodes, racks, strict=True):
        waits = [links[end] for one, other, _ in of_nodes for end in (one, other)]
        waits += [uplinks[end] for one, other, _ in of_racks for end in (one, other)]
        steps.append(COMPUTE_S + max(waits, default=0.0))
    return Measured(
        placed=len(placement),
        pods=sum(1 for job in case.jobs for _ in job.pods()),
        between_nodes_gb=round(_sum(nodes) / 1000, 3),
        between_racks_gb=round(_sum(racks) / 1000, 3),
        step_mean_s=round(sum(steps) / len(steps), 3),
        step_max_s=round(max(steps), 3),
    )


Crossing = list[tuple[str, str, int]]
"""From, to, and megabytes in a step."""


def _sum(crossing: list[Crossing]) -> int:
    return sum(size for each in crossing for _, _, size in each)


def _crossing(job: Job, placement: Placement) -> Crossing:
    return list(_pairs(job, placement))


def _pairs(job: Job, placement: Placement) -> Iterator[tuple[str, str, int]]:
    pods = [(pod, role.name) for pod, role in job.pods() if pod in placement]
    for flow in job.flows:
        for pod, role in pods:
            for other, receiver in pods:
                one, two = placement[pod], placement[other]
                if (role, receiver) == (flow.sender, flow.receiver) and pod != other and one != two:
                    yield one, two, flow.megabytes


def _busy_s(crossing: list[Crossing], megabytes_s: dict[str, float]) -> dict[str, float]:
    """How long each link is busy in a step: the longer one of both directions."""
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for each in crossing:
        for one, other, size in each:
            sent[one] += size
            received[other] += size
    return {name: max(sent[name], received[name]) / speed for name, speed in megabytes_s.items()}
