"""The `@anthropic-ai/sdk` package for Node: messages, streams, tools, structured output, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.clients.test_claude_code import claude_gateway
from tests.support.clients.gateway import MODEL
from tests.support.clients.node_programs import run_program
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import (
    ALL_DIALECTS,
    Call,
    CutReply,
    Dialect,
    ErrorReply,
    Reply,
    Step,
    context_overflow,
    rate_limited,
)

SDK = Client("Anthropic SDK (Node)", "npm:@anthropic-ai/sdk")
CITY = '{"name":"Paris","people":2102650}'


def text_of(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


@SDK.does("whole message", *ALL_DIALECTS)
async def test_a_whole_message(tmp_path: Path, dialect: Dialect) -> None:
    async with claude_gateway(tmp_path, dialect, [Reply("Good morning.", tokens=12)]) as setup:
        seen = await run_program(setup, "anthropic", "create")
        assert text_of(seen) == "Good morning."
        assert (seen["model"], seen["stop_reason"]) == (MODEL, "end_turn")
        assert (seen["usage"]["input_tokens"], seen["usage"]["output_tokens"]) == (12, 5)
        assert setup.requests[0].messages == [("system", "Be kind."), ("user", "Hello?")]


@SDK.does("stream helper", *ALL_DIALECTS)
async def test_the_stream_helper(tmp_path: Path, dialect: Dialect) -> None:
    async with claude_gateway(tmp_path, dialect, [Reply("Good.", thought="First.")]) as setup:
        seen = await run_program(setup, "anthropic", "stream")
        assert seen["text"] == "Good."
        assert (seen["events"][0], seen["events"][-1]) == ("message_start", "message_stop")
        kinds = [block["type"] for block in seen["message"]["content"]]
        assert kinds[:2] == ["thinking", "text"]
        assert seen["message"]["content"][0]["thinking"] == "First."


@SDK.does("tool runner", *ALL_DIALECTS)
async def test_the_tool_runner(tmp_path: Path, dialect: Dialect) -> None:
    """It uses threads of the server: the second request has the result alone."""
    calls = [Call("get_weather", {"city": "Oslo"}), Call("get_weather", {"city": "Rome"})]
    async with claude_gateway(tmp_path, dialect, [Reply(calls=calls), Reply("Sunny.")]) as setup:
        seen = await run_program(setup, "anthropic", "tools")
        assert text_of(seen["message"]) == "Sunny."
        second = setup.requests[1]
        assert second.results == ["sunny in Oslo", "sunny in Rome"]
        assert len(second.calls) == 2
        assert "get_weather" in second.tools


@SDK.does("structured output", *ALL_DIALECTS)
async def test_structured_output(tmp_path: Path, dialect: Dialect) -> None:
    async with claude_gateway(tmp_path, dialect, [Reply(CITY)]) as setup:
        seen = await run_program(setup, "anthropic", "parse")
        assert seen["parsed"] == {"name": "Paris", "people": 2102650}


@SDK.does("count_tokens and models", *ALL_DIALECTS)
async def test_tokens_are_counted_and_models_listed(tmp_path: Path, dialect: Dialect) -> None:
    async with claude_gateway(tmp_path, dialect, []) as setup:
        assert (await run_program(setup, "anthropic", "count"))["input_tokens"] > 0
    async with claude_gateway(tmp_path / "models", dialect, []) as setup:
        assert MODEL in (await run_program(setup, "anthropic", "models"))["names"]


@SDK.does("rate limit, retried", *ALL_DIALECTS)
async def test_a_rate_limit_is_retried(tmp_path: Path, dialect: Dialect) -> None:
    script: list[Step] = [rate_limited(dialect, 1), Reply("There.")]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        assert (await run_program(setup, "anthropic", "retried"))["text"] == "There."


@SDK.does("errors as exceptions", *ALL_DIALECTS)
async def test_an_error_is_raised_as_its_exception(tmp_path: Path, dialect: Dialect) -> None:
    """Before the first byte by its status, after it within the stream: never half a message."""
    steps: dict[str, tuple[Step, str]] = {
        "RateLimitError": (rate_limited(dialect, 1), "rate_limit_error"),
        "BadRequestError": (context_overflow(dialect), "invalid_request_error"),
        "OverloadedError": (ErrorReply(503, {"error": {"message": "x"}}), "overloaded_error"),
        "APIError": (CutReply(Reply("Half of it, and no end."), "Half"), "api_error"),
    }
    for name, (step, kind) in steps.items():
        async with claude_gateway(tmp_path / name, dialect, [step]) as setup:
            seen = await run_program(setup, "anthropic", "failing")
            assert (seen["name"], seen["type"]) == (name, kind)
            if name == "BadRequestError":
                assert "prompt is too long" in seen["message"]
