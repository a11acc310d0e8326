"""The AI SDK in Chat mode: `openai.chat()` in two majors, and `@ai-sdk/openai-compatible`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.support.clients.gateway import client_gateway
from tests.support.clients.installed import NEWEST, PINNED, Release
from tests.support.clients.node_programs import run_program
from tests.support.clients.scripted_model import (
    ALL_DIALECTS,
    Call,
    CutReply,
    Dialect,
    Reply,
    Step,
    rate_limited,
)

LOOK = Call("get_weather", {"city": "Paris"})
THOUGHT = "It is about the weather."
STEPS = [Reply(thought=THOUGHT, calls=[LOOK]), Reply("It is sunny.")]

Test = TypeVar("Test", bound=Callable[..., Any])


class Package(NamedTuple):
    """A package of the AI SDK for Chat Completions."""

    name: str
    program: str
    version: Release
    shows_reasoning: bool = False

    @property
    def pin(self) -> str:
        """Its key in the table of versions."""
        package = "openai-compatible" if self.shows_reasoning else "openai"
        return f"{self.version.name}:@ai-sdk/{package}"


PACKAGES = (
    Package("AI SDK, Chat", "ai-sdk-chat", PINNED),
    Package("AI SDK, Chat", "ai-sdk-chat", NEWEST),
    Package("AI SDK, compatible", "ai-sdk-compatible", NEWEST, shows_reasoning=True),
)


def every_package(scenario: str) -> Callable[[Test], Test]:
    """Run a test with each package, on every dialect."""
    cases = [
        pytest.param(
            dialect,
            package,
            marks=pytest.mark.scenario(package.name, package.pin, scenario),
            id=f"{dialect}-{package.pin}",
        )
        for package in PACKAGES
        for dialect in ALL_DIALECTS
    ]
    return pytest.mark.parametrize(("dialect", "package"), cases)


@every_package("text")
async def test_a_text(tmp_path: Path, dialect: Dialect, package: Package) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("It is sunny.", tokens=12)]) as setup:
        seen = await run_program(setup, package.program, "text", package.version)
        assert (seen["text"], seen["finish"], seen["tokens"]) == ("It is sunny.", "stop", 17)
        assert setup.requests[0].messages[0] == ("system", "Be kind.")
        assert not setup.requests[0].streamed


@every_package("streamed text, after a 429")
async def test_a_streamed_text(tmp_path: Path, dialect: Dialect, package: Package) -> None:
    script: list[Step] = [rate_limited(dialect, 1), Reply("It is sunny.", thought=THOUGHT)]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, package.program, "stream", package.version)
        assert (seen["shown"], seen["finish"], seen["errors"]) == ("It is sunny.", "stop", [])
        assert seen["tokens"] == 14
        [step] = seen["steps"]
        assert step["reasoning"] == (THOUGHT if package.shows_reasoning else "")


@every_package("tools in steps")
@pytest.mark.parametrize("scenario", ["tools", "streamedTools"])
async def test_tools_in_several_steps(
    tmp_path: Path, dialect: Dialect, package: Package, scenario: str
) -> None:
    """The provider gets its reasoning back, though the client returns the id of the call alone."""
    async with client_gateway(tmp_path, dialect, STEPS) as setup:
        seen = await run_program(setup, package.program, scenario, package.version)
        first, second = seen["steps"]
        assert (first["finish"], second["finish"]) == ("tool-calls", "stop")
        assert first["calls"] == [["get_weather", {"city": "Paris"}]]
        assert first["results"] == setup.requests[1].results == ["sunny in Paris"]
        assert (second["text"], seen.get("errors", [])) == ("It is sunny.", [])
        assert setup.requests[1].states == [setup.model.state(0, THOUGHT)]


@every_package("object")
async def test_an_object(tmp_path: Path, dialect: Dialect, package: Package) -> None:
    script = [Reply('{"name":"Paris","people":2102650}')]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, package.program, "object", package.version)
        assert seen == {"object": {"name": "Paris", "people": 2102650}}
        assert setup.requests[0].schema is not None


@every_package("cut stream")
async def test_a_cut_stream_is_an_error(tmp_path: Path, dialect: Dialect, package: Package) -> None:
    reply = Reply("A sentence that does not come to its end.")
    async with client_gateway(tmp_path, dialect, [CutReply(reply, after="sentence")]) as setup:
        seen = await run_program(setup, package.program, "stream", package.version)
        assert seen["shown"].startswith("A sentence")
        assert "before its response was complete" in seen["errors"][0]
