"""A receiver of traces by OTLP over HTTP: it decodes the published protobuf messages, as a collector does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """What was received. Requests wait until `release` is set."""

    def __init__(self) -> None:
        self.url = ""
        self.release = threading.Event()
        self.release.set()
        self.requests: list[ExportTraceServiceRequest] = []

    def spans(self) -> list[Any]:
        """All spans, in the order in which they came."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def take(self, body: bytes) -> bytes:
        """Decode one request, and answer it."""
        self.release.wait(timeout=20)
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        self.requests.append(request)
        return ExportTraceServiceResponse().SerializeToString()


def attributes(span: Any) -> dict[str, Any]:
    """Attributes of a span, an event or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@contextmanager
def receiving() -> Iterator[Collector]:
    """A collector on a free port of loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            answer = collector.take(body) if is_known else b""
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.release.set()
            server.shutdown()
            thread.join()
