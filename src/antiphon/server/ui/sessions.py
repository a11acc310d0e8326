"""Sessions of the page's API: a list, and one session as a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.observe.result import read_result
from antiphon.observe.verdict import explain
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.sessions import SessionRow, list_sessions, read_turns

PAGE_ROWS = 50
PAGE_TURNS = 20
_LISTS = ("input", "messages")
_BEFORE = ("instructions", "system")


async def list_page(request: PageRequest) -> HTTPResponse:
    """One page of sessions, those with the latest requests first."""
    before = request.query.integer("before", 0, minimum=0) or None
    read = partial(list_sessions, limit=PAGE_ROWS + 1, before=before)
    rows: list[SessionRow] = await request.read_trace(read, [])
    more = len(rows) > PAGE_ROWS
    following = rows[PAGE_ROWS - 1].last_seq if more else None
    traced = request.trace_path is not None
    return json_response({"rows": rows[:PAGE_ROWS], "next": following, "traced": traced})


async def show_session(request: PageRequest) -> HTTPResponse:
    """The sums of one session, and some of its turns; `after` continues."""
    after = request.query.integer("after", 0, minimum=0)
    read = partial(_read_session, id=request.id, after=after)
    document = await request.read_trace(read, None)
    if document is None:
        raise InvalidRequest(
            f"No request of the session {request.id[:80]!r} is in the trace.",
            param="id",
            code="not_found",
            status=404,
        )
    return json_response(document)


def _read_session(path: Path, id: str, after: int) -> dict[str, Any] | None:
    """Read a session. Called in a thread."""
    found = list_sessions(path, limit=1, id=id)
    if not found:
        return None
    turns = read_turns(path, id, after=after, limit=PAGE_TURNS + 1)
    more = len(turns) > PAGE_TURNS
    return {
        "session": found[0],
        "turns": [
            _describe_turn(request_id, detail, is_first=after == 0 and index == 0)
            for index, (_, request_id, detail) in enumerate(turns[:PAGE_TURNS])
        ],
        "next": turns[PAGE_TURNS - 1][0] if more else None,
    }


def _describe_turn(request_id: str, detail: TraceDetail, *, is_first: bool) -> dict[str, Any]:
    payloads = {stream.kind: stream.blob for stream in detail.streams}
    result = read_result(payloads.get("transformed", b""))
    return {
        "request_id": request_id,
        "request": detail.request,
        "finish": detail.finish,
        "usage": detail.usage,
        "input": _read_input(payloads.get("request", b""), is_first=is_first),
        "result": result,
        "verdict": explain(detail, result),
    }


def _read_input(body: bytes, *, is_first: bool) -> dict[str, Any] | None:
    try:
        document = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    return trim_input(document, is_first=is_first) if isinstance(document, dict) else None


def trim_input(document: Mapping[str, Any], *, is_first: bool) -> dict[str, Any]:
    """Return the input of a request without the turns that it repeats: everything up to the last
    item of the model. That of the first request is whole."""
    names = (*_LISTS, *_BEFORE) if is_first else _LISTS
    kept = {name: document[name] for name in names if name in document}
    for name in _LISTS:
        items = kept.get(name)
        if isinstance(items, list) and not is_first:
            last = max((i for i, each in enumerate(items) if _is_of_model(each)), default=-1)
            kept[name] = items[last + 1 :]
    return kept


def _is_of_model(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    is_call = isinstance(kind, str) and (kind.endswith("_call") or kind == "reasoning")
    return item.get("role") == "assistant" or is_call
