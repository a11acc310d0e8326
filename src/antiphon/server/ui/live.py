"""Live updates of the page as server-sent events: changed requests, or the state of now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from antiphon.dialects.responses.render import SSEEncoder
from antiphon.server.event_stream import HEADERS
from antiphon.server.http import HTTPResponse, Write
from antiphon.server.ui.now import describe_now
from antiphon.server.ui.page_request import PageRequest
from antiphon.server.ui.requests import read_filter
from antiphon.store.trace.listing import ChangedRequests, RequestRow, list_changed, read_mark

EVERY_S = 1.0
_MAX_ROWS = 200  # at a time; a page that missed some loads its list again
_SILENT_ROUNDS = 15  # rounds without an event before a comment keeps the connection open
_COMMENT = b": keep-alive\n\n"


class LiveRows(Struct, tag_field="type", tag="rows"):
    """Requests that began or changed, of those that the filter lets through."""

    rows: list[RequestRow]
    gone: list[int] = []
    """The `seq` of requests that changed and do not match the filter any more."""
    missed: bool = False
    """There were more: the list must be loaded again."""


class LiveNow(Struct, tag_field="type", tag="now"):
    """The state of the Now view."""

    now: dict[str, Any]


async def stream_changes(request: PageRequest) -> HTTPResponse:
    """`view=now`: a snapshot every second; otherwise the rows of a list as they change."""
    if request.query.choice("view", "requests", ("now", "requests")) == "now":
        poll: Poll = partial(_read_now, request)
    else:
        mark = await request.read_trace(read_mark, 0)
        poll = _ChangedRows(request, mark)
    return HTTPResponse(200, dict(HEADERS), LiveBody(poll, request.process.page.stopping))


async def _read_now(request: PageRequest) -> Struct | None:
    return LiveNow(await describe_now(request))


class _ChangedRows:
    """Reads what changed since it was last called."""

    def __init__(self, request: PageRequest, mark: int) -> None:
        self._request = request
        self._mark = mark

    async def __call__(self) -> Struct | None:
        runtime = self._request.engine.services.runtime
        chosen = read_filter(self._request.query, runtime.now_ms())
        read = partial(list_changed, chosen=chosen, after=self._mark, limit=_MAX_ROWS)
        changed = await self._request.read_trace(read, ChangedRequests(0, [], []))
        self._mark, rows, gone = changed
        missed = max(len(rows), len(gone)) == _MAX_ROWS
        return LiveRows(rows, gone, missed) if rows or gone else None


Poll = Callable[[], Awaitable[Struct | None]]


class LiveBody:
    """A `StreamingBody` of one event a round, if there is anything new."""

    def __init__(self, poll: Poll, stopping: asyncio.Event, every_s: float = EVERY_S) -> None:
        self._poll = poll
        self._stopping = stopping
        self._every_s = every_s
        self._encoder = SSEEncoder()

    async def write_to(self, write: Write) -> None:
        async for data in self:
            await write(data)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield _COMMENT
        silent = 0
        while not self._stopping.is_set():
            event = await self._poll()
            silent = 0 if event is not None else silent + 1
            if event is not None:
                yield self._encoder.feed([event])
            elif silent % _SILENT_ROUNDS == 0:
                yield _COMMENT
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._every_s)

    async def close(self) -> None:
        """Nothing is held between two rounds."""
