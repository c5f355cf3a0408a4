"""Traces reach a real receiver of OTLP over HTTP, and never delay the scheduler."""

import sys
from contextlib import AsyncExitStack

import pytest
from phalanx.cli.exits import BadInput
from phalanx.cli.run import _traces
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import Bind, Certificate, Placement
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.observe import traces as traces_module
from phalanx.observe.ports import GangStart, Wait
from phalanx.observe.traces import Traces, otlp_exporter
from phalanx_simulator.embedded import manifests

from tests.observe.collector import Collector, attributes, receiving
from tests.parsed_config import parse_config
from tests.service.running import NODES, POD_GROUPS, PODS, running


def start(*, created_ms: int = 1_000) -> GangStart:
    binds = tuple(Bind(PodUid(name), "team", name, NodeName("n")) for name in "ab")
    certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="dp")
    placement = Placement(GangId("uid"), "team/train", 7, "start", binds, certificate, "rack", "r1")
    waits = (Wait(2_000, "QueueLimit", "m1"), Wait(5_000, "NoDomainFits", "m2"))
    return GangStart(placement, "q", created_ms, decided_ms=9_000, bound_ms=9_500, waits=waits)


def exported(collector: Collector, *starts: GangStart) -> None:
    traces = Traces(otlp_exporter(collector.url), instance="one")
    for each in starts:
        traces.gang_started(each)
    traces.close()


def test_a_gang_is_one_span_from_its_creation_to_its_last_bind() -> None:
    with receiving() as collector:
        exported(collector, start())
    spans = {(span.name, attributes(span).get("phalanx.reason", "")): span for span in collector.spans()}
    gang = spans["gang start", ""]
    assert (gang.start_time_unix_nano, gang.end_time_unix_nano) == (1_000 * 10**6, 9_500 * 10**6)
    assert attributes(gang) == {
        "k8s.namespace.name": "team",
        "phalanx.gang": "train",
        "phalanx.gang.id": "uid",
        "phalanx.queue": "q",
        "phalanx.pods": 2,
    }
    assert [event.name for event in gang.events] == ["decided", "bound"]
    assert attributes(gang.events[0])["phalanx.domain"] == "r1"
    below = {key: (each.start_time_unix_nano, each.end_time_unix_nano) for key, each in spans.items()}
    assert below["wait", "QueueLimit"] == (2_000 * 10**6, 5_000 * 10**6)
    assert below["wait", "NoDomainFits"] == (5_000 * 10**6, 9_000 * 10**6)
    assert below["bind", ""] == (9_000 * 10**6, 9_500 * 10**6)
    assert len(spans) == 4
    for span in spans.values():
        assert span.trace_id == gang.trace_id
        assert span.parent_span_id == (b"" if span is gang else gang.span_id)
    (resource,) = collector.requests[0].resource_spans
    assert attributes(resource.resource)["service.name"] == "phalanx"


def test_each_gang_has_a_trace_of_its_own_and_no_span_ends_before_it_begins() -> None:
    with receiving() as collector:
        exported(collector, start(), start(created_ms=20_000))
    spans = collector.spans()
    assert len({span.trace_id for span in spans}) == 2
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


def test_a_collector_that_does_not_answer_delays_nothing_and_the_queue_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traces_module, "TRACE_SPANS_WAITING_MAX", 8)
    monkeypatch.setattr(traces_module, "TRACE_BATCH_SPANS", 4)
    with receiving() as collector:
        collector.release.clear()
        traces = Traces(otlp_exporter(collector.url), instance="one")
        for _ in range(100):  # 400 spans: this would not end if one of them waited
            traces.gang_started(start())
        assert collector.requests == []
        collector.release.set()
        traces.close()
    assert 8 <= len(collector.spans()) <= 8 + 4


async def test_a_running_scheduler_exports_the_start_of_a_gang() -> None:
    with receiving() as collector:
        traces = Traces(otlp_exporter(collector.url), instance="one")
        async with running(traces=traces) as world:
            world.create(NODES, manifests.node("n1", gpus=4))
            world.create(POD_GROUPS, manifests.pod_group("train", min_member=2))
            world.create(PODS, *(manifests.pod(f"train-{number}", group="train") for number in range(2)))
            value = world.metrics.registry.get_sample_value
            await world.until(lambda: value("phalanx_queue_pending_gangs", {"queue": "default"}) == 1)
            world.untaint("n1")
            await world.until(lambda: len(world.nodes_of_pods()) == 2)
            started = ("phalanx_gang_start_duration_seconds_count", {"queue": "default"})
            await world.until(lambda: value(*started) == 1)
        traces.close()
    names = [span.name for span in collector.spans()]
    assert names.count("gang start") == names.count("bind") == 1
    assert "wait" in names


def test_without_the_sdk_an_endpoint_is_an_error_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "phalanx.observe.traces")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    config = parse_config("tracing: {endpoint: 'http://collector:4318/v1/traces'}")
    with pytest.raises(BadInput, match=r"phalanx-scheduler\[otel\]"):
        _traces(config, "one", AsyncExitStack())
    assert _traces(SchedulerConfig(), "one", AsyncExitStack()) is None
