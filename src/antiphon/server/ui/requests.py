"""Requests of the page's API: a filtered list in pages, and one request in detail."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.observe.result import read_result
from antiphon.observe.verdict import explain
from antiphon.server.endpoints.query import Query
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest
from antiphon.store.trace.listing import (
    RequestDetail,
    RequestFilter,
    RequestRow,
    find_neighbours,
    list_choices,
    list_summaries,
    read_request,
    read_streams,
)
from antiphon.store.trace.reader import read_detail
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceFinish,
    TraceRequest,
    TraceRow,
    TraceStream,
)

PAGE_ROWS = 50
_MAX_ROWS = 200
_PAUSES_S = (0.3, 0.4, 0.5, 0.0)  # longer than rows wait in the trace's queue
_UNITS = {"m": 60, "h": 3600, "d": 86_400}


async def list_page(request: PageRequest) -> HTTPResponse:
    """One page of the list: a single query, which never reads payloads."""
    query = request.query
    limit = query.integer("limit", PAGE_ROWS, minimum=1, maximum=_MAX_ROWS)
    before = query.integer("before", 0, minimum=0) or None
    chosen = read_filter(query, request.engine.services.runtime.now_ms())
    read = partial(list_summaries, chosen=chosen, limit=limit + 1, before=before)
    rows: list[RequestRow] = await request.read_trace(read, [])
    return json_response(
        {
            "rows": rows[:limit],
            "next": rows[limit - 1].seq if len(rows) > limit else None,
            "traced": request.trace_path is not None,
            "payloads": request.engine.services.tracer.keeps_payloads,
        }
    )


async def show_choices(request: PageRequest) -> HTTPResponse:
    """The clients, models, providers and codes that occur, for the filters."""
    return json_response(await request.read_trace(list_choices, {}))


async def show_request(request: PageRequest) -> HTTPResponse:
    """Everything about one request but its payloads."""
    found = await _find_request(request)
    document = describe_request(found)
    near = await request.read_trace(partial(find_neighbours, request_id=found.request_id), None)
    document["newer"], document["older"] = near or (None, None)
    document["payloads"] = request.engine.services.tracer.keeps_payloads
    document["needs_client_key"] = bool(request.process.setup.config.server.api_keys)
    return json_response(document)


async def _find_request(request: PageRequest) -> RequestDetail:
    """Read the rows of a request. One that has just begun may not be written yet."""
    for pause_s in _PAUSES_S:
        found = await request.read_trace(partial(read_request, id=request.id), None)
        if found is not None:
            return found
        await request.engine.services.runtime.sleep(pause_s)
    raise _unknown(request.id)


async def show_streams(request: PageRequest) -> HTTPResponse:
    """The payloads of one request, chunk by chunk, with the times of their arrival."""
    await _wait_for_end(request)
    read = partial(read_streams, id=request.id)
    streams: list[TraceStream] = await request.read_trace(read, [])
    return json_response({"streams": [_describe_stream(each) for each in streams]})


async def show_result(request: PageRequest) -> HTTPResponse:
    """What the client of one request received, and the verdict if that is a failure or odd. With
    `wait=end` it waits a moment for the end of the request to be written."""
    if request.query.text("wait") == "end":
        await _wait_for_end(request)
    return json_response(await request.read_trace(partial(_explain, id=request.id), {}))


def _explain(path: Path, id: str) -> dict[str, Any]:
    """Read the rows and the events of a request, and judge them. Called in a thread."""
    detail = read_detail(path, id)
    if detail is None:
        return {}
    events = next((each for each in detail.streams if each.kind == "transformed"), None)
    result = read_result(events.blob) if events else None
    return {"result": result, "verdict": explain(detail, result)}


async def _wait_for_end(request: PageRequest) -> None:
    """Wait a moment for the last row of a request: payloads are written with it."""
    for pause_s in _PAUSES_S:
        found = await request.read_trace(partial(read_request, id=request.id), None)
        if found is not None and any(isinstance(row, TraceFinish) for _, row in found.rows):
            return
        await request.engine.services.runtime.sleep(pause_s)


def read_filter(query: Query, now_ms: int) -> RequestFilter:
    """Read the filter of a list from a query string."""
    status = query.text("status") or ""
    return RequestFilter(
        client=query.text("client") or None,
        model=query.text("model") or None,
        provider=query.text("provider") or None,
        status=tuple(filter(None, status.split(","))),
        code=query.text("code") or None,
        session=query.text("session") or None,
        since_ms=read_time(query, "since", now_ms),
        until_ms=read_time(query, "until", now_ms),
    )


def read_time(query: Query, name: str, now_ms: int) -> int | None:
    """Read a time: `15m`, `2h` and `7d` ago, or an ISO date or time, in UTC unless it has a
    zone."""
    text = query.text(name)
    if not text:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return now_ms - int(ago[1]) * _UNITS[ago[2]] * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"`{name}` must be a time such as `15m`, `2h`, `7d`, `2026-03-31` or"
            " `2026-03-31T12:00:00Z`.",
            param=name,
            code="invalid_value",
        ) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)


def describe_request(detail: RequestDetail) -> dict[str, Any]:
    """Rows of a request by kind; times are milliseconds after its arrival."""
    requests = (row for _, row in detail.rows if isinstance(row, TraceRequest))
    first = next(requests, None)
    began = first.received_at_ms if first else detail.rows[0][0]
    document: dict[str, Any] = {"request_id": detail.request_id, "received_at_ms": began}
    for at_ms, row in detail.rows:
        kind = str(row.__struct_config__.tag)
        described = _describe_row(row, at_ms - began)
        if kind in ("request", "usage", "finish"):
            document[kind] = described
        else:
            document.setdefault(f"{kind}s", []).append(described)
    return document


def _describe_row(row: TraceRow, at_ms: int) -> dict[str, Any]:
    described: dict[str, Any] = msgspec.to_builtins(row)
    described.pop("row", None)
    described.pop("request_id", None)
    if isinstance(row, TraceStream):  # its payload is another request
        return {"kind": row.kind, "size": row.size, "chunks": row.chunks}
    described["at_ms"] = at_ms
    if isinstance(row, TraceAttempt):  # recorded when its output began, or when it failed
        described["began_ms"] = max(0, at_ms - (row.latency_ms or 0))
    return described


def _describe_stream(stream: TraceStream) -> dict[str, Any]:
    decoder = getincrementaldecoder("utf-8")("replace")  # a chunk may end within a character
    chunks = [(at_ms, decoder.decode(data)) for at_ms, data in stream.split_chunks()]
    return {
        "kind": stream.kind,
        "size": stream.size,
        "truncated": stream.truncated,
        "kept": bool(stream.blob),
        "whole": stream.kind == "transformed" and stream.blob.startswith(b"{"),
        "chunks": chunks,
    }


def _unknown(id: str) -> InvalidRequest:
    return InvalidRequest(
        f"No request with the id {id[:80]!r} is in the trace: it was not traced, or it is older"
        " than the trace keeps (`max_age_s` and `max_bytes` in [trace]).",
        param="id",
        code="not_found",
        status=404,
    )
