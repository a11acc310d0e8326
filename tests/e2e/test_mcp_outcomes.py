"""MCP servers of every kind behind the whole gateway, over HTTP: each ends in a well-formed
response with one terminal event, within bounded time and memory, and says why."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from antiphon.config import McpConfig
from antiphon.store.trace.reader import TraceDetail
from tests.support.client_answers import Answer
from tests.support.mcp.event_servers import EventServer, event, event_server
from tests.support.mcp.raw_servers import RawServer, Request, http, raw_server, result, session_of
from tests.support.mcp.sessions import configure
from tests.support.mcp.tools_server import ToolsServer, Transport, serve_tools
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.rounds import (
    call_delta,
    output_text,
    round_script,
    rounds_gateway,
    streamed_and_whole,
    text_delta,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.traces import read_trace
from tests.support.upstream import Connection, ReceivedRequest, Script

Document = dict[str, Any]
TESTS: Document = {"type": "mcp", "server_label": "tests", "require_approval": "never"}
ANSWER = round_script(text_delta("Done."))
transports = pytest.mark.parametrize("transport", ["streamable", "sse"])


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP  # as the gateway runs


def call(tool: str, arguments: str = "{}") -> Script:
    return round_script(call_delta(("call_1", f"tests__{tool}", arguments)))


@dataclass
class Seen:
    """What the client, the model and the operator have of one response."""

    answer: Answer
    trace: TraceDetail
    log: list[tuple[str, Document]]
    bodies: list[Document]

    @property
    def called(self) -> Document:
        """The call of the response; it is the same for all who see it."""
        output: list[Document] = self.answer.response["output"]
        [item] = [each for each in output if each["type"] == "mcp_call"]
        error = item["error"] or {}
        assert item["status"] == ("failed" if error else "completed")
        row = self.trace.server_calls[-1]
        assert (row.item_id, row.error) == (item["id"], error.get("type"))
        if "message" in error:  # the server failed, and not its tool
            assert row.reason == error["message"]
            assert [facts["reason"] for name, facts in self.log if name == "mcp.call_failed"] == [
                row.reason
            ]
        return item


async def respond(
    tmp_path: Path, mcp: McpConfig, *rounds: Script, stream: bool, **body: Any
) -> Seen:
    """Have the gateway make one response; nothing of it is left when the gateway is closed."""
    async with rounds_gateway(tmp_path, *rounds, mcp=mcp) as setup:
        answer = await setup.post_request(stream=stream, tools=[TESTS], **body)
        closing = setup.gateway.engine.services.closing
        log = [(entry.event, dict(entry.facts)) for entry in setup.gateway.log]
        bodies = setup.request_bodies
    assert len(closing) == 0
    assert [task for task in asyncio.all_tasks() if task.get_name() == "mcp session"] == []
    if stream:
        check_with_sdk(answer.events)
    trace = read_trace(setup.trace, answer.headers["x-request-id"])
    return Seen(answer, trace, log, bodies)


def check_continued(seen: Seen) -> Document:
    """The model has read the outcome of the call and ended the response; returns the call."""
    assert seen.answer.response["status"] == "completed"
    assert output_text(seen.answer.response) == "Done."
    assert seen.trace.finish is not None
    assert seen.trace.finish.status == "completed"
    called = seen.called
    error = called["error"] or {}
    texts = [part["text"] for part in error.get("content", [])]
    told = seen.bodies[1]["messages"][2]["content"]
    assert (called["output"] or error.get("message") or texts[0]) in told
    return called


# --- a server that works --------------------------------------------------------------------------

SHORT = {"idle_timeout_s": 1.5}
SMALL = {"max_result_bytes": 10_000, "max_list_bytes": 10_000}
RESULTS: dict[str, tuple[str, str, Document, str]] = {
    "text": ("greet", '{"name": "Ann"}', {}, "Hello Ann"),
    "image": ("picture", "{}", {}, "[image: image/png]"),
    "resource": ("document", "{}", {}, "Two files:\n[resource file:///a.txt]\ninside\n"),
    "structured": ("weather", "{}", {}, '"degrees": 21'),
    "progress": ("work", '{"steps": 3, "pause_s": 0.8}', {"idle_timeout_s": 1.6}, "3 steps"),
    "cut": ("large", '{"size": 15000}', SMALL, "x" * 10_000),
}


@streamed_and_whole
@transports
@pytest.mark.parametrize("kind", RESULTS)
async def test_a_result_of_this_kind_is_the_output(
    tmp_path: Path, transport: Transport, stream: bool, kind: str
) -> None:
    tool, arguments, limits, output = RESULTS[kind]
    with serve_tools(transport) as server:
        mcp = configure(server.url, **limits)
        seen = await respond(tmp_path, mcp, call(tool, arguments), ANSWER, stream=stream)
    called = check_continued(seen)
    assert called["error"] is None
    assert output in called["output"]
    codes = [each.code for each in seen.trace.diagnostics]
    assert codes == (["mcp.result_cut"] if kind == "cut" else [])


ERRORS: dict[str, tuple[str, str, Document, str, str]] = {
    "error": ("broken", "{}", {}, "mcp_tool_execution_error", "There is no such city."),
    "slow": ("wait", "{}", SHORT, "http_error", "did not send a result in time."),
    "large": ("large", '{"size": 3000000}', SMALL, "http_error", "sent more than 105,536 bytes."),
}


@streamed_and_whole
@transports
@pytest.mark.parametrize("kind", ERRORS)
async def test_a_call_that_fails_is_an_error_that_the_model_reads(
    tmp_path: Path, transport: Transport, stream: bool, kind: str
) -> None:
    tool, arguments, limits, error, message = ERRORS[kind]
    with serve_tools(transport) as server:
        mcp = configure(server.url, **limits)
        seen = await respond(tmp_path, mcp, call(tool, arguments), ANSWER, stream=stream)
        if tool == "wait":
            assert await asyncio.to_thread(server.cancelled.wait, 5)
    called = check_continued(seen)
    assert called["error"]["type"] == error
    assert message in str(called["error"])


@streamed_and_whole
async def test_a_list_that_changes_is_read_again_in_the_next_thread(
    tmp_path: Path, stream: bool
) -> None:
    state = ToolsServer(is_legacy=True)
    with serve_tools(state=state) as server:
        rounds = [call("grow"), ANSWER, ANSWER, ANSWER]
        async with rounds_gateway(tmp_path, *rounds, mcp=configure(server.url)) as setup:
            grown = await setup.post_request(stream=stream, tools=[TESTS])
            again = await setup.post_request(stream=stream, tools=[TESTS])
            same = await setup.post_request(
                stream=stream, tools=[TESTS], previous_response_id=grown.response["id"]
            )
            before, after, kept = (setup.request_bodies[number]["tools"] for number in (0, 2, 3))
    assert (
        len(again.response["output"][0]["tools"]) == len(grown.response["output"][0]["tools"]) + 1
    )
    assert len(after) == len(before) + 1
    assert kept == before  # the thread has its list
    assert [item["type"] for item in same.response["output"]] == ["message"]


def losing(state: ToolsServer, script: Script) -> Script:
    """The script of a model, while which the server loses its sessions."""

    async def lose(request: ReceivedRequest, connection: Connection) -> None:
        state.lose_sessions()
        await script(request, connection)

    return lose


@streamed_and_whole
async def test_a_session_that_is_lost_is_opened_once_more(tmp_path: Path, stream: bool) -> None:
    state = ToolsServer(is_legacy=True)
    with serve_tools(state=state) as server:
        asked = losing(state, call("greet", '{"name": "Ann"}'))
        seen = await respond(tmp_path, configure(server.url), asked, ANSWER, stream=stream)
    assert check_continued(seen)["output"] == "Hello Ann"
    assert state.count("initialize") == 2


@streamed_and_whole
async def test_a_session_that_is_lost_again_is_an_error(tmp_path: Path, stream: bool) -> None:
    state = ToolsServer(is_legacy=True)
    state.loses_all = True
    with serve_tools(state=state) as server:
        asked = call("greet", '{"name": "Ann"}')
        seen = await respond(tmp_path, configure(server.url), asked, ANSWER, stream=stream)
    error = check_continued(seen)["error"]
    assert (error["type"], error["code"]) == ("http_error", 404)
    assert state.count("initialize") == 2


# --- a server that does not -----------------------------------------------------------------------

Opened: TypeAlias = AbstractAsyncContextManager[RawServer | EventServer]
LISTED = {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}
LIMITS: Document = {
    "connect_timeout_s": 2.0,
    "idle_timeout_s": 0.6,
    "max_result_bytes": 100_000,
    "max_list_bytes": 100_000,
}
_LENGTH = 200_000_000
_BLOCK = b" " * 100_000


def flood(head: bytes = b"") -> Iterator[bytes]:
    """200 MB."""
    yield head
    for _ in range(_LENGTH // len(_BLOCK)):
        yield _BLOCK


def raw_flood() -> Iterator[bytes]:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {_LENGTH}\r\n\r\n"
    return flood(head.encode())


BROKEN_OFF = [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"]
RAW: dict[str, Callable[[], Iterable[bytes] | None]] = {
    "401": lambda: http(401),
    "500": lambda: http(500),
    "nonsense": lambda: http(200, b"nonsense"),
    "page": lambda: http(200, b"<html>Sign in</html>", "text/html"),
    "no http": lambda: [b"nonsense\r\n\r\n"],
    "200 MB": raw_flood,
    "never": lambda: None,
    "broken off": lambda: BROKEN_OFF,
}
"""What a server of Streamable HTTP sends instead of what it should."""


def raw_failing_at(reply: Callable[[], Iterable[bytes] | None], step: str) -> Opened:
    def handle(request: Request) -> Iterable[bytes] | None:
        if step == "open":
            return reply()
        return session_of(serve)(request)

    def serve(request: Request) -> Iterable[bytes] | None:
        if request.message["method"] == "tools/list" and step == "call":
            return result(request, LISTED)
        return reply()

    return raw_server(handle)


EVENTS: dict[str, Callable[[], Iterable[bytes] | int | None]] = {
    "401": lambda: 401,
    "nonsense": lambda: [b"event: message\ndata: nonsense\n\n"],
    "200 MB": lambda: flood(b"data: "),
    "never": lambda: None,
    "ends": lambda: [b""],
}
"""What a server of the older transport does instead of sending a reply."""


def events_failing_at(reply: Callable[[], Iterable[bytes] | int | None], step: str) -> Opened:
    def serve(message: Document) -> Iterable[bytes] | int | None:
        if message["method"] == "tools/list" and step == "call":
            return event(message, LISTED)
        return reply()

    return event_server(serve, opens=step != "open")


WAYS: dict[str, Callable[[str], Opened]] = {
    **{f"streamable {kind}": partial(raw_failing_at, reply) for kind, reply in RAW.items()},
    **{f"sse {kind}": partial(events_failing_at, reply) for kind, reply in EVENTS.items()},
}


def check_reason(text: str) -> None:
    assert "MCP server 'tests' " in text
    assert "nonsense" not in text  # no words of the server


@streamed_and_whole
@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_fails_during_a_call(tmp_path: Path, stream: bool, way: str) -> None:
    async with WAYS[way]("call") as server:
        mcp = configure(server.url, **LIMITS)
        seen = await respond(tmp_path, mcp, call("go"), ANSWER, stream=stream)
        assert server.sent < 20_000_000
    called = check_continued(seen)
    assert called["error"]["type"] in ("http_error", "mcp_protocol_error")
    check_reason(called["error"]["message"])


@streamed_and_whole
@pytest.mark.parametrize("step", ["open", "list"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_fails_before_the_model_is_asked(
    tmp_path: Path, stream: bool, way: str, step: str
) -> None:
    async with WAYS[way](step) as server:
        seen = await respond(tmp_path, configure(server.url, **LIMITS), stream=stream)
        assert server.sent < 20_000_000
    answer = seen.answer
    assert answer.status == (200 if stream else 424)
    assert "The MCP server 'tests' did not list its tools" in answer.error["message"]
    check_reason(answer.error["message"])
    if stream:
        [item] = answer.response["output"]
        assert item["error"].removesuffix(".") in answer.error["message"]
        assert answer.events[-1]["type"] == "response.failed"
    [row] = seen.trace.server_calls
    assert row.error in ("http_error", "mcp_protocol_error")
    check_reason(row.reason or "")
    assert seen.trace.finish is not None
    assert seen.trace.finish.status == "failed"
    assert [each.message for each in seen.trace.errors] == [answer.error["message"]]
    [logged] = [facts["reason"] for name, facts in seen.log if name == "upstream.failed"]
    check_reason(logged)


async def test_200_megabytes_take_no_memory(tmp_path: Path) -> None:
    async with raw_failing_at(raw_flood, "call") as server:
        tracemalloc.start()
        try:
            mcp = configure(server.url, **LIMITS)
            seen = await respond(tmp_path, mcp, call("go"), ANSWER, stream=True)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert "sent more than 465,536 bytes" in check_continued(seen)["error"]["message"]
    assert peak < 20_000_000
