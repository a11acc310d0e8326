"""Export of spans to an OTLP receiver over HTTP, in batches and in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from antiphon.config import Config, OtelConfig
from antiphon.engine.accounting import Accounting, TraceHeaders
from antiphon.engine.report import RunReport, TraceContext
from antiphon.engine.runtime import Runtime
from antiphon.observe.trace_context import take_over
from antiphon.providers.registry import Provider
from antiphon.stages.log import Entry

TIMEOUT_S = 5.0
QUEUE_SPANS = 8192
_LOGGER = "opentelemetry"


class SpanExport(Protocol):
    """Exports the spans of requests until it is closed."""

    def observe(self, ended: Sequence[RunReport]) -> None: ...
    def add_providers(self, providers: Mapping[str, Provider]) -> None: ...
    async def close(self) -> None: ...


def make_context_factory(
    config: Config, runtime: Runtime
) -> Callable[[TraceHeaders], TraceContext] | None:
    """What makes the ids of a request in a distributed trace; None without a receiver of spans."""
    return partial(take_over, new_bytes=runtime.new_nonce) if config.otel.endpoint else None


def start_spans(
    config: Config,
    providers: Mapping[str, Provider],
    accounting: Accounting,
    emit: Callable[[Entry], None],
) -> SpanExport | None:
    """Export spans of all requests from now on, if a receiver is configured."""
    if not config.otel.endpoint:
        return None
    try:
        export = _OTLPExport(config.otel, providers, emit)
    except ImportError as error:
        raise config.error_at(
            ("otel", "endpoint"),
            "spans need the OpenTelemetry SDK, which is not installed: install the packages"
            " opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http into Antiphon's"
            " environment, or remove [otel]",
        ) from error
    accounting.observers.append(export.observe)
    return export


class _OTLPExport:
    def __init__(
        self,
        config: OtelConfig,
        providers: Mapping[str, Provider],
        emit: Callable[[Entry], None],
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from antiphon.observe.spans import SpanFactory

        exporter = OTLPSpanExporter(
            endpoint=config.endpoint.rstrip("/") + "/v1/traces",
            headers=config.headers,
            timeout=TIMEOUT_S,
        )
        self._processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE_SPANS)
        self._factory = SpanFactory(config.service_name, providers)
        self.add_providers = self._factory.add_providers
        self._log = LogForwarder(emit)
        logging.getLogger(_LOGGER).addHandler(self._log)

    def observe(self, ended: Sequence[RunReport]) -> None:
        for request in ended:
            for span in self._factory.make(request):
                self._processor.on_end(span)

    async def close(self) -> None:
        """Send the queued spans, within a few seconds."""
        await asyncio.to_thread(self._processor.shutdown)
        logging.getLogger(_LOGGER).removeHandler(self._log)


class LogForwarder(logging.Handler):
    """Writes what the OpenTelemetry SDK reports to the log of the gateway."""

    def __init__(self, emit: Callable[[Entry], None]) -> None:
        super().__init__(logging.WARNING)
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        self._emit(Entry("spans.export", "warning", {"reason": record.getMessage()}))
