"""The MCP server of the protocol's own makers, over both transports."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.mcp.everything import EverythingTransport, serve_everything
from tests.support.mcp.sessions import SERVER, configure, open_sessions
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.rounds import call_delta, output_text, round_script, rounds_gateway, text_delta

transports = pytest.mark.parametrize("transport", ["streamableHttp", "sse"])


@transports
async def test_its_tools_are_listed_and_called(transport: EverythingTransport) -> None:
    async with (
        serve_everything(transport) as url,
        open_sessions(configure(url)) as sessions,
    ):
        listed = await sessions.list_tools(SERVER)
        assert listed.problem is None
        assert {"echo", "get-sum", "get-tiny-image"} <= {tool.name for tool in listed.tools}
        echo = await sessions.call(SERVER, "echo", {"message": "hello"})
        assert echo.text == "Echo: hello"
        total = await sessions.call(SERVER, "get-sum", {"a": 2, "b": 3})
        assert "5" in total.text
        image = await sessions.call(SERVER, "get-tiny-image", {})
        assert [each.media_type for each in image.images] == ["image/png"]
        links = await sessions.call(SERVER, "get-resource-links", {"count": 2})
        assert links.text.count("[resource ") == 2
        reference = await sessions.call(
            SERVER, "get-resource-reference", {"resourceType": "Text", "resourceId": 1}
        )
        assert "[resource " in reference.text
        structured = await sessions.call(SERVER, "get-structured-content", {"location": "Chicago"})
        assert "temperature" in structured.text


@transports
async def test_arguments_that_it_refuses_are_an_error_for_the_model(
    transport: EverythingTransport,
) -> None:
    async with (
        serve_everything(transport) as url,
        open_sessions(configure(url)) as sessions,
    ):
        result = await sessions.call(SERVER, "get-sum", {"a": "two"})
        assert result.is_error or result.problem is not None


@transports
async def test_its_progress_extends_the_time(transport: EverythingTransport) -> None:
    async with (
        serve_everything(transport) as url,
        open_sessions(configure(url, idle_timeout_s=2.0)) as sessions,
    ):
        arguments = {"duration": 3, "steps": 5}
        result = await sessions.call(SERVER, "trigger-long-running-operation", arguments)
        assert result.problem is None
        assert "completed" in result.text


@transports
async def test_parallel_calls_are_kept_apart(transport: EverythingTransport) -> None:
    async with (
        serve_everything(transport) as url,
        open_sessions(configure(url)) as sessions,
    ):
        words = [f"word {number}" for number in range(10)]
        calls = [sessions.call(SERVER, "echo", {"message": word}) for word in words]
        results = await asyncio.gather(*calls)
    assert [each.text for each in results] == [f"Echo: {word}" for word in words]


RESULTS: dict[str, tuple[str, str, str]] = {
    "text": ("echo", '{"message": "hello"}', "Echo: hello"),
    "image": ("get-tiny-image", "{}", "[image: image/png]"),
    "resource": (
        "get-resource-reference",
        '{"resourceType": "Text", "resourceId": 1}',
        "[resource demo://",
    ),
    "progress": ("trigger-long-running-operation", '{"duration": 3, "steps": 5}', "completed"),
    "error": ("get-sum", '{"a": "two"}', "Invalid input"),
}


@transports
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", RESULTS)
async def test_a_model_uses_it(
    tmp_path: Path, transport: EverythingTransport, stream: bool, kind: str
) -> None:
    tool, arguments, output = RESULTS[kind]
    asked = round_script(call_delta(("call_1", f"tests__{tool}", arguments)))
    answer = round_script(text_delta("Done."))
    declared = {"type": "mcp", "server_label": "tests", "require_approval": "never"}
    async with (
        serve_everything(transport) as url,
        rounds_gateway(tmp_path, asked, answer, mcp=configure(url, idle_timeout_s=2.0)) as setup,
    ):
        seen = await setup.post_request(stream=stream, tools=[declared])
    if stream:
        check_with_sdk(seen.events)
    listed, called, _ = seen.response["output"]
    assert tool in [each["name"] for each in listed["tools"]]
    assert called["status"] == ("failed" if kind == "error" else "completed")
    assert output in (called["output"] or str(called["error"]))
    assert output_text(seen.response) == "Done."
