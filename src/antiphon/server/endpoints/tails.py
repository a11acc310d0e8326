"""Streams of stored responses: the rest of their events, from any sequence number on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from antiphon.runs.driver import RunDriver
from antiphon.runs.tail import LogTail, StoreTail, Tail
from antiphon.server.endpoints.context import Context
from antiphon.server.event_stream import HEADERS, EventStream
from antiphon.server.http import HTTPResponse
from antiphon.store.run_log import BEFORE_FIRST

NO_EVENTS = BEFORE_FIRST


async def find_tail(
    context: Context, response_id: str, after: int, *, keep_obfuscation: bool = True
) -> Tail | None:
    """Find the event log of a background response of this client; None if it has none."""
    live, client = context.service.live, context.caller.client
    log = live.find_log(response_id, client)
    if log is not None:
        return LogTail(log, after, keep_obfuscation=keep_obfuscation)
    read = partial(live.store.runs.read_events, response_id, client=client)
    page = await read(after)
    if page is None:
        return None
    watch = partial(live.store.runs.watch, response_id)
    return StoreTail(read, page, after, watch=watch, keep_obfuscation=keep_obfuscation)


def stream_response(
    context: Context, source: RunDriver | Tail, headers: Mapping[str, str]
) -> HTTPResponse:
    """Respond with the events of a source."""
    service, caller = context.service, context.caller
    report = partial(
        service.report_failure, request_id=caller.request_id, received=context.received
    )
    stream = EventStream(source, caller.profile, service.config, report)
    return HTTPResponse(200, {**HEADERS, **headers}, stream)
