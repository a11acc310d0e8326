"""Spans of ended requests: names, attributes, parents and times."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanContext as SpanIds
from opentelemetry.trace import SpanKind, StatusCode

from antiphon.engine.fault_report import FaultReport
from antiphon.observe.spans import SpanFactory
from antiphon.observe.trace_context import SpanContext, take_over
from tests.support.outbound_requests import configured
from tests.support.run_reports import attempt_report, run_report

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BEGAN_NS = 1_700_000_000_000 * 1_000_000
KNOWN = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI")}


class Ids:
    """Ids that count up."""

    def __init__(self) -> None:
        self._next = 100

    def __call__(self, size: int) -> bytes:
        self._next += 1
        return self._next.to_bytes(size)


def context(traceparent: str = TRACEPARENT) -> SpanContext:
    return take_over((traceparent, ""), Ids())


def make(**changes: object) -> list[ReadableSpan]:
    factory = SpanFactory("gateway", {"up": configured("openai")})
    return list(factory.make(run_report(**({"context": context()} | changes))))


def parent_of(span: ReadableSpan) -> SpanIds:
    assert span.parent is not None
    return span.parent


def test_a_request_is_a_tree_of_request_round_and_attempt() -> None:
    request, first, attempt = make(attempts=[attempt_report(span_id=7)])
    assert [each.name for each in (request, first, attempt)] == ["chat fast", "round 1", "chat m"]
    kinds = [each.kind for each in (request, first, attempt)]
    assert kinds == [SpanKind.SERVER, SpanKind.INTERNAL, SpanKind.CLIENT]
    assert (parent_of(request).is_remote, parent_of(first).is_remote) == (True, False)
    assert f"{parent_of(request).span_id:016x}" == "00f067aa0ba902b7"
    assert parent_of(first).span_id == request.context.span_id
    assert parent_of(attempt).span_id == first.context.span_id
    assert attempt.context.span_id == 7
    assert {f"{each.context.trace_id:032x}" for each in (request, first, attempt)} == {
        "4bf92f3577b34da6a3ce929d0e0e4736"
    }


def test_attributes_follow_the_conventions() -> None:
    spans = make()
    request, _, attempt = (dict(each.attributes or {}) for each in spans)
    assert (
        request.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "fast",
            "gen_ai.response.model": "m",
            "gen_ai.response.id": "resp_1",
            "gen_ai.usage.input_tokens": 70,
            "gen_ai.usage.output_tokens": 50,
            "gen_ai.usage.cache_read.input_tokens": 20,
            "antiphon.cost_dollars": 2.5,
        }.items()
    )
    assert attempt["gen_ai.provider.name"] == "openai"
    assert (attempt["server.address"], attempt["server.port"]) == ("api.openai.com", 443)
    assert attempt["http.response.status_code"] == 200
    names = {name for each in spans for name in each.attributes or {}}
    assert {name for name in names if name.startswith("gen_ai")} <= KNOWN


def test_a_failed_attempt_ends_when_it_failed_and_an_answer_with_its_round() -> None:
    attempts = [
        attempt_report(at_ms=500.0, latency_ms=400, fault_type="server", fault_code="overloaded"),
        attempt_report(at_ms=900.0, number=2),
        attempt_report(at_ms=2500.0, number=1, round=1),
    ]
    spans = make(
        attempts=attempts,
        rounds=[0.0, 2000.0],
        status="failed",
        failure=FaultReport(code="server_error"),
    )
    ends: dict[str, list[tuple[int, int]]] = {each.name: [] for each in spans}
    for each in spans:
        begin, end = each.start_time or 0, each.end_time or 0
        times = round((begin - BEGAN_NS) / 1e6), round((end - BEGAN_NS) / 1e6)
        ends[each.name].append(times)
    assert ends == {
        "chat fast": [(0, 3000)],
        "round 1": [(0, 2000)],
        "round 2": [(2000, 3000)],
        "chat m": [(100, 500), (800, 2000), (2400, 3000)],
    }
    errors = [dict(each.attributes or {}).get("error.type") for each in spans]
    assert errors == ["server_error", None, "overloaded", None, None, None]
    assert spans[2].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("other", [None, context(TRACEPARENT[:-1] + "0")])
def test_a_request_that_is_not_sampled_has_no_spans(other: SpanContext | None) -> None:
    assert make(context=other) == []


def test_a_provider_that_was_removed_from_the_configuration_keeps_its_name() -> None:
    request = make(provider="gone", usage=None, first_event_ms=None, cost=None, attempts=())[0]
    assert dict(request.attributes or {})["gen_ai.provider.name"] == "gone"
