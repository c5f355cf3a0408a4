"""Metrics have the reported values."""

import msgspec
import pytest
from phalanx.model.decisions import (
    Bind,
    Certificate,
    CycleResult,
    CycleStats,
    Evict,
    EvictionReason,
    Placement,
    QueueReport,
)
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.reasons import Reason, Verdict
from phalanx.observe import families
from phalanx.observe import metrics as metrics_module
from phalanx.observe.metrics import OTHER_QUEUES, Metrics
from phalanx.observe.ports import ClusterFigures, GangStart
from prometheus_client import generate_latest

from tests.manual_clock import ManualClock


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def result_of_a_cycle(cycle: int, *reasons: Reason) -> CycleResult:
    placement = Placement(
        gang=GangId("g"),
        group="ns/g",
        cycle=cycle,
        cause="start",
        binds=tuple(Bind(PodUid(name), "ns", name, NodeName("n")) for name in "abc"),
        certificate=Certificate(terms=(), objective=(), bound=(), proven=True, by="dp"),
    )
    verdicts = tuple(Verdict(GangId(str(i)), "g", reason, "m") for i, reason in enumerate(reasons))
    queue = QueueReport({"cpu": 1500}, 2, 9, guarantee={"cpu": 900}, fair_share={"cpu": 1200})
    return CycleResult(
        cycle=cycle,
        placements=(placement,),
        verdicts=verdicts,
        queues={f"q{cycle}": queue},
        stats=CycleStats(solves={"dp": 2}),
    )


def test_metrics_of_a_cycle() -> None:
    metrics = Metrics()
    metrics.cycle_finished(result_of_a_cycle(1, Reason.QUEUE_LIMIT, Reason.QUEUE_LIMIT), seconds=0.5)
    assert value(metrics, "phalanx_cycle_duration_seconds_sum") == 0.5
    assert value(metrics, "phalanx_decisions_total", kind="placement") == 1
    assert value(metrics, "phalanx_decisions_total", kind="bind") == 3
    assert value(metrics, "phalanx_solves_total", backend="dp") == 2
    assert value(metrics, "phalanx_pending_gangs", reason="QueueLimit") == 2
    assert value(metrics, "phalanx_queue_allocated", queue="q1", resource="cpu") == 1500
    assert value(metrics, "phalanx_queue_guarantee", queue="q1", resource="cpu") == 900
    assert value(metrics, "phalanx_queue_fair_share", queue="q1", resource="cpu") == 1200
    assert value(metrics, "phalanx_queue_pending_pods", queue="q1") == 9


def test_gauges_of_past_cycles_are_reset() -> None:
    metrics = Metrics()
    metrics.cycle_finished(result_of_a_cycle(1, Reason.QUEUE_LIMIT), seconds=0.1)
    metrics.cycle_finished(result_of_a_cycle(2), seconds=0.1)
    assert value(metrics, "phalanx_pending_gangs", reason="QueueLimit") == 0
    assert value(metrics, "phalanx_queue_pending_gangs", queue="q1") is None
    assert value(metrics, "phalanx_queue_pending_gangs", queue="q2") == 2
    assert value(metrics, "phalanx_decisions_total", kind="bind") == 6


def test_metrics_of_writes() -> None:
    metrics = Metrics()
    metrics.bind_finished("bound", seconds=0.02)
    metrics.bind_finished("aborted", seconds=0.0)
    metrics.bind_retried("ServerError")
    metrics.write_finished("event", "refused")
    metrics.writes_pending("bind", 7)
    metrics.limit_hit("EVENTS_WAITING_MAX")
    assert value(metrics, "phalanx_binds_total", outcome="bound") == 1
    assert value(metrics, "phalanx_binds_total", outcome="aborted") == 1
    assert value(metrics, "phalanx_bind_duration_seconds_count") == 1
    assert value(metrics, "phalanx_bind_retries_total", error="ServerError") == 1
    assert value(metrics, "phalanx_background_writes_total", type="event", outcome="refused") == 1
    assert value(metrics, "phalanx_writes_pending", type="bind") == 7
    assert value(metrics, "phalanx_limit_hits_total", limit="EVENTS_WAITING_MAX") == 1


def test_metrics_of_watches_and_leadership() -> None:
    metrics = Metrics(clock=ManualClock())
    metrics.watch_event_received("Pod")
    metrics.watch_failed("Pod", error="Gone")
    metrics.relisted("Pod", objects=12)
    metrics.object_unreadable("Node")
    metrics.leadership_changed(leading=True)
    metrics.lease_renewed(delay_s=0.004)
    assert value(metrics, "phalanx_watch_last_event_timestamp_seconds", kind="Pod") == 1_700_000_000
    assert value(metrics, "phalanx_watch_failures_total", kind="Pod", error="Gone") == 1
    assert value(metrics, "phalanx_relists_total", kind="Pod") == 1
    assert value(metrics, "phalanx_listed_objects", kind="Pod") == 12
    assert value(metrics, "phalanx_unreadable_objects_total", kind="Node") == 1
    assert value(metrics, "phalanx_leader") == 1
    metrics.leadership_changed(leading=False)
    assert value(metrics, "phalanx_leader") == 0
    assert value(metrics, "phalanx_lease_renewal_delay_seconds_bucket", le="0.01") == 1


def test_two_schedulers_in_one_process_do_not_share_metrics() -> None:
    one, two = Metrics(), Metrics()
    one.bind_finished("bound", seconds=0.1)
    assert value(two, "phalanx_binds_total", outcome="bound") == 0


def test_process_metrics_are_exported() -> None:
    assert b"process_cpu_seconds_total" in generate_latest(Metrics().registry)


def test_node_failure_metrics_are_reset_when_faults_end() -> None:
    metrics = Metrics()
    faults = CycleStats(breaker="6 of 11 nodes turned bad", failure_scores={NodeName("n1"): 1500})
    metrics.cycle_finished(CycleResult(cycle=1, stats=faults), seconds=0.1)
    assert value(metrics, "phalanx_breaker_open") == 1
    assert value(metrics, "phalanx_node_failure_score", node="n1") == 1.5
    metrics.cycle_finished(CycleResult(cycle=2), seconds=0.1)
    assert value(metrics, "phalanx_breaker_open") == 0
    assert value(metrics, "phalanx_node_failure_score", node="n1") is None


def start_in(queue: str, *, seconds: int = 90) -> GangStart:
    placement = result_of_a_cycle(1).placements[0]
    return GangStart(placement, queue, created_ms=1_000, decided_ms=60_000, bound_ms=1_000 + seconds * 1000)


def test_the_time_to_start_is_counted_by_queue_while_the_queue_exists() -> None:
    metrics = Metrics()
    metrics.gang_started(start_in("q1"))
    assert value(metrics, "phalanx_gang_start_duration_seconds_sum", queue="q1") == 90
    assert value(metrics, "phalanx_gang_start_duration_seconds_bucket", queue="q1", le="60.0") == 0
    assert value(metrics, "phalanx_gang_start_duration_seconds_bucket", queue="q1", le="300.0") == 1
    metrics.cycle_finished(result_of_a_cycle(1), seconds=0.1)
    assert value(metrics, "phalanx_gang_start_duration_seconds_count", queue="q1") == 1
    metrics.cycle_finished(result_of_a_cycle(2), seconds=0.1)
    assert value(metrics, "phalanx_gang_start_duration_seconds_count", queue="q1") is None


def test_evictions_are_counted_by_reason_and_begin_with_zero() -> None:
    metrics = Metrics()
    evict = Evict(PodUid("a"), "ns", "a", GangId("g"), 1, EvictionReason.PREEMPTED, "m")
    assert value(metrics, "phalanx_evictions_total", reason="Preempted") == 0
    other = msgspec.structs.replace(evict, pod=PodUid("b"))
    metrics.cycle_finished(CycleResult(cycle=1, evictions=(evict, other)), seconds=0.1)
    assert value(metrics, "phalanx_evictions_total", reason="Preempted") == 2
    assert value(metrics, "phalanx_evictions_total", reason="GangRestarted") == 0


def test_an_eviction_that_the_next_cycle_decides_again_counts_once() -> None:
    metrics = Metrics()
    evict = Evict(PodUid("a"), "ns", "a", GangId("g"), 1, EvictionReason.PREEMPTED, "m")
    for cycle, evictions in enumerate([(evict,), (evict,), (), (evict,)], start=1):
        metrics.cycle_finished(CycleResult(cycle=cycle, evictions=evictions), seconds=0.1)
    assert value(metrics, "phalanx_evictions_total", reason="Preempted") == 2


def test_steps_and_confirmations_are_timed() -> None:
    metrics = Metrics()
    metrics.steps_timed({"snapshot": 0.002, "allocate": 0.5})
    metrics.bind_confirmed(seconds=0.02)
    assert value(metrics, "phalanx_cycle_step_duration_seconds_sum", step="allocate") == 0.5
    assert value(metrics, "phalanx_bind_confirmation_seconds_sum") == 0.02


def test_figures_of_the_cluster_are_computed_when_the_metrics_are_read() -> None:
    metrics, figures = (
        Metrics(),
        [None, ClusterFigures(nodes={"ready": 3}, waiting={("q", "QueueLimit"): 2}, degraded={("q",): 1})],
    )
    asked = iter(figures)
    metrics.follow_cluster(lambda: next(asked))
    assert b"phalanx_nodes{" not in generate_latest(metrics.registry)
    page = generate_latest(metrics.registry)
    assert b'phalanx_nodes{state="ready"} 3.0' in page
    assert b'phalanx_queue_degraded_gangs{queue="q"} 1.0' in page
    assert b'phalanx_queue_waiting_gangs{queue="q",reason="QueueLimit"} 2.0' in page


def series(metrics: Metrics) -> dict[str, int]:
    """Children of each metric: its samples, of a histogram the counts."""
    return {
        family.name: sum(1 for sample in family.samples if not sample.name.endswith(("_bucket", "_created")))
        for family in metrics.registry.collect()
    }


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "METRIC_SERIES_MAX", 3)
    monkeypatch.setattr(metrics_module, "_START_CHILDREN_MAX", 3)
    metrics = Metrics()
    queues = {f"q{number:02}": QueueReport({"cpu": 1, "memory": 2}, 1, 1) for number in range(20)}
    scores = {NodeName(f"n{number:02}"): number for number in range(20)}
    result = CycleResult(cycle=1, queues=queues, stats=CycleStats(failure_scores=scores))
    for name in queues:
        metrics.gang_started(start_in(name))
    metrics.cycle_finished(result, seconds=0.1)
    counts = series(metrics)
    assert counts["phalanx_queue_allocated"] == counts["phalanx_queue_pending_gangs"] == 3
    assert counts["phalanx_node_failure_score"] == 3
    assert value(metrics, "phalanx_node_failure_score", node="n19") == 0.019, "the worst nodes are kept"
    assert value(metrics, "phalanx_gang_start_duration_seconds_count", queue=OTHER_QUEUES) == 17
    assert value(metrics, "phalanx_limit_hits_total", limit="METRIC_SERIES_MAX") == 4
