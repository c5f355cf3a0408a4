"""One run of the replay: the laboratory's engine with a scheduler of ours or a simple one."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from phalanx_simulator.lab.engine.cluster import Pool, QueueSetup, Setup, Tenancy
from phalanx_simulator.lab.engine.jobs import Window
from phalanx_simulator.lab.engine.outcome import Waits
from phalanx_simulator.lab.engine.play import Scheduler
from phalanx_simulator.lab.engine.play import play as play_in_lab
from phalanx_simulator.lab.engine.product import Product

from bench.philly.week import GPUS_PER_NODE, Cluster


class Outcome(Struct, frozen=True, rename="camel"):
    """The figures of a run that the report holds, as the laboratory defines them.

    `seconds`: CPU time of the run.
    """

    gangs: int
    never_started: int
    waits: dict[str, Waits]
    utilisation: float
    jain: float
    shares: dict[str, float]
    evictions: int
    evictions_per_thousand: float
    lost_gpu_hours: float
    seconds: float


def phalanx(cluster: Cluster, spec: Mapping[str, Any]) -> Product:
    """Phalanx with its default configuration and a queue per tenant; `spec` is added to all queues."""
    queues = {name: QueueSetup(gpus, max(1, gpus), spec) for name, gpus in cluster.guarantees.items()}
    return Product(Setup((Pool("n", cluster.nodes, GPUS_PER_NODE),), queues))


def play(
    week: Window,
    cluster: Cluster,
    scheduler: Scheduler,
    *,
    period_ms: int,
    report_progress: Callable[[int], None] = lambda _now: None,
) -> Outcome:
    """Play the days and go on until all jobs have started; a tenant's weight is its guarantee."""
    weights = {name: max(1, gpus) for name, gpus in cluster.guarantees.items()}
    tenancy = Tenancy(cluster.gpus, cluster.guarantees, weights)
    began = time.process_time()
    found = play_in_lab(week, tenancy, scheduler, period_ms=period_ms, report_progress=report_progress)
    seconds = round(time.process_time() - began, 1)
    figures = {name: getattr(found, name) for name in Outcome.__struct_fields__ if name != "seconds"}
    return Outcome(**figures, seconds=seconds)
