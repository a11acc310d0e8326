"""From a request to its response: whole, streamed or in the background, in the client's format.

`prepare_request` is shared by HTTP and WebSocket; what differs is how the events reach the client.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from msgspec import structs

from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import Renderer
from antiphon.engine.run import Run
from antiphon.engine.services import Prepared
from antiphon.runs.attach import AttachedTail, Key, digest_request
from antiphon.runs.background import admit
from antiphon.runs.background_queue import AcceptedRequest
from antiphon.runs.live_run import EventSource
from antiphon.runs.tail import LogTail, StoreTail, Tail
from antiphon.server.errors import shutting_down
from antiphon.server.event_stream import HEADERS, EventStream
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse
from antiphon.server.websocket.recent_turns import RecentTurns
from antiphon.store.chain import build_history, without_truncated_calls
from antiphon.store.conversation import load_items_before
from antiphon.store.run_log import BEFORE_FIRST
from antiphon.store.trace.rows import TraceFinish, TraceRequest


async def create(exchange: Exchange) -> HTTPResponse:
    """Create a response. The endpoint of every client dialect."""
    request = await exchange.read_request()
    attach = exchange.process.attach
    can_attach = exchange.caller.profile.name in attach.profiles and not request.background
    if can_attach and attach.has_waiting and exchange.process.is_ready:
        attached = await _attach(exchange, request)
        if attached is not None:
            return attached
    if request.conversation is None and not request.background:
        prepared = await prepare_request(exchange, request, None)
        return await _generate(exchange, prepared, None, can_attach=can_attach)
    with ExitStack() as held:
        prepared = await prepare_request(exchange, request, held)
        if request.background:
            return await _create_in_background(exchange, prepared, held)
        return await _generate(exchange, prepared, held, can_attach=can_attach)


async def prepare_request(
    exchange: Exchange, request: Request, held: ExitStack | None, turns: RecentTurns | None = None
) -> Prepared:
    """Decide everything about a request; raises `InvalidRequest` if it cannot be served.

    `held` gets the lock of its conversation; None: it has none. `turns` is what the connection of a
    WebSocket remembers: a request may continue it."""
    check_ready(exchange)
    engine = exchange.setup.engine
    caller = exchange.caller
    if request.conversation is not None:
        assert held is not None
        return await exchange.process.conversation_locks.prepare(engine, request, caller, held)
    prepared = await engine.preparer.prepare(request, caller, turns)
    return prepared if turns is None else await _join_history(exchange, prepared, turns)


def check_ready(exchange: Exchange) -> None:
    """Raise `Refused` if new responses are not accepted. Called when the body has arrived, which
    may have taken long."""
    if not exchange.process.is_ready:
        raise shutting_down(exchange.caller)


async def _join_history(exchange: Exchange, prepared: Prepared, turns: RecentTurns) -> Prepared:
    """Have a response that is stored contain the turns before it that are not: its chain must not
    have a gap."""
    request = prepared.request
    client = prepared.caller.client
    parent_id = request.previous_response_id
    if not request.store or parent_id is None or turns.find(parent_id) is None:
        return prepared
    chain = await turns.chain(parent_id, client=client)
    conversations = exchange.services.store.conversations
    before = await load_items_before(conversations, chain[0], client=client)
    history = [*without_truncated_calls(before), *build_history(chain)]
    joined = (*history, *request.input)
    request = structs.replace(request, previous_response_id=None, input=joined)
    return structs.replace(prepared, request=request)


def _generate(
    exchange: Exchange, prepared: Prepared, held: ExitStack | None, *, can_attach: bool
) -> Coroutine[Any, Any, HTTPResponse]:
    """Generate a response while its client waits; its run holds what `held` has."""
    if prepared.request.stream:
        return _stream(exchange, prepared, held, can_attach=can_attach)
    return _create_whole(exchange, prepared, held)


async def _create_whole(
    exchange: Exchange, prepared: Prepared, held: ExitStack | None
) -> HTTPResponse:
    run = Run(exchange.services, prepared)
    if held is not None:
        run.hold(held.pop_all())
    async with run:
        response = await run.response()
        headers = {**run.limit_headers, **exchange.diagnostics_headers(run.diagnostics)}
        return _render_whole(exchange, response, prepared.request, headers)


def _render_whole(
    exchange: Exchange, response: Response, request: Request, headers: Mapping[str, str]
) -> HTTPResponse:
    """Respond with a finished response, in the format of the client."""
    dialect = exchange.dialect
    failure = dialect.failure(response) if response.status == "failed" else None
    if failure is not None:
        return HTTPResponse(failure.status, {**failure.headers, **headers}, failure.body)
    body = dialect.whole(response, request, exchange.caller.profile)
    return HTTPResponse(200, {"content-type": "application/json", **headers}, body)


async def _create_in_background(
    exchange: Exchange, prepared: Prepared, held: ExitStack
) -> HTTPResponse:
    """Accept a response that is generated whether or not its client stays."""
    process = exchange.process
    services = exchange.services
    limits = await admit(services.accounting, exchange.caller, held)
    accepted = AcceptedRequest(services, prepared, held.pop_all())
    if prepared.request.conversation is None:
        response = await process.live.background.submit(accepted)
    else:
        hand_over = process.conversation_locks.hand_over  # also if the client leaves now
        response = await process.live.background.submit(accepted, hand_over)
    headers = {**limits, **exchange.diagnostics_headers(prepared.diagnostics)}
    if not prepared.request.stream:
        return _render_whole(exchange, response, prepared.request, headers)
    tail = await find_tail(exchange, response.id, BEFORE_FIRST)
    assert tail is not None
    renderer = exchange.dialect.renderer(prepared.request, exchange.caller.profile)
    return stream_response(exchange, tail, renderer, headers)


async def _stream(
    exchange: Exchange, prepared: Prepared, held: ExitStack | None, *, can_attach: bool
) -> HTTPResponse:
    services = exchange.setup.engine.services
    if can_attach:
        key = await _make_key(exchange)
        live = exchange.process.attach.create(services, prepared, key)
    else:
        live = exchange.process.live.create(services, prepared)
    run = live.run
    if held is not None:
        run.hold(held.pop_all())
    try:
        await live.open(
            exchange.setup.server.commit_after_s,
            streams_overflow=exchange.dialect.streams_overflow,
        )
        headers = {**run.limit_headers, **exchange.diagnostics_headers(run.diagnostics)}
        renderer = exchange.dialect.renderer(prepared.request, exchange.caller.profile)
        return stream_response(exchange, live, renderer, headers)
    except BaseException:
        await live.leave()
        raise


# Retry-attach: the same request after a lost connection gets the same response


async def _attach(exchange: Exchange, request: Request) -> HTTPResponse | None:
    """Join the run that waits for this request, which may want it whole now; None if there is
    none."""
    waiting = exchange.process.attach.take(await _make_key(exchange))
    if waiting is None:
        return None
    run = waiting.run
    _record_attached(exchange, run)
    headers = {
        "antiphon-attached": run.prepared.response.id,
        **exchange.diagnostics_headers(run.diagnostics),
    }
    tail = AttachedTail(waiting)
    if not request.stream:
        try:
            return _render_whole(exchange, await tail.response(), request, headers)
        finally:
            await tail.leave()
    renderer = exchange.dialect.renderer(run.prepared.request, exchange.caller.profile)
    return stream_response(exchange, tail, renderer, headers)


async def _make_key(exchange: Exchange) -> Key:
    document = exchange.document
    assert document is not None
    digest = partial(digest_request, document)
    made = await exchange.services.worker.run(digest) if exchange.is_large else digest()
    return exchange.caller.client, made


def _record_attached(exchange: Exchange, run: Run) -> None:
    """Record in the trace that a request gets the response of an earlier one."""
    services = exchange.services
    caller = exchange.caller
    facts = {**run.prepared.facts(), "request_id": caller.request_id}
    facts["software"] = caller.profile.software
    services.tracer.record(TraceRequest(received_at_ms=services.runtime.now_ms(), **facts))
    services.tracer.record(
        TraceFinish(request_id=caller.request_id, status="attached", http_status=200, duration_ms=0)
    )


# Streams


async def find_tail(exchange: Exchange, response_id: str, after: int) -> Tail | None:
    """Find the event log of a background response of this client; None if it has none."""
    live = exchange.process.live
    client = exchange.caller.client
    log = live.find_log(response_id, client)
    if log is not None:
        return LogTail(log, after)
    read = partial(live.store.runs.read_events, response_id, client=client)
    page = await read(after)
    if page is None:
        return None
    watch = partial(live.store.runs.watch, response_id)
    return StoreTail(read, page, after, watch=watch)


def stream_response(
    exchange: Exchange, source: EventSource, renderer: Renderer, headers: Mapping[str, str]
) -> HTTPResponse:
    """Respond with the events of a source, in the format of the client."""
    stream = EventStream(source, renderer, exchange.setup.server, exchange.report_failure)
    return HTTPResponse(200, {**HEADERS, **headers}, stream)
