"""Managed MCP with real servers: the gateway, its configuration, and a server on a port."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import McpConfig
from tests.support.mcp.sessions import configure
from tests.support.mcp.tools_server import ToolsServer, Transport, serve_tools
from tests.support.rounds import (
    call_delta,
    output_text,
    round_script,
    rounds_gateway,
    streamed_and_whole,
    text_delta,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.stream_reader import open_stream
from tests.support.waiting import LIMIT_S, until

Document = dict[str, Any]
TESTS: Document = {"type": "mcp", "server_label": "tests", "require_approval": "never"}
ANSWER = round_script(text_delta("Done."))
CANARY = "canary-77aa10"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP  # as the gateway runs


def call(tool: str, arguments: str = "{}") -> Any:
    return round_script(call_delta(("call_1", f"tests__{tool}", arguments)))


@streamed_and_whole
@pytest.mark.parametrize("transport", ["streamable", "sse"])
async def test_a_model_calls_a_configured_server(
    tmp_path: Path, stream: bool, transport: Transport
) -> None:
    state = ToolsServer()
    state.require_token("operator")
    with serve_tools(transport, state=state) as server:
        mcp = configure(server.url, {"Authorization": "Bearer operator"})
        script = call("greet", '{"name": "Ann"}')
        async with rounds_gateway(tmp_path, script, ANSWER, mcp=mcp) as setup:
            answer = await setup.post_request(stream=stream, tools=[TESTS])
    listed, called, _ = answer.response["output"]
    assert "greet" in [tool["name"] for tool in listed["tools"]]
    assert (called["output"], called["error"]) == ("Hello Ann", None)
    assert output_text(answer.response) == "Done."


@streamed_and_whole
async def test_a_client_that_leaves_has_the_call_cancelled_and_the_session_ended(
    tmp_path: Path, stream: bool
) -> None:
    state = ToolsServer(is_legacy=True)
    with serve_tools(state=state) as server:
        mcp = configure(server.url)
        async with rounds_gateway(tmp_path, call("wait"), ANSWER, mcp=mcp) as setup:
            async with open_stream(setup.gateway.gateway.port) as reader:
                await reader.post({"model": "m", "input": "Hi", "stream": stream, "tools": [TESTS]})
                assert await asyncio.to_thread(state.waiting.wait, LIMIT_S)
            assert await asyncio.to_thread(state.cancelled.wait, LIMIT_S)
            await until(lambda: ends_session(state), "the session is ended")


def ends_session(state: ToolsServer) -> bool:
    return any(method == "DELETE" for method, _ in state.requests)


def read_files(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.rglob("*") if path.is_file()]


async def test_a_credential_of_a_client_is_neither_stored_nor_logged_nor_traced(
    tmp_path: Path,
) -> None:
    with serve_tools() as server:
        tool = {**TESTS, "server_url": server.url, "authorization": CANARY}
        script = call("greet", '{"name": "Ann"}')
        mcp = McpConfig(allow=[server.url])
        async with rounds_gateway(tmp_path, script, ANSWER, mcp=mcp, payloads=True) as setup:
            answer = await setup.post_request(stream=True, tools=[tool])
            log = repr(setup.gateway.log)
    assert any(headers.get("authorization") == f"Bearer {CANARY}" for _, headers in server.requests)
    assert answer.response["status"] == "completed"
    assert CANARY not in log
    assert CANARY not in repr(answer.response)
    files = read_files(tmp_path)
    assert any(b"Hello Ann" in data for data in files)
    assert not any(CANARY.encode() in data for data in files)
