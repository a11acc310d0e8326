"""Streams of stored responses are found here or in the store, by their owner alone."""

from __future__ import annotations

from antiphon.core.client_profile import OTHER
from antiphon.dialects.responses.render import ResponsesRenderer
from antiphon.engine.services import Caller
from antiphon.runs.tail import LogTail, StoreTail
from antiphon.server.create import find_tail, stream_response
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPRequest
from antiphon.store.run_log import BEFORE_FIRST
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    open_application,
    read_stream,
    use_upstream,
)


def exchange_of(opened: OpenApplication, client: str) -> Exchange:
    process = opened.application.process
    http = HTTPRequest.with_body("GET", "/", {})
    return Exchange(process, process.setup, http, Caller(client, "req_1"))


async def test_a_tail_is_found_in_this_process_then_in_the_store() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(background=True, stream=True)
        [response_id] = opened.application.process.live.runs
        exchange = exchange_of(opened, "local")
        assert isinstance(await find_tail(exchange, response_id, BEFORE_FIRST), LogTail)
        assert await find_tail(exchange_of(opened, "other"), response_id, BEFORE_FIRST) is None
        upstream.gate.set()
        whole = await read_stream(streaming)
        tail = await find_tail(exchange, response_id, BEFORE_FIRST)
        assert isinstance(tail, StoreTail)
        renderer = ResponsesRenderer(OTHER)
        response = stream_response(exchange, tail, renderer, {"antiphon-attached": response_id})
        assert response.headers["antiphon-attached"] == response_id
        assert response.headers["content-type"] == "text/event-stream"
        assert await read_stream(response) == whole
        assert await find_tail(exchange_of(opened, "other"), response_id, BEFORE_FIRST) is None
