"""Requests of the page's API: a filtered list in pages, and one request in detail."""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from antiphon.errors import InvalidRequest
from antiphon.observe.result import read_result
from antiphon.observe.verdict import explain
from antiphon.server.endpoints.query import Query
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest
from antiphon.store.trace.listing import (
    SORTS,
    RequestDetail,
    RequestFilter,
    RequestRow,
    find_neighbours,
    list_choices,
    list_summaries,
    read_request,
    read_streams,
    sum_requests,
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
MAX_MINUTES = 24 * 60
_MAX_ROWS = 200
_PAUSES_S = (0.3, 0.4, 0.5, 0.0)  # longer than rows wait in the trace's queue
_UNITS = {"m": 60, "h": 3600, "d": 86_400}


async def list_page(request: PageRequest) -> HTTPResponse:
    """One page of the list: a single query, which never reads payloads."""
    query = request.query
    limit = query.integer("limit", PAGE_ROWS, minimum=1, maximum=_MAX_ROWS)
    before = query.integer("before", 0, minimum=0) or None
    sort = query.choice("sort", "", ("", *SORTS)) or None
    offset = query.integer("offset", 0, minimum=0)
    chosen = read_filter(query, request.engine.services.runtime.now_ms())
    read = partial(
        list_summaries, chosen=chosen, limit=limit + 1, before=before, sort=sort, offset=offset
    )
    rows: list[RequestRow] = await request.read_trace(read, [])
    following = offset + limit if sort else rows[limit - 1].seq if len(rows) >= limit else None
    return json_response(
        {
            "rows": rows[:limit],
            "next": following if len(rows) > limit else None,
            "traced": request.trace_path is not None,
            **describe_payloads(request),
        }
    )


async def keep_payloads(request: PageRequest) -> HTTPResponse:
    """Keep the payloads of all requests for some minutes from now, whatever the configuration says;
    0 ends that."""
    minutes = (await request.read_json()).get("minutes")
    if type(minutes) is not int or not 0 <= minutes <= MAX_MINUTES:
        raise InvalidRequest(
            f"`minutes` must be a whole number from 0 to {MAX_MINUTES}.",
            param="minutes",
            code="invalid_value",
        )
    services = request.engine.services
    if services.tracer.store is None:
        raise InvalidRequest(
            "Requests are not traced, so there are no payloads to keep: set `enabled = true` in"
            " [trace].",
            code="not_traced",
            status=409,
        )
    until_ms = services.runtime.now_ms() + minutes * 60_000 if minutes else 0
    await asyncio.to_thread(services.tracer.store.window.set, until_ms)
    return json_response(describe_payloads(request))


def describe_payloads(request: PageRequest) -> dict[str, Any]:
    """Whether payloads are kept, and until when if that is not a setting."""
    tracer = request.engine.services.tracer
    until_ms = tracer.store.window.until_ms if tracer.store else 0
    is_set = tracer.store is not None and tracer.store.options.payloads
    return {
        "payloads": tracer.keeps_payloads,
        "payloads_until_ms": None if is_set else until_ms or None,
    }


async def show_totals(request: PageRequest) -> HTTPResponse:
    """Sums of all requests that a filter lets through."""
    chosen = read_filter(request.query, request.engine.services.runtime.now_ms())
    totals = await request.read_trace(partial(sum_requests, chosen=chosen), None)
    return json_response({"totals": totals})


async def show_choices(request: PageRequest) -> HTTPResponse:
    """The clients, models, providers and codes that occur, for the filters."""
    return json_response(await request.read_trace(list_choices, {}))


async def show_request(request: PageRequest) -> HTTPResponse:
    """Everything about one request but its payloads."""
    found = await _find_request(request)
    document = describe_request(found)
    near = await request.read_trace(partial(find_neighbours, request_id=found.request_id), None)
    document["newer"], document["older"] = near or (None, None)
    document |= describe_payloads(request)
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
    return json_response({"streams": [_describe_stream(each) for each in choose_streams(streams)]})


def choose_streams(streams: list[TraceStream]) -> list[TraceStream]:
    """Return streams with the response as the client got it, in its own format."""
    own = next((each for each in streams if each.kind == "client"), None)
    if own is None:
        return streams
    others = [each for each in streams if each.kind not in ("client", "transformed")]
    return [*others, structs.replace(own, kind="transformed")]


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
    """Read the filter of a list from a query string: its fields, and the search box `q`."""
    searched = parse_search(query.text("q") or "")
    status = searched.fields.get("status") or query.text("status") or ""

    def read(name: str) -> str | None:
        return searched.fields.get(name) or query.text(name) or None

    return RequestFilter(
        client=read("client"),
        model=read("model"),
        provider=read("provider"),
        status=tuple(filter(None, status.split(","))),
        session=read("session"),
        code=read("code"),
        words=searched.words,
        payload=searched.fields.get("text", "").lower() or None,
        min_ms=searched.min_ms,
        max_ms=searched.max_ms,
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


# The search box of a list: words, fields such as `model:fast`, and durations such as `>2s`

SEARCH_FIELDS = ("client", "model", "provider", "status", "code", "session", "text")
"""`text` searches payloads; all others are columns of the list."""
MAX_SEARCH_WORDS = 8

_TOKEN = re.compile(r'(?:(\w+):)?(?:"([^"]*)"|(\S+))')
_DURATION = re.compile(r"([<>])(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)?")
_DURATION_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


class Search(NamedTuple):
    """A search, read."""

    fields: dict[str, str]
    words: tuple[str, ...]
    """In lower case."""
    min_ms: int | None = None
    max_ms: int | None = None


def parse_search(text: str) -> Search:
    """Read a search. Everything that is neither a field nor a duration is a word."""
    fields: dict[str, str] = {}
    words: list[str] = []
    limits: dict[str, int] = {}
    for found in _TOKEN.finditer(text):
        name, quoted, plain = found.groups()
        value = plain if quoted is None else quoted
        duration = _DURATION.fullmatch(found[0])
        if duration is not None:
            sign, number, unit = duration.groups()
            limits[sign] = int(float(number) * _DURATION_UNITS_MS[unit or "s"])
        elif name in SEARCH_FIELDS:
            fields[name] = value
        else:
            words.append((f"{name}:{value}" if name else value).lower())
    return Search(
        fields, tuple(filter(None, words))[:MAX_SEARCH_WORDS], limits.get(">"), limits.get("<")
    )
