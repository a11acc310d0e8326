"""A receiver of OTLP spans over HTTP, in a thread, on a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A span as it arrived. Ids are hexadecimal; a root has an empty parent."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool


@dataclass
class OTLPReceiver:
    """What was received so far."""

    url: str = ""
    status: int = 200
    spans: list[Span] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        self.headers.append(headers)
        for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_read_attributes(batch.resource))
            self.spans += [_read_span(each) for scope in batch.scope_spans for each in scope.spans]


def _read_span(span: Any) -> Span:
    return Span(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes=_read_attributes(span),
        is_error=span.status.code == 2,
    )


def _read_attributes(message: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in message.attributes
    }


@contextmanager
def otlp_receiver(status: int = 200) -> Iterator[OTLPReceiver]:
    """Receive spans; every export is answered with this status."""
    receiver = OTLPReceiver(status=status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            receiver.take(body, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
