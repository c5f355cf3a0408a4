"""Metrics have the reported values."""

from phalanx.model.decisions import Bind, Certificate, CycleResult, CycleStats, Placement, QueueReport
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.reasons import Reason, Verdict
from phalanx.observe.metrics import Metrics
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
    assert value(two, "phalanx_binds_total", outcome="bound") is None


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
