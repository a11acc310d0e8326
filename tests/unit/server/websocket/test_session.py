"""The session: lanes on one connection, its lifetime, pings, and the loss of its client."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, ClassVar

import pytest

from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPRequest
from antiphon.server.websocket.client_frames import binary_frame_error
from antiphon.server.websocket.lanes import LaneLimits
from antiphon.server.websocket.recent_turns import RecentTurns, RememberedBytes
from antiphon.server.websocket.session import Session, SessionLimits
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    echo_config,
    open_application,
    use_upstream,
)
from tests.support.waiting import until
from tests.support.web_sockets import (
    MemorySocket,
    connected,
    create_frame,
    response_id,
    running_session,
)


def was_closed(socket: MemorySocket) -> bool:
    return socket.closed is not None


def make_handshake(opened: OpenApplication, request_id: str = "req_handshake") -> Exchange:
    process = opened.application.process
    http = HTTPRequest.with_body("GET", "/v1/responses", {})
    return Exchange(process, process.setup, http, Caller("local", request_id))


def make_session(opened: OpenApplication, limits: SessionLimits) -> Session:
    return Session(make_handshake(opened), limits)


async def test_two_lanes_are_interleaved_and_each_keeps_its_order() -> None:
    async with open_application() as opened, connected(opened) as socket:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        for text, lane in (("a1", "a"), ("a2", "a"), ("b1", "b")):
            socket.put(create_frame(text, stream_id=lane))
        await until(lambda: upstream.waiting == 2, "both lanes to call the provider")
        upstream.gate.set()
        await until(lambda: socket.ends() == 3, "the end of all responses")
    by_lane = {
        lane: [frame for frame in socket.sent if frame["stream_id"] == lane] for lane in "ab"
    }
    endings = [
        f["response"]["output_text"] for f in by_lane["a"] if f["type"] == "response.completed"
    ]
    assert endings == ["a1", "a2"]
    assert [frame["sequence_number"] for frame in by_lane["b"]] == [*range(len(by_lane["b"]))]
    first_of_b = socket.sent.index(by_lane["b"][0])
    last_of_a = socket.sent.index(by_lane["a"][-1])
    assert first_of_b < last_of_a


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be an object"),
        (b'{"type": "response.create", "stream_id": ""}', "'stream_id' must"),
        (b"{}", "'type'"),
        (binary_frame_error(), "binary"),
    ],
)
async def test_a_frame_that_cannot_be_read_is_an_error(
    message: bytes | InvalidRequest, problem: str
) -> None:
    async with open_application() as opened, connected(opened) as socket:
        (error,) = await socket.turn(message)
        after = await socket.turn(create_frame())
    assert error["status"] == 400
    assert problem in error["error"]["message"]
    assert "stream_id" not in error
    assert after[-1]["type"] == "response.completed"


async def test_an_error_names_its_lane_if_that_can_be_read() -> None:
    async with open_application() as opened, connected(opened) as socket:
        (error,) = await socket.turn({"type": "response.x", "stream_id": "lane"})
    assert error["stream_id"] == "lane"


async def test_a_large_frame_is_decoded_in_pieces() -> None:
    async with open_application() as opened, connected(opened) as socket:
        frames = await socket.turn(create_frame("x" * 100_000))
        (error,) = await socket.turn(json.dumps(create_frame("x" * 40_000))[:-1].encode())
    assert frames[-1]["response"]["output_text"] == "x" * 100_000
    assert error["status"] == 400


async def test_a_connection_that_waits_holds_nothing_of_its_last_frame() -> None:
    async with open_application() as opened, connected(opened) as socket:
        await socket.turn({"type": "response.x"})
        tracemalloc.start()
        try:
            for _ in range(2):
                await socket.turn({"type": "response.x", "input": "a" * 5_000_000})
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 1_000_000


async def test_a_frame_above_a_limit_of_request_bodies_is_a_413() -> None:
    config = echo_config(max_body_values=50)
    async with open_application(config) as opened, connected(opened) as socket:
        (error,) = await socket.turn(create_frame(metadata={str(n): "" for n in range(60)}))
    assert (error["status"], error["error"]["code"]) == (413, "request_too_large")


async def test_steering_is_refused_on_the_lane_of_its_response() -> None:
    async with open_application() as opened, connected(opened) as socket:
        id = response_id(await socket.turn(create_frame(stream_id="a")))
        steer = {"type": "response.steer", "previous_response_id": id, "input": "left"}
        (failed,) = await socket.turn(steer)
    assert failed["error"]["code"] == "steering_not_supported"
    assert failed["stream_id"] == "a"


async def test_a_connection_ends_after_its_time_when_its_responses_are_over() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        limits = SessionLimits(max_duration_s=0.05)
        async with running_session(make_session(opened, limits)) as socket:
            socket.put(create_frame("slow"))
            await until(lambda: upstream.waiting, "the call of the provider")

            frame: dict[str, Any] = {}
            while frame.get("code") != "websocket_connection_limit_reached":
                (answer,) = await socket.turn({"type": "response.create", "stream_id": "late"})
                frame = answer["error"]
            assert not was_closed(socket)
            upstream.gate.set()
            await until(lambda: socket.closed, "the end of the connection")
    completed, envelope = socket.sent[-2:]
    assert completed["response"]["output_text"] == "slow"
    assert envelope["error"]["code"] == "websocket_connection_limit_reached"
    assert envelope["status"] == 400
    assert socket.closed == (1001, "The connection has reached its maximum duration.")


async def test_the_limits_of_lanes_are_errors() -> None:
    async with open_application() as opened:
        limits = SessionLimits(lanes=LaneLimits(max_names=1))
        async with running_session(make_session(opened, limits)) as socket:
            await socket.turn(create_frame(stream_id="a"))
            (error,) = await socket.turn(create_frame(stream_id="b"))
    assert error["error"]["code"] == "websocket_stream_limit_reached"
    assert error["stream_id"] == "b"


def _is_waiting(upstream: GatedUpstream, count: int) -> bool:
    return upstream.waiting == count


async def test_requests_that_wait_are_limited_over_all_connections_of_a_client() -> None:
    """Each connection could have 64 MB of them: a client with many would fill the memory."""
    waiting = create_frame("x" * 10_000_000)
    config = echo_config(commit_after_s=60.0)
    async with open_application(config) as opened, AsyncExitStack() as stack:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        sockets = [await stack.enter_async_context(connected(opened)) for _ in range(8)]
        for count, socket in enumerate(sockets, 1):
            socket.put(create_frame())
            await until(partial(_is_waiting, upstream, count), "the call of the provider")
            socket.put(waiting)
            socket.put({"type": "response.steer"})
            await until(partial(socket.ends, 0), "the answer to the frame after it")
        refusals = [[frame["type"] for frame in socket.sent] for socket in sockets]
        upstream.gate.set()
    assert refusals == [*[["response.steer.failed"]] * 6, *[["error", "response.steer.failed"]] * 2]
    assert sockets[-1].sent[0]["error"]["code"] == "websocket_request_limit_reached"


async def test_pings_keep_a_silent_connection_open() -> None:
    config = echo_config(keepalive_s=0.01)
    async with open_application(config) as opened, connected(opened) as socket:
        await until(lambda: socket.pings > 1, "two pings")
    assert socket.sent == []


async def test_a_client_that_does_not_read_gets_one_ping() -> None:
    config = echo_config(keepalive_s=0.01)
    async with open_application(config) as opened, connected(opened) as socket:
        socket.reads_pings.clear()
        async with connected(opened) as other:  # whose pings show how the time passes
            await until(lambda: other.pings > 3, "pings on another connection")
        assert socket.pings == 1
        socket.reads_pings.set()
        await until(lambda: socket.pings > 1, "the next ping")


async def test_a_client_that_leaves_ends_its_responses() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        async with connected(opened) as socket:
            socket.put(create_frame())
            await until(lambda: upstream.waiting, "the call of the provider")
        assert upstream.waiting == 0
        assert len(opened.engine.active) == 0


async def test_an_idle_connection_is_closed_at_a_shutdown() -> None:
    async with open_application() as opened, connected(opened) as socket:
        await socket.turn(create_frame())
        opened.application.process.stop_accepting()
        await until(lambda: socket.closed, "the end of the connection")
    assert socket.closed == (1001, "The gateway is shutting down.")


class NotedSession(Session):
    """A session that notes when it is stopped."""

    stopped: ClassVar[list[Session]] = []

    def stop(self) -> None:
        self.stopped.append(self)
        super().stop()


async def test_connections_are_closed_in_the_order_in_which_they_were_opened() -> None:
    """In a set of sessions, the order would depend on their addresses in memory."""
    async with open_application() as opened, AsyncExitStack() as stack:
        open_sessions = opened.application.process.websockets.sessions
        sessions = [NotedSession(make_handshake(opened, f"req_{n}")) for n in range(16)]
        for session in sessions:
            await stack.enter_async_context(running_session(session))
        await until(lambda: len(open_sessions) == 16, "all connections")
        opened.application.process.stop_accepting()
    assert NotedSession.stopped == sessions


async def test_a_closed_connection_is_forgotten() -> None:
    async with open_application() as opened:
        open_sessions = opened.application.process.websockets.sessions
        session = Session(make_handshake(opened))
        async with running_session(session) as socket:
            await socket.turn(create_frame())
            assert [*open_sessions] == [session]
        assert not open_sessions


class NotedBytes(RememberedBytes):
    """Remembered bytes that note the latest size of a connection."""

    latest = 0

    def set(self, client: str, turns: RecentTurns, size: int) -> None:
        self.latest = size
        super().set(client, turns, size)


async def test_a_connection_that_is_lost_while_it_closes_forgets_its_turns() -> None:
    """A client closes the WebSocket, and then the connection before its responses have ended."""
    async with open_application() as opened:
        websockets = opened.application.process.websockets
        websockets.remembered = remembered = NotedBytes()
        socket = MemorySocket()
        running = asyncio.ensure_future(Session(make_handshake(opened)).run(socket))
        await socket.turn(create_frame())
        assert remembered.latest > 0
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        socket.put(create_frame())
        await until(lambda: upstream.waiting, "the call of the provider")
        socket.put(None)
        await until(lambda: not websockets.sessions, "the end of the session")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert remembered.latest == 0
