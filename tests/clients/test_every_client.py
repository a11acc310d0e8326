"""Streams as every client may get them: with keep-alive events that repeat the number of the event
before them, and with a response that is cancelled while it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.clients.test_llm import llm
from tests.clients.test_opencode import run as run_opencode
from tests.clients.test_opencode import texts
from tests.support.clients import node_programs, python_programs
from tests.support.clients.codex import OLDER, Codex
from tests.support.clients.gateway import ClientGateway, client_gateway
from tests.support.clients.installed import NEWEST, PINNED, Release
from tests.support.clients.scripted_model import Dialect, HeldReply, Reply, Step
from tests.support.clients.stream_proxy import stream_proxy
from tests.support.waiting import until

Read: TypeAlias = Callable[[ClientGateway], Awaitable[tuple[str, Any]]]
"""Has a client read a stream; returns the text, and how the client says that it ended."""
GREETING = "Good day to you."
TICK_S = 0.05


def codex(release: Release) -> Read:
    async def read(setup: ClientGateway) -> tuple[str, Any]:
        ran = await (await Codex.at(setup, release=release)).exec("Hello?")
        end = [each for each in ran.events if each["type"] in {"turn.completed", "turn.failed"}]
        return "".join(ran.messages), end[-1].get("error", {}).get("message", "")

    return read


def python(program: str, scenario: str, text: str, *end: str) -> Read:
    async def read(setup: ClientGateway) -> tuple[str, Any]:
        seen = await python_programs.run_program(setup, program, scenario)
        return seen[text], [seen[name] for name in end]

    return read


def node(release: Release, program: str, scenario: str, text: str, *end: str) -> Read:
    async def read(setup: ClientGateway) -> tuple[str, Any]:
        seen = await node_programs.run_program(setup, program, scenario, release)
        return seen[text], [seen[name] for name in end]

    return read


async def read_with_llm(setup: ClientGateway) -> tuple[str, Any]:
    return (await llm(setup, "Good morning")).out.removesuffix("\n"), ""


async def read_with_opencode(setup: ClientGateway) -> tuple[str, Any]:
    parts = await run_opencode(setup, "--title", "A greeting", "Hello?")
    return "".join(texts(parts)), parts[-1].get("reason")


@dataclass(frozen=True)
class Case:
    """A client, and what it says about a response that was cancelled."""

    name: str
    package: str
    read: Read
    cancelled: Any
    asks_again: bool = False


AGENTS_SAY = "Responses stream ended with terminal event `response.incomplete`. status=cancelled."
AGENTS_JS_SAY = (
    'OpenAI Responses request ended with unsuccessful terminal state "response.incomplete".'
)
CASES = [
    Case(
        "@openai/agents",
        "npm:@openai/agents",
        node(PINNED, "agents", "textStream", "text", "error"),
        [AGENTS_JS_SAY],
    ),
    Case(
        "AI SDK",
        "npm:@ai-sdk/openai",
        node(PINNED, "ai-sdk", "stream", "text", "finish", "errors"),
        ["stop", []],
    ),
    Case(
        "AI SDK",
        "node22:@ai-sdk/openai",
        node(NEWEST, "ai-sdk", "stream", "text", "finish", "errors"),
        ["stop", []],
    ),
    Case(
        "Codex CLI",
        "npm:@openai/codex",
        codex(PINNED),
        "Incomplete response returned, reason: unknown",
    ),
    Case("Codex CLI", "node22:@openai/codex", codex(OLDER), "", asks_again=True),
    Case("LangChain", "pypi:langchain-openai", python("langchain_client", "stream", "text"), []),
    Case("llm", "pypi:llm", read_with_llm, ""),
    Case(
        "openai (Node)",
        "npm:openai",
        node(PINNED, "openai", "stream", "text", "status"),
        ["cancelled"],
    ),
    Case(
        "openai (Node)",
        "node22:openai",
        node(NEWEST, "openai", "stream", "text", "status"),
        ["cancelled"],
    ),
    Case(
        "openai (Python)",
        "pypi:openai",
        python("openai_client", "create_stream", "deltas", "status"),
        ["cancelled"],
    ),
    Case(
        "openai-agents (Python)",
        "pypi:openai-agents",
        python("agents_client", "text_stream", "text", "error"),
        [AGENTS_SAY],
    ),
    Case("opencode", "npm:opencode-ai", read_with_opencode, "stop"),
    Case(
        "Pydantic AI",
        "pypi:pydantic-ai-slim",
        python("pydantic_ai_client", "stream", "output"),
        [],
    ),
]


def on_every_client(scenario: str, *more: Case) -> pytest.MarkDecorator:
    cases = [
        pytest.param(
            "chat",
            case,
            marks=pytest.mark.scenario(case.name, case.package, scenario),
            id=case.package,
        )
        for case in (*CASES, *more)
    ]
    return pytest.mark.parametrize(("dialect", "case"), cases)


HELPER = Case(
    "openai (Python)",
    "pypi:openai",
    python("openai_client", "helper", "snapshot", "status"),
    None,  # it raises an error unless the response is completed
)


@on_every_client("keep-alive events", HELPER)
async def test_keep_alive_events_are_no_part_of_the_answer(
    tmp_path: Path, dialect: Dialect, case: Case
) -> None:
    """The provider is silent before its first word, and after it, until a keep-alive was sent."""

    async def wait() -> None:
        await proxy.wait_for_keep_alive()

    script = [HeldReply(Reply(GREETING), "Good", wait, is_held_at_start=True)]
    async with (
        client_gateway(tmp_path, dialect, script, keepalive_s=TICK_S) as setup,
        stream_proxy(setup) as proxy,
    ):
        text, _ = await case.read(proxy.gateway)
        assert text == GREETING
        [events] = proxy.streams
        silent = [n for n, event in enumerate(events) if event["type"] == "keepalive"]
        numbers = [event["sequence_number"] for event in events]
        assert len(silent) >= 2
        assert all(numbers[n] == numbers[n - 1] for n in silent)


@on_every_client("cancelled while it is streamed")
async def test_a_cancelled_response_ends_the_turn(
    tmp_path: Path, dialect: Dialect, case: Case
) -> None:
    """Clients may call it a failure; none hangs, and only an older Codex asks again."""
    script: list[Step] = [HeldReply(Reply(GREETING), "Good")]
    if case.asks_again:
        script.append(Reply(""))
    async with (
        client_gateway(tmp_path, dialect, script) as setup,
        stream_proxy(setup, cancels_at="Good") as proxy,
    ):
        text, end = await case.read(proxy.gateway)
        assert text
        assert GREETING.startswith(text)
        assert end == case.cancelled
        last = proxy.streams[0][-1]
        assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")
        await until(lambda: setup.model.disconnects == 1, "the provider is disconnected")
