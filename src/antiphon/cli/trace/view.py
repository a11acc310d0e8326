"""Views of a trace: a table of requests, a page for one request, and both as JSON documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.cli.terminal import escape_controls, make_table
from antiphon.cli.usage_view import format_dollars
from antiphon.observe.result import Result, ToolCall, read_result
from antiphon.observe.verdict import Verdict, explain
from antiphon.server.log_output import shorten_id
from antiphon.stages.printable import printable
from antiphon.store.trace.reader import TraceDetail, TraceSummary
from antiphon.store.trace.rows import TraceAttempt, TraceFinish, TraceUsage

_SHOWN_CHUNKS = 12
_PREVIEW_BYTES = 120  # about one line
_SHOWN_TEXT = 600
_STATUS_STYLES = {
    "completed": "green",
    "incomplete": "yellow",
    "cancelled": "yellow",
    "rejected": "red",
    "failed": "bold red",
}


# List of requests


def make_summary_document(summary: TraceSummary) -> dict[str, Any]:
    request = summary.request
    usage = summary.usage
    finish = summary.finish
    return {
        "request_id": request.request_id,
        "response_id": request.response_id,
        "at": _local_time(request.received_at_ms).isoformat(timespec="milliseconds"),
        "client": request.client,
        "software": request.software or None,
        "session": request.session,
        "format": request.format or None,
        "model": request.model,
        "provider": summary.provider,
        "provider_model": summary.provider_model,
        "stream": request.stream,
        "status": _read_status(finish),
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost": usage.cost if usage else None,
        "first_event_ms": finish.first_event_ms if finish else None,
        "duration_ms": finish.duration_ms if finish else None,
        "errors": summary.errors,
        "code": summary.code,
        "message": summary.message,
    }


def make_summary_table(summaries: Sequence[TraceSummary]) -> Table:
    numbers = ("tokens", "duration")
    columns = ("time", "request", "client", "model", "provider", "status", *numbers)
    optional = ("model", "status", "time", "duration", "client", "provider", "tokens")
    why = ["why"] if any(each.code for each in summaries) else []
    table = make_table(*columns, *why, right=numbers, optional=optional, wrapped=why)
    for each in summaries:
        table.add_row(
            Text(_local_time(each.request.received_at_ms).strftime("%m-%d %H:%M:%S"), style="dim"),
            shorten_id(each.request.request_id),
            each.request.client or "-",
            Text(each.request.model or "-", style="bold"),
            each.provider or "-",
            _style_status(_read_status(each.finish)),
            f"{each.usage.input_tokens:,} → {each.usage.output_tokens:,}" if each.usage else "-",
            _format_duration(each.finish.duration_ms) if each.finish else "-",
            *([_format_reason(each)] if why else []),
        )
    return table


def _format_reason(summary: TraceSummary) -> Text:
    """The code of a failure, and below it the first sentence of the message that the client got."""
    sentence, end, _ = (summary.message or "").partition(". ")
    lines = [(summary.code or "", "red"), (sentence + end.strip(), "dim")]
    return Text("\n").join(Text(text, style=style) for text, style in lines if text)


def make_summary_line(summary: TraceSummary, width: int) -> Text:
    """Make one line of a list that grows: fields that do not fit are left out, the last first."""
    usage = summary.usage
    finish = summary.finish
    status = _read_status(finish)
    fields = [
        Text(_local_time(summary.request.received_at_ms).strftime("%H:%M:%S"), style="dim"),
        Text(shorten_id(summary.request.request_id)),
        _style_status(" ".join(filter(None, (status, summary.code))), status),
        Text(summary.request.model, style="bold"),
        Text(_format_duration(finish.duration_ms) if finish else "-"),
        Text(f"{usage.input_tokens:,} → {usage.output_tokens:,}" if usage else "-"),
        Text(summary.provider or "-"),
        Text(summary.request.client or "-", style="dim"),
    ]
    while len(fields) > 2 and sum(field.cell_len + 2 for field in fields) - 2 > width:
        fields.pop()
    return Text("  ").join(fields)


# Details of one request


def make_detail_document(detail: TraceDetail) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(detail)
    for stream, row in zip(document["streams"], detail.streams, strict=True):
        stream.pop("blob", None)
        stream["text"] = row.blob.decode("utf-8", "replace")
    return document


def make_detail_page(detail: TraceDetail) -> RenderableType:
    result = read_detail_result(detail)
    return Group(
        _make_overview(detail),
        *_make_section("why", _format_verdict(explain(detail, result))),
        *_make_section("result", _format_result(result)),
        *_make_section("not tried", _format_skipped(detail)),
        *_make_section("attempts", _format_attempts(detail)),
        *_make_section("MCP servers", _format_server_calls(detail, result)),
        *_make_section("diagnostics", _format_diagnostics(detail)),
        *_make_section("errors", _format_errors(detail)),
        *_make_section("streams", _format_streams(detail)),
    )


def _make_section(title: str, lines: Iterator[RenderableType]) -> Iterator[RenderableType]:
    content = list(lines)
    if content:
        yield Text(f"\n{title}", style="bold")
        yield from content


def _indent(text: Text, mark: str = "") -> RenderableType:
    """Indent a text behind its mark, also where it continues on further lines."""
    grid = Table.grid()
    grid.add_row(f"  {mark}", text)
    return grid


def _make_overview(detail: TraceDetail) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, value in _overview_rows(detail):
        grid.add_row(Text(name, style="dim"), value)
    return grid


def _overview_rows(detail: TraceDetail) -> Iterator[tuple[str, Text | str]]:
    request = detail.request
    if request is not None:
        yield "request", Text(request.request_id, style="bold")
        yield "response", request.response_id or "-"
        yield "time", _local_time(request.received_at_ms).isoformat(" ", timespec="milliseconds")
        yield "client", " · ".join(filter(None, (request.client, request.software))) or "-"
        yield "model", " → ".join(dict.fromkeys((request.model, _format_target(detail))))
        yield "stream", "yes" if request.stream else "no"
    finish = detail.finish
    if finish is not None and finish.key_name:
        name = "last tried" if finish.status == "failed" else "served by"
        yield name, f"{finish.provider} ({finish.dialect}, {finish.key_name})"
    yield "status", _format_finish(finish)
    if detail.usage is not None:
        yield "tokens", _format_usage(detail.usage)
        cost = detail.usage.cost
        yield "cost", "unknown: the model has no price" if cost is None else format_dollars(cost)


def _format_target(detail: TraceDetail) -> str:
    """Return the target that answered; before the end, the first one."""
    request = detail.request
    finish = detail.finish
    if finish is not None and finish.provider:
        return f"{finish.provider}/{finish.provider_model}"
    if request is None or not request.provider:
        return request.model if request else ""
    return f"{request.provider}/{request.provider_model}"


def _format_finish(finish: TraceFinish | None) -> Text:
    text = _style_status(_read_status(finish))
    if finish is not None:
        if finish.http_status is not None:
            text.append(f" with HTTP {finish.http_status}")
        events = _count(finish.events, "event")
        text.append(f" after {_format_duration(finish.duration_ms)}, {events}")
        if finish.finish_reason:
            text.append(f", finish reason {escape_controls(finish.finish_reason)}")
    return text


def _format_usage(usage: TraceUsage) -> str:
    text = (
        f"{usage.input_tokens:,} in ({usage.cached_tokens:,} cached),"
        f" {usage.output_tokens:,} out ({usage.reasoning_tokens:,} reasoning)"
    )
    return text + (", estimated" if usage.estimated else "")


def read_detail_result(detail: TraceDetail) -> Result | None:
    events = next((each for each in detail.streams if each.kind == "transformed"), None)
    return None if events is None else read_result(events.blob)


def _format_verdict(verdict: Verdict | None) -> Iterator[RenderableType]:
    if verdict is not None:
        yield _indent(Text.assemble((verdict.title, "bold red"), (f"  ({verdict.cause})", "dim")))
        for fact in verdict.evidence:
            yield _indent(Text(fact), "- ")
        yield _indent(Text.assemble(("what to do: ", "dim"), verdict.remedy))


def _format_result(result: Result | None) -> Iterator[RenderableType]:
    """The text and the tool calls that the client received."""
    if result is None:
        return
    for text in find_texts(result.items):
        yield _indent(Text(shorten_text(text)))
    for call in result.calls:
        yield _indent(format_call(call))


def find_texts(items: Sequence[Any]) -> Iterator[str]:
    """Return the texts of the messages among output items."""
    for item in items:
        parts = item.get("content") if item.get("type") == "message" else None
        for part in parts or ():
            if text := part.get("text") or part.get("refusal"):
                yield str(text)


def shorten_text(text: str) -> str:
    """The beginning of a text, without control characters: a line of it is as wide as it looks."""
    text = printable(text, keep="\n")
    more = len(text) - _SHOWN_TEXT
    return f"{text[:_SHOWN_TEXT]}… ({more:,} more characters)" if more > 0 else text


def format_call(call: ToolCall) -> Text:
    """A tool call in one line, and why it breaks the schema of its tool."""
    style = {"valid": "green", "invalid": "bold red", "unknown_tool": "bold red"}
    check = f"  {call.check.replace('_', ' ')}"
    problems = "".join(f"\n    {problem}" for problem in call.problems)
    return Text.assemble(
        (call.name, "bold"),
        f" {shorten_text(call.arguments)}",
        (check, style.get(call.check, "dim")),
        (problems, "red"),
    )


def _format_skipped(detail: TraceDetail) -> Iterator[RenderableType]:
    for each in detail.skipped:
        yield _indent(Text.assemble(f"{each.provider}/{each.model}  ", (each.reason, "yellow")))


def _format_server_calls(detail: TraceDetail, result: Result | None) -> Iterator[RenderableType]:
    """The calls of servers; with their arguments, if the trace keeps payloads."""
    items = () if result is None else result.items
    arguments = {item.get("id"): str(item.get("arguments") or "") for item in items}
    for each in detail.server_calls:
        name = f"{each.server}/{each.tool}" if each.tool else f"{each.server}  list of tools"
        size = f"{each.result_bytes:,} {'bytes' if each.tool else 'tools'}"
        line = Text.assemble(
            f"{escape_controls(name)}  {size} after {_format_duration(each.duration_ms)}  ",
            (each.error or "", "red"),
            (f"  {escape_controls(each.reason)}" if each.reason else "", "dim"),
        )
        if given := arguments.get(each.item_id):
            line.append(f"\n{shorten_text(given)}", "dim")
        yield _indent(line)


def _format_attempts(detail: TraceDetail) -> Iterator[RenderableType]:
    for attempt in detail.attempts:
        fault = " · ".join(filter(None, (attempt.fault_type, attempt.fault_code)))
        line = Text.assemble(
            f"{attempt.provider}/{attempt.model}  ",
            f"{attempt.status or 'no response'}",
            f" after {_format_duration(attempt.latency_ms)}  "
            if attempt.latency_ms is not None
            else "  ",
            (fault, "red"),
            (f"  {escape_controls(attempt.reason)}" if attempt.reason else "", "dim"),
        )
        yield _indent(line, f"{attempt.number}. ")
        yield from _format_words(attempt)


def _format_words(attempt: TraceAttempt) -> Iterator[RenderableType]:
    """Format what else a provider said of a failure."""
    words = {
        "type": attempt.upstream_type,
        "code": attempt.upstream_code,
        "param": attempt.upstream_param,
        "request id": attempt.upstream_request_id,
    }
    named = [f"{name} {escape_controls(text)}" for name, text in words.items() if text]
    if named:
        yield _indent(Text(", ".join(named), style="dim"), "   ")
    if attempt.upstream_body:
        yield _indent(Text(escape_controls(attempt.upstream_body), style="dim"), "   ")


def _format_diagnostics(detail: TraceDetail) -> Iterator[RenderableType]:
    for each in detail.diagnostics:
        style = "red" if each.decision == "rejected" else "yellow"
        head = (f"{each.decision} {each.param}", style)
        yield _indent(Text.assemble(head, (f"  {each.code}  ", "dim"), each.message))


def _format_errors(detail: TraceDetail) -> Iterator[RenderableType]:
    for each in detail.errors:
        code = escape_controls(each.code)
        param = escape_controls(each.param or "")
        head = " ".join(filter(None, (code, param)))
        yield _indent(Text.assemble((head, "bold red"), f"  {escape_controls(each.message)}"))
        if each.reason:
            target = (f"{each.provider}/{each.model}: ", "dim")
            yield _indent(Text.assemble(target, escape_controls(each.reason)), "  ")


def _format_streams(detail: TraceDetail) -> Iterator[RenderableType]:
    began_ms = detail.request.received_at_ms if detail.request else 0
    for stream in detail.streams:
        cut = ", truncated" if stream.truncated else ""
        chunks = _count(stream.chunks, "chunk")
        name = f"{stream.kind} of attempt {stream.attempt}" if stream.attempt else stream.kind
        yield Text(f"  {name}: {_count(stream.size, 'byte')} in {chunks}{cut}")
        kept = list(zip(stream.offsets, stream.split_chunks(), strict=True))
        for (offset, _), (at_ms, chunk) in kept[:_SHOWN_CHUNKS]:
            yield _format_chunk(offset, at_ms - began_ms, chunk)
        if (more := len(kept) - _SHOWN_CHUNKS) > 0:
            yield Text(
                f"    … and {more:,} more chunks: --stream {stream.kind} writes all bytes",
                style="dim",
            )


def _format_chunk(offset: int, after_ms: int, chunk: bytes) -> Text:
    preview = " ".join(chunk[:_PREVIEW_BYTES].decode("utf-8", "replace").split())
    line = Text.assemble((f"    {offset:>8} +{after_ms:>6} ms  ", "dim"), preview)
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line


# Values


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _read_status(finish: TraceFinish | None) -> str:
    return finish.status if finish else "running"


def _style_status(text: str, status: str = "") -> Text:
    return Text(text, style=_STATUS_STYLES.get(status or text, "cyan"))


def _local_time(at_ms: int) -> datetime:
    """Convert to the time zone of this machine."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone()


def _format_duration(ms: int) -> str:
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"
