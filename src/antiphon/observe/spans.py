"""OpenTelemetry spans of an ended request: the request, its rounds, and the attempts of each.

    request (SERVER, "chat MODEL")  the span of the client is its parent
      round (INTERNAL, "round 1")
        attempt (CLIENT, "chat MODEL")  its id is the `traceparent` that the provider got

Names and attributes follow the semantic conventions for generative AI. Prompts and output are never
part of a span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext as SpanIds
from opentelemetry.trace import SpanKind, Status, StatusCode, TraceFlags

from antiphon.core.response import ResponseUsage
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.report import AttemptReport, RunReport
from antiphon.observe.trace_context import SpanContext
from antiphon.providers.registry import Provider

OPERATION = "chat"
_SCOPE = InstrumentationScope("antiphon")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NS_PER_MS = 1_000_000
_Attributes: TypeAlias = dict[str, str | int | float]

_PROVIDER_NAMES = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Names of providers in the conventions, where they are not the same as here."""


class SpanFactory:
    """Makes the spans of ended requests."""

    def __init__(self, service_name: str, providers: Mapping[str, Provider]) -> None:
        self._resource = Resource.create({"service.name": service_name})
        self._providers: dict[str, _Attributes] = {}
        self.add_providers(providers)

    def add_providers(self, providers: Mapping[str, Provider]) -> None:
        """Know the providers of another configuration; requests of the one before may still end."""
        self._providers |= {name: _describe_provider(each) for name, each in providers.items()}

    def make(self, request: RunReport) -> Iterator[ReadableSpan]:
        """Make all spans of a request; none, if its trace is not sampled."""
        context = request.context
        if isinstance(context, SpanContext) and context.is_sampled:
            yield self._request_span(request, context)
            for number in range(len(request.rounds)):
                yield from self._round_spans(request, context, number)

    def _request_span(self, request: RunReport, context: SpanContext) -> ReadableSpan:
        attributes: _Attributes = {
            **self._target(request.provider, request.requested_model),
            "gen_ai.response.model": request.model,
            "gen_ai.response.id": request.response_id,
            "antiphon.request_id": request.request_id,
            "antiphon.client": request.client,
            "antiphon.format": request.format,
            "antiphon.status": request.status,
            "antiphon.events": request.events,
        }
        if request.usage is not None:
            attributes |= _describe_usage(request.usage)
        if request.first_event_ms is not None:
            attributes["gen_ai.response.time_to_first_chunk"] = request.first_event_ms / 1000
        if request.cost:
            attributes["antiphon.cost_dollars"] = request.cost / DOLLAR
        return self._span(
            request,
            name=f"{OPERATION} {request.requested_model}",
            ids=(context.span_id, context.parent_id),
            kind=SpanKind.SERVER,
            attributes=attributes,
            times=(0.0, request.duration_ms),
            error=request.code or ("failed" if request.is_failed else None),
        )

    def _round_spans(
        self, request: RunReport, context: SpanContext, number: int
    ) -> Iterator[ReadableSpan]:
        """Make the span of a round, and those of its attempts."""
        begins = request.rounds
        end_ms = begins[number + 1] if number + 1 < len(begins) else request.duration_ms
        attempts = [each for each in request.attempts if each.round == number]
        round_id = context.new_span_id()
        yield self._span(
            request,
            name=f"round {number + 1}",
            ids=(round_id, context.span_id),
            kind=SpanKind.INTERNAL,
            attributes={"antiphon.round": number + 1, "antiphon.attempts": len(attempts)},
            times=(begins[number], end_ms),
            error=_find_error(attempts),
        )
        for attempt in attempts:
            yield self._attempt_span(request, attempt, round_id, end_ms)

    def _attempt_span(
        self, request: RunReport, attempt: AttemptReport, round_id: int, round_end_ms: float
    ) -> ReadableSpan:
        attributes: _Attributes = {
            **self._target(attempt.provider, attempt.model),
            "antiphon.attempt": attempt.number,
        }
        if attempt.status is not None:
            attributes["http.response.status_code"] = attempt.status
        if attempt.key_name:
            attributes["antiphon.key"] = attempt.key_name
        begin_ms = max(0.0, attempt.at_ms - attempt.latency_ms)
        return self._span(
            request,
            name=f"{OPERATION} {attempt.model}",
            ids=(attempt.span_id, round_id),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            times=(begin_ms, attempt.at_ms if attempt.fault_type else round_end_ms),
            error=attempt.fault_code or attempt.fault_type,
        )

    def _target(self, provider: str, model: str) -> _Attributes:
        known = self._providers.get(provider, {"gen_ai.provider.name": provider})
        return {"gen_ai.operation.name": OPERATION, "gen_ai.request.model": model, **known}

    def _span(
        self,
        request: RunReport,
        *,
        name: str,
        ids: tuple[int, int | None],
        kind: SpanKind,
        attributes: _Attributes,
        times: tuple[float, float],
        error: str | None,
    ) -> ReadableSpan:
        """Make a span. Times are milliseconds since the request began."""
        context = request.context
        assert isinstance(context, SpanContext)
        span_id, parent_id = ids
        begin_ns, end_ns = (round((request.received_at_ms + at) * _NS_PER_MS) for at in times)
        return ReadableSpan(
            name,
            context=_ids(context, span_id),
            parent=None if parent_id is None else _ids(context, parent_id),
            resource=self._resource,
            attributes=attributes if error is None else {**attributes, "error.type": error},
            kind=kind,
            instrumentation_scope=_SCOPE,
            status=Status(StatusCode.UNSET if error is None else StatusCode.ERROR),
            start_time=begin_ns,
            end_time=max(begin_ns, end_ns),
        )


def _ids(context: SpanContext, span_id: int) -> SpanIds:
    is_remote = span_id == context.parent_id
    return SpanIds(context.trace_id, span_id, is_remote=is_remote, trace_flags=_SAMPLED)


def _find_error(attempts: Sequence[AttemptReport]) -> str | None:
    """Return the fault of a round: that of its last attempt."""
    last = attempts[-1] if attempts else None
    return None if last is None else last.fault_code or last.fault_type


def _describe_usage(usage: ResponseUsage) -> _Attributes:
    details = usage.input_tokens_details
    output = usage.output_tokens_details
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": details.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": details.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": output.reasoning_tokens,
    }


def _describe_provider(provider: Provider) -> _Attributes:
    kind = provider.spec.name
    described: _Attributes = {"gen_ai.provider.name": _PROVIDER_NAMES.get(kind, kind)}
    host, _, port = provider.address.rpartition(":")
    if port.isdigit():  # the built-in provider has no address
        described |= {"server.address": host, "server.port": int(port)}
    return described
