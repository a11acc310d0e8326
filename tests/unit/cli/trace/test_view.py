"""Views of a trace: the table, the page of one request, and their JSON documents."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator

import pytest
from rich.console import Console, RenderableType

from antiphon.cli.trace.view import (
    make_detail_document,
    make_detail_page,
    make_summary_document,
    make_summary_table,
)
from antiphon.store.trace.reader import TraceDetail, TraceSummary
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceServerCall,
    TraceSkip,
    TraceUsage,
)
from tests.support.traces import NOW_MS, request, stream

RUNNING = TraceSummary(request=request("req_0123456789abcdef"))
COMPLETED = TraceSummary(
    request=request("req_1", model="gpt-5.5", provider="lab", provider_model="tiny"),
    usage=TraceUsage(request_id="req_1", input_tokens=1200, output_tokens=34),
    finish=TraceFinish(request_id="req_1", status="completed", duration_ms=9_999),
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def render(content: RenderableType) -> list[str]:
    """The lines of the output, with runs of blanks as one."""
    output = io.StringIO()
    Console(file=output, width=100, markup=False, highlight=False).print(content)
    return [" ".join(line.split()) for line in output.getvalue().splitlines() if line.strip()]


def test_a_row_of_the_table_is_a_request_with_status_tokens_and_duration() -> None:
    header, _, running, completed = render(make_summary_table([RUNNING, COMPLETED]))
    assert header == "time request client model provider status tokens duration"
    assert running == "11-14 22:13:20 …89abcdef - m - running - -"
    assert completed == "11-14 22:13:20 …req_1 - gpt-5.5 lab completed 1,200 → 34 9,999 ms"


def test_a_row_of_a_failure_has_its_code_and_the_first_sentence_of_its_message() -> None:
    failed = TraceSummary(
        request=request("req_1"),
        finish=TraceFinish(request_id="req_1", status="rejected", duration_ms=0),
        code="not_found",
        message="No route for POST /v2. This gateway serves POST /v1/responses.",
    )
    header, _, row, *below = render(make_summary_table([failed]))
    assert header.endswith("why")
    assert row.endswith("not_found")
    assert " ".join(below) == "No route for POST /v2."


def test_a_summary_document_has_null_for_values_that_are_not_known_yet() -> None:
    document = make_summary_document(RUNNING)
    assert document["at"] == "2023-11-14T22:13:20.000+00:00"
    assert document["status"] == "running"
    unknown = ("response_id", "client", "input_tokens", "output_tokens", "duration_ms")
    assert [document[name] for name in unknown] == [None] * 5


def test_a_page_without_rows_has_no_empty_sections() -> None:
    assert render(make_detail_page(TraceDetail())) == ["status running"]


def test_a_failed_attempt_and_its_error_are_shown_without_interpreting_markup() -> None:
    detail = TraceDetail(
        request=request("q", model="lab/tiny", provider="lab", provider_model="tiny"),
        attempts=(
            TraceAttempt(
                request_id="q",
                number=1,
                provider="lab",
                model="tiny",
                fault_type="connection",
                fault_code="connection_failed",
            ),
        ),
        errors=(TraceError(request_id="q", code="connection_failed", message="no [red]route"),),
        finish=TraceFinish(request_id="q", status="failed", duration_ms=10_000, events=2),
    )
    lines = render(make_detail_page(detail))
    assert "model lab/tiny" in lines
    assert "stream no" in lines
    assert "status failed after 10.0 s, 2 events" in lines
    assert lines[-4:] == [
        "attempts",
        "1. lab/tiny no response connection · connection_failed",
        "errors",
        "connection_failed no [red]route",
    ]


def test_a_diagnostic_shows_decision_parameter_code_and_message() -> None:
    row = TraceDiagnostic(
        request_id="q", code="param.ignored", decision="ignored", param="top_p", message="No."
    )
    lines = render(make_detail_page(TraceDetail(diagnostics=(row,))))
    assert lines[1:] == ["diagnostics", "ignored top_p param.ignored No."]


def test_a_long_stream_is_shortened_to_its_first_chunks() -> None:
    long = stream("q", b"x" * 40, offsets=[(n, NOW_MS + n) for n in range(40)], truncated=True)
    lines = render(make_detail_page(TraceDetail(request=request("q"), streams=(long,))))
    [head] = [n for n, line in enumerate(lines) if line.startswith("raw: ")]
    assert lines[head].endswith(" chunks, truncated")
    assert lines[head + 1] == "0 + 0 ms x"
    assert lines[head + 12] == "11 + 11 ms x"
    assert lines[head + 13] == "… and 28 more chunks: --stream raw writes all bytes"


def test_a_chunk_is_one_line_even_if_its_bytes_are_not() -> None:
    chunk = b"data: one\n\nid: \xff\n\n" + b"y" * 300
    detail = TraceDetail(
        request=request("q"), streams=(stream("q", chunk, offsets=[(0, NOW_MS + 5)]),)
    )
    line = render(make_detail_page(detail))[-1]
    assert line.startswith("0 + 5 ms data: one id: � yyy")
    assert line.endswith("…")


def test_a_detail_document_has_the_text_of_a_stream_instead_of_its_bytes() -> None:
    document = make_detail_document(TraceDetail(streams=(stream("q", b"a\xffb"),)))
    [shown] = document["streams"]
    assert shown["text"] == "a\ufffdb"
    assert "blob" not in shown


def test_the_page_shows_who_answered_and_who_was_not_tried() -> None:
    detail = TraceDetail(
        request=request("req_1", model="fast", provider="one", provider_model="m"),
        skipped=(
            TraceSkip(request_id="req_1", provider="one", model="m", reason="its breaker is open"),
        ),
        finish=TraceFinish(
            request_id="req_1",
            status="completed",
            duration_ms=5,
            provider="two",
            provider_model="n",
            dialect="gemini",
            key_name="key 2",
        ),
    )
    lines = render(make_detail_page(detail))
    assert "model fast → two/n" in lines
    assert "served by two (gemini, key 2)" in lines
    assert "one/m its breaker is open" in lines
    summary = TraceSummary(request=request("req_1", provider="one"), finish=detail.finish)
    assert make_summary_document(summary)["provider"] == "two"
    assert render(make_summary_table([summary]))[-1].split()[5] == "two"


def test_the_words_of_a_provider_are_shown_and_cannot_control_the_terminal() -> None:
    error = TraceError(
        request_id="req_1",
        code="rejected",
        message="No.",
        param="input",
        reason="red \x1b[31m\nalert",
        provider="up",
        model="m",
    )
    finish = TraceFinish(request_id="req_1", status="rejected", http_status=400, duration_ms=0)
    lines = render(make_detail_page(TraceDetail(errors=(error,), finish=finish)))
    assert "rejected input No." in lines
    assert r"up/m: red \x1b[31m\nalert" in lines
    assert "status rejected with HTTP 400 after 0 ms, 0 events" in lines


def test_a_request_that_failed_names_who_was_tried_last_instead_of_who_answered() -> None:
    finish = TraceFinish(
        request_id="req_1",
        status="failed",
        duration_ms=5,
        events=1,
        provider="two",
        provider_model="n",
        dialect="gemini",
        key_name="key 2",
    )
    lines = render(make_detail_page(TraceDetail(request=request("req_1"), finish=finish)))
    assert "last tried two (gemini, key 2)" in lines
    assert "status failed after 5 ms, 1 event" in lines
    assert not [line for line in lines if line.startswith("served by")]


def test_a_line_that_is_too_long_continues_below_its_text() -> None:
    attempt = TraceAttempt(
        request_id="q",
        number=1,
        provider="lab",
        model="tiny",
        fault_type="connection",
        fault_code="connection_failed",
        reason="the host name cannot be resolved (Name or service not known)",
    )
    error = TraceError(request_id="q", code="connection_failed", message="word " * 12)
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(make_detail_page(TraceDetail(attempts=(attempt,), errors=(error,))))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    at = lines.index("attempts")
    assert lines[at + 1].startswith("  1. lab/tiny")
    assert lines[at + 2].startswith("     ")
    below = lines[lines.index("errors") + 1 :]
    assert below[0].startswith("  connection_failed  word")
    assert [line.startswith("  word") for line in below[1:]] == [True]


def test_the_cost_of_a_request_has_the_digits_of_a_sum() -> None:
    usage = TraceUsage(request_id="q", input_tokens=3, output_tokens=2, cost=0.0)
    assert "cost $0.00" in render(make_detail_page(TraceDetail(usage=usage)))


def test_calls_of_mcp_servers_are_listed() -> None:
    called = {"type": "mcp_call", "id": "mcp_1", "arguments": '{"city": "\x1b[2J"}'}
    response = {"id": "r", "object": "response", "status": "completed", "output": [called]}
    detail = TraceDetail(
        request=request("req_1"),
        server_calls=(
            TraceServerCall(request_id="req_1", server="sky", item_id="mcpl_1", result_bytes=3),
            TraceServerCall(
                request_id="req_1",
                server="sky\x1b[2J",
                tool="weather",
                item_id="mcp_1",
                error="http_error",
                reason="MCP server 'sky' did not send a result in time.",
                result_bytes=1234,
                duration_ms=70,
            ),
        ),
        streams=(stream("req_1", json.dumps(response).encode(), "transformed"),),
    )
    text = "\n".join(render(make_detail_page(detail)))
    assert '{"city": "\\x1b[2J"}' in text
    assert "did not send a result in" in text
    assert "sky list of tools 3 tools after" in text
    assert "/weather 1,234 bytes after" in text
    assert "http_error" in text
    assert "\x1b" not in text
