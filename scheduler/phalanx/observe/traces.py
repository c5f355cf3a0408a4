"""Traces of gangs: one span from the creation of a gang until its last pod is bound, sent by OTLP over HTTP.

Below it, there is a span for each reason for which the gang waited, and one for its binds. A thread of the
OpenTelemetry SDK sends the spans. Its queue is bounded, and a span that does not fit replaces the oldest one:
no cycle ever waits for a collector. The SDK is the optional extra `otel`.
"""

import threading
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import pairwise
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, Tracer, set_span_in_context

from phalanx.observe.ports import GangStart

TRACE_SPANS_WAITING_MAX: Final = 8192
"""Spans that wait to be sent: about 1 KB each. The oldest are dropped while a collector does not answer."""

TRACE_BATCH_SPANS: Final = 512
"""Spans of one request to a collector, as in the OpenTelemetry SDK."""

_TRACE_PERIOD_S: Final = 5.0
"""Seconds between two such requests, as in the OpenTelemetry SDK."""

_TRACE_EXPORT_TIMEOUT_S: Final = 5.0
"""Seconds for such a request with its retries."""

_TRACE_STOP_TIMEOUT_S: Final = 3.0
"""Seconds for the last spans at the end of the process, which the Lease has left already."""


Attributes = Mapping[str, str | int | bool]

_NS_PER_MS: Final = 1_000_000


def otlp_exporter(endpoint: str) -> SpanExporter:
    """An exporter to this URL. Headers and certificates come from the OTEL_EXPORTER_OTLP_* variables."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, timeout=_TRACE_EXPORT_TIMEOUT_S)


class Traces:
    """Makes the spans of gangs that have started; implements StartReports."""

    def __init__(self, exporter: SpanExporter, *, instance: str) -> None:
        """`instance`: the name of this replica."""
        self._processor = BatchSpanProcessor(
            exporter,
            max_queue_size=TRACE_SPANS_WAITING_MAX,
            schedule_delay_millis=_TRACE_PERIOD_S * 1000,
            max_export_batch_size=TRACE_BATCH_SPANS,
        )
        service = {
            "service.name": "phalanx",
            "service.version": version("phalanx-scheduler"),
            "service.instance.id": instance,
        }
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource(service),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer: Tracer = provider.get_tracer("phalanx")

    def gang_started(self, start: GangStart) -> None:
        """See StartReports. The spans are only put into the queue."""
        gang = self._tracer.start_span(
            "gang start",
            context=Context(),
            start_time=_ns(_begin(start)),
            attributes=_attributes_of(start),
        )
        gang.add_event("decided", _decision_of(start), timestamp=_ns(start.decided_ms))
        gang.add_event("bound", timestamp=_ns(start.bound_ms))
        for name, attributes, (since, until) in _parts(start):
            self._tracer.start_span(
                name, context=_below(gang), start_time=_ns(since), attributes=attributes
            ).end(_ns(until))
        gang.end(_ns(start.bound_ms))

    def bind_confirmed(self, *, seconds: float) -> None:
        """See StartReports. Traces do not show it."""

    def close(self) -> None:
        """Send what is queued, for a short time: the SDK itself would try for half a minute."""
        last = threading.Thread(target=self._processor.shutdown, name="last traces", daemon=True)
        last.start()
        last.join(_TRACE_STOP_TIMEOUT_S)


def _parts(start: GangStart) -> Iterable[tuple[str, Attributes, tuple[int, int]]]:
    """Name, attributes, begin and end of each span below the span of the gang."""
    begin = _begin(start)
    times = [max(begin, wait.since_ms) for wait in start.waits]
    spans = pairwise([*times, max(begin, start.decided_ms)])
    for wait, span in zip(start.waits, spans, strict=True):
        yield "wait", {"phalanx.reason": wait.reason, "phalanx.message": wait.message}, span
    pods = len(start.placement.binds)
    yield "bind", {"phalanx.pods": pods}, (max(begin, start.decided_ms), start.bound_ms)


def _begin(start: GangStart) -> int:
    """The clock of the API server may be ahead of ours: no span ends before it begins."""
    return min(start.created_ms, start.bound_ms)


def _attributes_of(start: GangStart) -> Attributes:
    namespace, _, name = start.placement.group.partition("/")
    return {
        "k8s.namespace.name": namespace,
        "phalanx.gang": name,
        "phalanx.gang.id": start.placement.gang,
        "phalanx.queue": start.queue,
        "phalanx.pods": len(start.placement.binds),
    }


def _decision_of(start: GangStart) -> Attributes:
    placement = start.placement
    return {
        "phalanx.cycle": placement.cycle,
        "phalanx.nodes": len({bind.node for bind in placement.binds}),
        "phalanx.level": placement.level,
        "phalanx.domain": placement.domain,
        "phalanx.solver": placement.certificate.by,
        "phalanx.is_proven": placement.certificate.proven,
    }


def _below(span: Span) -> Context:
    return set_span_in_context(span, Context())


def _ns(ms: int) -> int:
    return ms * _NS_PER_MS
