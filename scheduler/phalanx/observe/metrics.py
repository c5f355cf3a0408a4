"""Every metric of the scheduler, in a registry of its own; docs/metrics.md says how to read them.

One object that implements all the ports of this room. Label sets are closed: kinds, queues, reasons.
Each child is looked up once, so that a report costs about a microsecond.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from phalanx.clock import Clock, SystemClock
from phalanx.model.decisions import CycleResult
from phalanx.model.reasons import Reason

_SYSTEM_CLOCK: Final = SystemClock()

_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds; each about three times the one before, from a fast bind to a slow cycle."""


_REASONS: Final[tuple[tuple[str, ...], ...]] = tuple((reason.value,) for reason in Reason)

M = TypeVar("M", Counter, Gauge)


class _Family(Generic[M]):
    """A metric and its children by their labels; without labels it is its own only child."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._children: dict[tuple[str, ...], M] = {(): metric}

    def of(self, *labels: str) -> M:
        """The child of these labels."""
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels)
        return child

    def forget(self, labels: tuple[str, ...]) -> None:
        """A child that is not shown any more."""
        self._metric.remove(*labels)
        del self._children[labels]


class _Gauges(_Family[Gauge]):
    """A gauge whose children are all told at once."""

    def __init__(self, metric: Gauge) -> None:
        super().__init__(metric)
        self._shown: dict[tuple[str, ...], float] = {}

    def show(self, values: Mapping[tuple[str, ...], float]) -> None:
        """These and no others; most of them are what they were."""
        for labels in self._shown.keys() - values.keys():
            self.forget(labels)
        for labels, value in values.items():
            if self._shown.get(labels) != value:
                self.of(*labels).set(value)
        self._shown = dict(values)


class Metrics:
    """Give it to whoever reports; serve `registry`."""

    def __init__(self, clock: Clock = _SYSTEM_CLOCK) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._declare_cycles()
        self._declare_solver()
        self._declare_writes()
        self._declare_watches()
        self._declare_lease()
        ProcessCollector(registry=self.registry)

    # --- what the scheduler decides ------------------------------------------------------------------------

    def _declare_cycles(self) -> None:
        self._cycle_seconds = Histogram(
            "phalanx_cycle_duration_seconds",
            "Time of one scheduling cycle, from the question to the answer.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._cycle_number = self._new_gauge("phalanx_cycle_number", "Number of the last cycle.")
        self._decisions = self._new_counter(
            "phalanx_decisions_total", "Decisions by kind: placement, bind, eviction, nomination.", "kind"
        )
        self._move_plans = self._new_counter(
            "phalanx_move_plans_total",
            "Plans to move gangs so that another one finds room: carried-out, or proposed in a dry run.",
            "what",
        )
        self._moved_pods = self._new_counter(
            "phalanx_moved_pods_total", "Pods of these plans, whether they were moved or not.", "what"
        )
        self._pending_gangs = self._new_gauge(
            "phalanx_pending_gangs", "Gangs that wait, by the dominant reason of their verdict.", "reason"
        )
        self._queue_gangs = self._new_gauge(
            "phalanx_queue_pending_gangs", "Gangs that wait, by queue.", "queue"
        )
        self._queue_pods = self._new_gauge("phalanx_queue_pending_pods", "Pods that wait, by queue.", "queue")
        self._queue_allocated = self._new_gauge(
            "phalanx_queue_allocated",
            "What a queue uses, descendants included: CPU in thousandths, memory in bytes, else counts.",
            "queue",
            "resource",
        )
        self._queue_guarantee = self._new_gauge(
            "phalanx_queue_guarantee",
            "What a queue gets first, as far as that can be kept; units as those of phalanx_queue_allocated.",
            "queue",
            "resource",
        )
        self._queue_share = self._new_gauge(
            "phalanx_queue_fair_share",
            "What a queue was due when the cycle began; units as those of phalanx_queue_allocated.",
            "queue",
            "resource",
        )
        self._breaker = self._new_gauge(
            "phalanx_breaker_open", "1 while so many nodes have turned bad at once that nothing is evicted."
        )
        self._node_failures = self._new_gauge(
            "phalanx_node_failure_score",
            "Failures that a node is to blame for, decayed; only nodes that have any.",
            "node",
        )

    def _declare_solver(self) -> None:
        self._solves = self._new_counter(
            "phalanx_solves_total", "Placement problems solved, by the backend that solved them.", "backend"
        )
        self._defects = self._new_counter(
            "phalanx_solver_errors_total", "Answers of the solver that failed their check and were dropped."
        )
        self._unsettled = self._new_counter(
            "phalanx_solver_inconclusive_total",
            "Questions to which the solver found neither a placement nor a proof that there is none.",
        )

    def cycle_finished(self, result: CycleResult, *, seconds: float) -> None:
        """See CycleReports. Gauges show this cycle: what is not in it any more is gone."""
        self._cycle_seconds.observe(seconds)
        self._cycle_number.of().set(result.cycle)
        binds = sum(len(placement.binds) for placement in result.placements)
        self._decisions.of("placement").inc(len(result.placements))
        self._decisions.of("bind").inc(binds)
        self._decisions.of("eviction").inc(len(result.evictions))
        self._decisions.of("nomination").inc(len(result.nominations))
        for plan in result.plans:
            what = "carried-out" if plan.is_executed else "proposed"
            self._move_plans.of(what).inc()
            self._moved_pods.of(what).inc(plan.pods)
        for backend, solves in result.stats.solves.items():
            self._solves.of(backend).inc(solves)
        self._defects.of().inc(len(result.stats.errors))
        self._unsettled.of().inc(result.stats.inconclusive)
        self._show_pending(result)
        self._show_queues(result)
        self._show_faults(result)

    def _show_faults(self, result: CycleResult) -> None:
        self._breaker.of().set(1 if result.stats.breaker else 0)
        scores = result.stats.failure_scores
        self._node_failures.show({(node,): score / 1000 for node, score in scores.items()})

    def _show_pending(self, result: CycleResult) -> None:
        by_reason = dict.fromkeys(_REASONS, 0)
        for verdict in result.verdicts:
            by_reason[(verdict.reason.value,)] += 1
        self._pending_gangs.show(by_reason)

    def _show_queues(self, result: CycleResult) -> None:
        reports = result.queues.items()
        self._queue_gangs.show({(name,): report.pending_gangs for name, report in reports})
        self._queue_pods.show({(name,): report.pending_pods for name, report in reports})
        self._queue_allocated.show(_by_resource((name, report.allocated) for name, report in reports))
        self._queue_guarantee.show(_by_resource((name, report.guarantee) for name, report in reports))
        self._queue_share.show(_by_resource((name, report.fair_share) for name, report in reports))

    # --- what is written -----------------------------------------------------------------------------------

    def _declare_writes(self) -> None:
        self._binds = self._new_counter(
            "phalanx_binds_total", "Settled binds by outcome: bound, refused, given-back, lost.", "outcome"
        )
        self._bind_seconds = Histogram(
            "phalanx_bind_duration_seconds",
            "Time from the first request of a bind until its outcome is known; only binds that were sent.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._bind_retries = self._new_counter(
            "phalanx_bind_retries_total", "Binds that are tried again, by the kind of failure.", "why"
        )
        self._writes = self._new_counter(
            "phalanx_background_writes_total",
            "Events, status and evictions, by outcome: written, refused, gave-up, fenced, dropped.",
            "what",
            "outcome",
        )
        self._waiting = self._new_gauge(
            "phalanx_writes_pending",
            "Writes that wait or are under way: bind, eviction, event, status.",
            "what",
        )
        self._limits = self._new_counter(
            "phalanx_limit_hits_total", "Bounds that were hit, by their name in limits.py.", "limit"
        )

    def bind_finished(self, outcome: str, *, seconds: float) -> None:
        """See WriteReports."""
        self._binds.of(outcome).inc()
        if seconds > 0:
            self._bind_seconds.observe(seconds)

    def bind_retried(self, why: str) -> None:
        """See WriteReports."""
        self._bind_retries.of(why).inc()

    def written(self, what: str, outcome: str) -> None:
        """See WriteReports."""
        self._writes.of(what, outcome).inc()

    def waiting(self, what: str, count: int) -> None:
        """See WriteReports."""
        self._waiting.of(what).set(count)

    def limit_hit(self, limit: str) -> None:
        """See LimitReports."""
        self._limits.of(limit).inc()

    # --- how well the cluster is seen ----------------------------------------------------------------------

    def _declare_watches(self) -> None:
        self._heard = self._new_gauge(
            "phalanx_watch_last_event_timestamp_seconds",
            "When the last event or bookmark of a kind arrived; older than two minutes is wrong.",
            "kind",
        )
        self._watch_failures = self._new_counter(
            "phalanx_watch_failures_total",
            "Lists and watches that failed, by kind and failure.",
            "kind",
            "why",
        )
        self._relists = self._new_counter("phalanx_relists_total", "Complete lists, by kind.", "kind")
        self._listed = self._new_gauge(
            "phalanx_listed_objects", "Objects in the last complete list, by kind.", "kind"
        )
        self._unreadable = self._new_counter(
            "phalanx_unreadable_objects_total", "Versions of objects that did not decode, by kind.", "kind"
        )

    def watch_event_received(self, kind: str) -> None:
        """See WatchReports."""
        self._heard.of(kind).set(self._clock.now_ms() / 1000)

    def watch_failed(self, kind: str, *, why: str) -> None:
        """See WatchReports."""
        self._watch_failures.of(kind, why).inc()

    def relisted(self, kind: str, *, objects: int) -> None:
        """See WatchReports."""
        self._relists.of(kind).inc()
        self._listed.of(kind).set(objects)

    def object_unreadable(self, kind: str) -> None:
        """See WatchReports."""
        self._unreadable.of(kind).inc()

    # --- leadership ----------------------------------------------------------------------------------------

    def _declare_lease(self) -> None:
        self._leader = self._new_gauge("phalanx_leader", "1 while this replica leads.")
        self._lateness = Histogram(
            "phalanx_lease_renewal_delay_seconds",
            "How much later than planned the Lease was renewed: a busy event loop or a slow API server.",
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def leading(self, yes: bool) -> None:
        """See LeaseReports."""
        self._leader.of().set(1 if yes else 0)

    def lease_renewed(self, *, late_s: float) -> None:
        """See LeaseReports."""
        self._lateness.observe(late_s)

    # --- making and finding --------------------------------------------------------------------------------

    def _new_counter(self, name: str, text: str, *labels: str) -> _Family[Counter]:
        return _Family(Counter(name, text, labels, registry=self.registry))

    def _new_gauge(self, name: str, text: str, *labels: str) -> _Gauges:
        return _Gauges(Gauge(name, text, labels, registry=self.registry))


def _by_resource(told: Iterable[tuple[str, Mapping[str, int]]]) -> dict[tuple[str, ...], float]:
    return {(queue, resource): amount for queue, amounts in told for resource, amount in amounts.items()}
