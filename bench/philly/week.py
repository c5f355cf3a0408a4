"""The jobs of some days of the trace, including those that still run from before, and a cluster for them."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from phalanx_simulator.campaigns.jobs import TraceJob
from phalanx_simulator.lab.engine.jobs import Window, divided, window_of
from phalanx_simulator.lab.history.philly import recorded

GPUS_PER_NODE: Final = 8


class Cluster(Struct, frozen=True):
    """Nodes of eight GPUs, and the guarantee of each tenant; the guarantees sum to all GPUs."""

    nodes: int
    guarantees: dict[str, int]

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.nodes * GPUS_PER_NODE


def week_of(trace: Sequence[TraceJob], *, first_day: int, days: int) -> Window:
    """The jobs submitted in these days, and the rest of earlier jobs that would still run."""
    return window_of([recorded(job) for job in trace], first_day=first_day, days=days)


def cluster_for(week: Window, load_percent: int) -> Cluster:
    """So many nodes that the demand is this share of all GPUs, and at least enough for the largest job."""
    largest = max((job.pods for job in week.jobs), default=1)
    nodes = max(largest, math.ceil(week.wanted * 100 / load_percent / GPUS_PER_NODE))
    return Cluster(nodes, divided(nodes * GPUS_PER_NODE, week.part))
