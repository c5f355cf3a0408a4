"""All metrics of the scheduler, in a registry of their own; docs/metrics.md describes them.

To add a metric, declare it in the `_declare_...` method of its subject, set it in the method of the report
that it follows from, and add a line to docs/metrics.md. The values of labels come from closed sets (kinds,
queues, reasons). Children are looked up once, so that a report costs about a microsecond.
"""

from collections import Counter as CountOf
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from phalanx.clock import Clock, SystemClock
from phalanx.model.decisions import CycleResult
from phalanx.model.reasons import Reason

_SYSTEM_CLOCK: Final = SystemClock()

_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds, each about three times the previous one, from a fast bind to a slow cycle."""


M = TypeVar("M", Counter, Gauge)


class _Family(Generic[M]):
    """A metric and its children by their labels; a metric without labels is its own only child."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._children: dict[tuple[str, ...], M] = {(): metric}

    def of(self, *labels: str) -> M:
        """Return the child with these labels."""
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels)
        return child

    def forget(self, labels: tuple[str, ...]) -> None:
        """Remove a child."""
        self._metric.remove(*labels)
        del self._children[labels]


class _Gauges(_Family[Gauge]):
    """A gauge whose children are all set at once."""

    def __init__(self, metric: Gauge) -> None:
        super().__init__(metric)
        self._shown: dict[tuple[str, ...], float] = {}

    def show(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Set these children and remove all others; unchanged values cost nothing."""
        for labels in self._shown.keys() - values.keys():
            self.forget(labels)
        for labels, value in values.items():
            if self._shown.get(labels) != value:
                self.of(*labels).set(value)
        self._shown = dict(values)


class Metrics:
    """Implements the reports of `observe.ports`; `registry` holds the metrics to serve."""

    def __init__(self, clock: Clock = _SYSTEM_CLOCK) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._declare_cycles()
        self._declare_solver()
        self._declare_writes()
        self._declare_watches()
        self._declare_lease()
        self._declare_config()
        ProcessCollector(registry=self.registry)

    # --- cycles --------------------------------------------------------------------------------------------

    def _declare_cycles(self) -> None:
        self._cycle_seconds = Histogram(
            "phalanx_cycle_duration_seconds",
            "Duration of a scheduling cycle.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._cycle_number = self._new_gauge("phalanx_cycle_number", "Number of the last cycle.")
        self._decisions = self._new_counter(
            "phalanx_decisions_total", "Decisions by kind: placement, bind, eviction, nomination.", "kind"
        )
        self._move_plans = self._new_counter(
            "phalanx_move_plans_total",
            "Defragmentation plans by outcome: executed, or proposed in a dry run.",
            "outcome",
        )
        self._moved_pods = self._new_counter(
            "phalanx_moved_pods_total", "Pods of these plans, whether they were moved or not.", "outcome"
        )
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
        self._breaker = self._new_gauge(
            "phalanx_breaker_open",
            "1 while so many nodes became unhealthy at once that evictions are stopped.",
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
        self._decisions.of("eviction").inc(len(result.evictions))
        self._decisions.of("nomination").inc(len(result.nominations))
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
        scores = result.stats.failure_scores
        self._node_failures.show({(node,): score / 1000 for node, score in scores.items()})

    def _show_pending(self, result: CycleResult) -> None:
        # Identities of enum members are counted, since hashing the members takes most of the time.
        counts = CountOf(map(id, map(attrgetter("reason"), result.verdicts)))
        self._pending_gangs.show({(reason.value,): counts[id(reason)] for reason in Reason})

    def _show_queues(self, result: CycleResult) -> None:
        reports = result.queues.items()
        self._queue_gangs.show({(name,): report.pending_gangs for name, report in reports})
        self._queue_pods.show({(name,): report.pending_pods for name, report in reports})
        self._queue_allocated.show(_by_resource((name, report.allocated) for name, report in reports))
        self._queue_guarantee.show(_by_resource((name, report.guarantee) for name, report in reports))
        self._queue_share.show(_by_resource((name, report.fair_share) for name, report in reports))

    # --- writes --------------------------------------------------------------------------------------------

    def _declare_writes(self) -> None:
        self._binds = self._new_counter(
            "phalanx_binds_total",
            "Finished binds by outcome: bound, refused, aborted, leadership-lost.",
            "outcome",
        )
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

    def _new_counter(self, name: str, text: str, *labels: str) -> _Family[Counter]:
        return _Family(Counter(name, text, labels, registry=self.registry))

    def _new_gauge(self, name: str, text: str, *labels: str) -> _Gauges:
        return _Gauges(Gauge(name, text, labels, registry=self.registry))


def _by_resource(amounts_by_queue: Iterable[tuple[str, Mapping[str, int]]]) -> dict[tuple[str, ...], float]:
    return {
        (queue, resource): amount
        for queue, amounts in amounts_by_queue
        for resource, amount in amounts.items()
    }
