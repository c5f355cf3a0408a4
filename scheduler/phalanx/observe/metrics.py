"""All metrics of the scheduler, in a registry of their own; docs/metrics.md describes them.

To add a metric, declare it in the `_declare_...` method of its subject, set it in the method of the report
that it follows from, and add a line to docs/metrics.md. The values of labels come from closed sets (kinds,
queues, reasons). Children are looked up once, so that a report costs about a microsecond.
"""

from collections import Counter as CountOf
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from itertools import product
from operator import attrgetter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from phalanx.clock import Clock, SystemClock
from phalanx.limits import METRIC_SERIES_MAX
from phalanx.model.decisions import CycleResult, EvictionReason
from phalanx.model.names import PodUid
from phalanx.model.reasons import Reason
from phalanx.observe.families import Family, Gauges, Refresh
from phalanx.observe.ports import ClusterFigures, GangStart

_SYSTEM_CLOCK: Final = SystemClock()

_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds, each about three times the previous one, from a fast bind to a slow cycle."""

_START_BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604800.0)
"""Seconds from the creation of a gang to its start: from a free cluster to a week in a queue."""

_START_CHILDREN_MAX: Final = METRIC_SERIES_MAX // (len(_START_BUCKETS) + 3)

_BIND_OUTCOMES: Final = ("bound", "refused", "aborted", "leadership-lost")
_WRITE_TYPES: Final = ("event", "status", "eviction")
_WRITE_OUTCOMES: Final = ("written", "refused", "gave-up", "fenced", "dropped")

OTHER_QUEUES: Final = "(other)"
"""The label of starts in more queues than have a histogram; it cannot be the name of a Queue."""


class Metrics:
    """Implements the reports of `observe.ports`; `registry` holds the metrics to serve."""

    def __init__(self, clock: Clock = _SYSTEM_CLOCK) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._refresh = Refresh(self._show_cluster)
        self.registry.register(self._refresh)  # before the gauges that it sets
        self._declare_cycles()
        self._declare_queues()
        self._declare_faults()
        self._declare_solver()
        self._declare_writes()
        self._declare_watches()
        self._declare_lease()
        self._declare_config()
        self._declare_starts()
        self._declare_cluster()
        ProcessCollector(registry=self.registry)

    # --- cycles --------------------------------------------------------------------------------------------

    def _declare_cycles(self) -> None:
        self._cycle_seconds = Histogram(
            "phalanx_cycle_duration_seconds",
            "Duration of a scheduling cycle.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._step_seconds = Family(
            Histogram(
                "phalanx_cycle_step_duration_seconds",
                "Duration of each step of a scheduling cycle.",
                ("step",),
                buckets=_BUCKETS,
                registry=self.registry,
            )
        )
        self._cycle_number = self._new_gauge("phalanx_cycle_number", "Number of the last cycle.")
        self._decisions = self._new_counter(
            "phalanx_decisions_total", "Decisions by kind: placement, bind, eviction, nomination.", "kind"
        )
        self._evicting: frozenset[PodUid] = frozenset()
        """The pods that the last cycle evicts: a cycle that decides the same again evicts no more."""
        self._evictions = self._new_counter(
            "phalanx_evictions_total", "Decided evictions of pods, by the reason of the eviction.", "reason"
        )
        for reason in EvictionReason:
            self._evictions.of(reason.value)
        self._move_plans = self._new_counter(
            "phalanx_move_plans_total",
            "Defragmentation plans by outcome: executed, or proposed in a dry run.",
            "outcome",
        )
        self._moved_pods = self._new_counter(
            "phalanx_moved_pods_total", "Pods of these plans, whether they were moved or not.", "outcome"
        )

    def _declare_queues(self) -> None:
        self._pending_gangs = self._new_gauge(
            "phalanx_pending_gangs", "Waiting gangs, by the reason of their verdict.", "reason"
        )
        self._queue_gangs = self._new_gauge(
            "phalanx_queue_pending_gangs", "Waiting gangs, by queue.", "queue"
        )
        self._queue_pods = self._new_gauge("phalanx_queue_pending_pods", "Waiting pods, by queue.", "queue")
        self._queue_allocated = self._new_gauge(
            "phalanx_queue_allocated",
            "Usage of a queue and its descendants: CPU in millicores, memory in bytes, else counts.",
            "queue",
            "resource",
        )
        self._queue_guarantee = self._new_gauge(
            "phalanx_queue_guarantee",
            "Guarantee of a queue, as far as it can be met; units as in phalanx_queue_allocated.",
            "queue",
            "resource",
        )
        self._queue_share = self._new_gauge(
            "phalanx_queue_fair_share",
            "Fair share of a queue at the start of the cycle; units as in phalanx_queue_allocated.",
            "queue",
            "resource",
        )

    def _declare_faults(self) -> None:
        self._breaker = self._new_gauge(
            "phalanx_breaker_open",
            "1 while so many nodes became unhealthy at once that evictions are stopped.",
        )
        self._faulty_nodes = self._new_gauge(
            "phalanx_faulty_nodes", "Nodes with a fault, by the plugins that judge nodes, in the last cycle."
        )
        self._node_failures = self._new_gauge(
            "phalanx_node_failure_score",
            "Failures attributed to a node, with exponential decay; only nodes that have any.",
            "node",
        )

    def _declare_solver(self) -> None:
        self._solves = self._new_counter(
            "phalanx_solves_total", "Solved placement problems, by solver backend.", "backend"
        )
        self._errors = self._new_counter(
            "phalanx_cycle_errors_total",
            "Solver answers that failed validation, errors of plugins, and errors isolated to one gang.",
        )
        self._inconclusive = self._new_counter(
            "phalanx_solver_inconclusive_total",
            "Problems for which the solver found neither a placement nor a proof that none exists.",
        )

    def cycle_finished(self, result: CycleResult, *, seconds: float) -> None:
        """See CycleReports. Gauges show the values of this cycle only."""
        self._cycle_seconds.observe(seconds)
        self._cycle_number.of().set(result.cycle)
        binds = sum(len(placement.binds) for placement in result.placements)
        self._decisions.of("placement").inc(len(result.placements))
        self._decisions.of("bind").inc(binds)
        evictions = [each for each in result.evictions if each.pod not in self._evicting]
        self._evicting = frozenset(each.pod for each in result.evictions)
        self._decisions.of("eviction").inc(len(evictions))
        self._decisions.of("nomination").inc(len(result.nominations))
        for eviction in evictions:
            self._evictions.of(eviction.reason.value).inc()
        for plan in result.plans:
            outcome = "executed" if plan.is_executed else "proposed"
            self._move_plans.of(outcome).inc()
            self._moved_pods.of(outcome).inc(plan.pods)
        for backend, solves in result.stats.solves.items():
            self._solves.of(backend).inc(solves)
        self._errors.of().inc(len(result.stats.errors))
        self._inconclusive.of().inc(result.stats.inconclusive)
        self._show_pending(result)
        self._show_queues(result)
        self._show_faults(result)

    def _show_faults(self, result: CycleResult) -> None:
        self._breaker.of().set(1 if result.stats.breaker else 0)
        self._faulty_nodes.of().set(result.stats.faulty_nodes)
        scores = sorted(result.stats.failure_scores.items(), key=lambda item: -item[1])
        self._show(self._node_failures, {(node,): score / 1000 for node, score in scores})

    def _show_pending(self, result: CycleResult) -> None:
        # Identities of enum members are counted, since hashing the members takes most of the time.
        counts = CountOf(map(id, map(attrgetter("reason"), result.verdicts)))
        self._pending_gangs.show({(reason.value,): counts[id(reason)] for reason in Reason})

    def _show_queues(self, result: CycleResult) -> None:
        reports = result.queues.items()
        self._show(self._queue_gangs, {(name,): report.pending_gangs for name, report in reports})
        self._show(self._queue_pods, {(name,): report.pending_pods for name, report in reports})
        self._show(self._queue_allocated, _by_resource((name, each.allocated) for name, each in reports))
        self._show(self._queue_guarantee, _by_resource((name, each.guarantee) for name, each in reports))
        self._show(self._queue_share, _by_resource((name, each.fair_share) for name, each in reports))
        self._start_seconds.keep({(OTHER_QUEUES,), *((name,) for name in result.queues)})

    def _show(self, gauges: Gauges, values: Mapping[tuple[str, ...], float]) -> None:
        if gauges.show(values):
            self.limit_hit("METRIC_SERIES_MAX")

    def steps_timed(self, seconds: Mapping[str, float]) -> None:
        """Report how long each step of a cycle took."""
        for step, duration in seconds.items():
            self._step_seconds.of(step).observe(duration)

    # --- starts and the cluster ----------------------------------------------------------------------------

    def _declare_starts(self) -> None:
        self._start_seconds = Family(
            Histogram(
                "phalanx_gang_start_duration_seconds",
                "Time from the creation of a gang until the last pod of its start is bound, by queue.",
                ("queue",),
                buckets=_START_BUCKETS,
                registry=self.registry,
            )
        )
        self._confirmation = Histogram(
            "phalanx_bind_confirmation_seconds",
            "Time from the end of a bind until the watch shows it: how far the cache is behind.",
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def gang_started(self, start: GangStart) -> None:
        """See StartReports. Queues beyond the limit share one histogram."""
        is_known = self._start_seconds.has(start.queue)
        queue = start.queue if is_known or len(self._start_seconds) < _START_CHILDREN_MAX else OTHER_QUEUES
        self._start_seconds.of(queue).observe(max(0, start.bound_ms - start.created_ms) / 1000)

    def bind_confirmed(self, *, seconds: float) -> None:
        """See StartReports."""
        self._confirmation.observe(seconds)

    def _declare_cluster(self) -> None:
        self._figures: Callable[[], ClusterFigures | None] = lambda: None
        build = self._new_gauge("phalanx_build_info", "1; the label has the version of Phalanx.", "version")
        build.of(version("phalanx-scheduler")).set(1)
        self._nodes = self._new_gauge(
            "phalanx_nodes", "Nodes by state: ready, cordoned, not-ready; of the leader.", "state"
        )
        self._allocatable = self._new_gauge(
            "phalanx_cluster_allocatable",
            "Allocatable amount of all nodes; units as in phalanx_queue_allocated.",
            "resource",
        )
        self._free = self._new_gauge(
            "phalanx_cluster_free",
            "Free amount on ready nodes; units as in phalanx_queue_allocated.",
            "resource",
        )
        self._free_whole = self._new_gauge(
            "phalanx_cluster_free_on_empty_nodes",
            "The part of phalanx_cluster_free on nodes of which the whole amount is free.",
            "resource",
        )
        self._waiting = self._new_gauge(
            "phalanx_queue_waiting_gangs",
            "Waiting gangs, by their queue and the reason of their verdict.",
            "queue",
            "reason",
        )
        self._degraded = self._new_gauge(
            "phalanx_queue_degraded_gangs",
            "Gangs that have started and have fewer members than their minimum, by their queue.",
            "queue",
        )

    def follow_cluster(self, figures: Callable[[], ClusterFigures | None]) -> None:
        """Ask for these figures whenever the metrics are read; None leaves them out."""
        self._figures = figures

    def _show_cluster(self) -> None:
        figures = self._figures() or ClusterFigures()
        self._show(self._nodes, _labelled(figures.nodes))
        self._show(self._allocatable, _labelled(figures.allocatable))
        self._show(self._free, _labelled(figures.free))
        self._show(self._free_whole, _labelled(figures.free_on_empty_nodes))
        self._show(self._waiting, figures.waiting)
        self._show(self._degraded, figures.degraded)

    # --- writes --------------------------------------------------------------------------------------------

    def _declare_writes(self) -> None:
        self._binds = self._new_counter(
            "phalanx_binds_total",
            "Finished binds by outcome: bound, refused, aborted, leadership-lost.",
            "outcome",
        )
        for outcome in _BIND_OUTCOMES:  # a series that begins with 1 has no increase in Prometheus
            self._binds.of(outcome)
        self._bind_seconds = Histogram(
            "phalanx_bind_duration_seconds",
            "Time from the first request of a bind until its outcome is known; only binds that were sent.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._bind_retries = self._new_counter(
            "phalanx_bind_retries_total", "Retried binds, by error type.", "error"
        )
        self._writes = self._new_counter(
            "phalanx_background_writes_total",
            "Events, status writes and evictions, by outcome: written, refused, gave-up, fenced, dropped.",
            "type",
            "outcome",
        )
        for write_type, outcome in product(_WRITE_TYPES, _WRITE_OUTCOMES):
            self._writes.of(write_type, outcome)
        self._pending = self._new_gauge(
            "phalanx_writes_pending",
            "Writes that are queued or in flight: bind, eviction, event, status.",
            "type",
        )
        self._limits = self._new_counter(
            "phalanx_limit_hits_total", "Bounds that were reached, by their name in limits.py.", "limit"
        )

    def bind_finished(self, outcome: str, *, seconds: float) -> None:
        """See WriteReports."""
        self._binds.of(outcome).inc()
        if seconds > 0:
            self._bind_seconds.observe(seconds)

    def bind_retried(self, error: str) -> None:
        """See WriteReports."""
        self._bind_retries.of(error).inc()

    def write_finished(self, write_type: str, outcome: str) -> None:
        """See WriteReports."""
        self._writes.of(write_type, outcome).inc()

    def writes_pending(self, write_type: str, count: int) -> None:
        """See WriteReports."""
        self._pending.of(write_type).set(count)

    def limit_hit(self, limit: str) -> None:
        """See LimitReports."""
        self._limits.of(limit).inc()

    # --- watches -------------------------------------------------------------------------------------------

    def _declare_watches(self) -> None:
        self._last_event = self._new_gauge(
            "phalanx_watch_last_event_timestamp_seconds",
            "Time of the last event or bookmark of a kind; more than two minutes ago is a fault.",
            "kind",
        )
        self._watch_failures = self._new_counter(
            "phalanx_watch_failures_total",
            "Failed lists and watches, by kind and error type.",
            "kind",
            "error",
        )
        self._relists = self._new_counter("phalanx_relists_total", "Complete lists, by kind.", "kind")
        self._listed = self._new_gauge(
            "phalanx_listed_objects", "Objects in the last complete list, by kind.", "kind"
        )
        self._unreadable = self._new_counter(
            "phalanx_unreadable_objects_total", "Object versions that could not be decoded, by kind.", "kind"
        )

    def watch_event_received(self, kind: str) -> None:
        """See WatchReports."""
        self._last_event.of(kind).set(self._clock.now_ms() / 1000)

    def watch_failed(self, kind: str, *, error: str) -> None:
        """See WatchReports."""
        self._watch_failures.of(kind, error).inc()

    def relisted(self, kind: str, *, objects: int) -> None:
        """See WatchReports."""
        self._relists.of(kind).inc()
        self._listed.of(kind).set(objects)

    def object_unreadable(self, kind: str) -> None:
        """See WatchReports."""
        self._unreadable.of(kind).inc()

    # --- leader election -----------------------------------------------------------------------------------

    def _declare_lease(self) -> None:
        self._leader = self._new_gauge("phalanx_leader", "1 while this replica leads.")
        self._renewal_delay = Histogram(
            "phalanx_lease_renewal_delay_seconds",
            "Delay of Lease renewals against the plan: a busy event loop or a slow API server.",
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def leadership_changed(self, *, leading: bool) -> None:
        """See LeaseReports."""
        self._leader.of().set(1 if leading else 0)

    def lease_renewed(self, *, delay_s: float) -> None:
        """See LeaseReports."""
        self._renewal_delay.observe(delay_s)

    # --- configuration -------------------------------------------------------------------------------------

    def _declare_config(self) -> None:
        self._config_is_used = self._new_gauge(
            "phalanx_config_last_reload_successful",
            "1 while the configuration file is the configuration in effect, 0 after it was refused.",
        )
        self._config_used_at = self._new_gauge(
            "phalanx_config_last_reload_success_timestamp_seconds",
            "Time when a configuration file was used last, the start of the scheduler included.",
        )
        self.config_read(is_used=True)

    def config_read(self, *, is_used: bool) -> None:
        """See ConfigReports."""
        self._config_is_used.of().set(1 if is_used else 0)
        if is_used:
            self._config_used_at.of().set(self._clock.now_ms() / 1000)

    # --- declaring -----------------------------------------------------------------------------------------

    def _new_counter(self, name: str, text: str, *labels: str) -> Family[Counter]:
        return Family(Counter(name, text, labels, registry=self.registry))

    def _new_gauge(self, name: str, text: str, *labels: str) -> Gauges:
        return Gauges(Gauge(name, text, labels, registry=self.registry))


def _labelled(values: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): value for name, value in values.items()}


def _by_resource(amounts_by_queue: Iterable[tuple[str, Mapping[str, int]]]) -> dict[tuple[str, ...], float]:
    return {
        (queue, resource): amount
        for queue, amounts in amounts_by_queue
        for resource, amount in amounts.items()
    }
