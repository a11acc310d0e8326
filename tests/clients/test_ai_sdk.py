"""The AI SDK with `@ai-sdk/openai`: text, streams, steps, objects, reasoning, with a store and not.

With a store, which is its default, it sends references in place of the items it got before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.gateway import ClientGateway, client_gateway
from tests.support.clients.installed import Release
from tests.support.clients.node_programs import run_program
from tests.support.clients.scenario import NodeClient
from tests.support.clients.scripted_model import Call, CutReply, Dialect, Reply

AI_SDK = NodeClient("AI SDK", "npm:@ai-sdk/openai")
LOOK = Call("get_weather", {"city": "Paris"})
CITY = {"name": "Paris", "people": 2102650}
THOUGHT = "It is about the weather."
STEPS = [Reply(thought=THOUGHT, calls=[LOOK]), Reply("It is sunny.")]


@AI_SDK.does("text")
async def test_a_text(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("It is sunny.", tokens=12)]) as setup:
        seen = await run_program(setup, "ai-sdk", "text", release)
        assert (seen["text"], seen["finish"], seen["tokens"]) == ("It is sunny.", "stop", 17)
        assert setup.requests[0].messages[0] == ("system", "Be kind.")


@AI_SDK.does("streamed text")
async def test_a_streamed_text(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("It is sunny.")]) as setup:
        seen = await run_program(setup, "ai-sdk", "stream", release)
        assert (seen["text"], seen["finish"], seen["errors"]) == ("It is sunny.", "stop", [])
        assert seen["parts"].count("text-start") == seen["parts"].count("text-end") == 1


@AI_SDK.does("tools in steps")
@pytest.mark.parametrize("scenario", ["tools", "streamedTools"])
async def test_tools_in_several_steps(
    tmp_path: Path, dialect: Dialect, release: Release, scenario: str
) -> None:
    async with client_gateway(tmp_path, dialect, STEPS) as setup:
        seen = await run_program(setup, "ai-sdk", scenario, release)
        first, second = seen["steps"]
        assert (first["finish"], second["finish"]) == ("tool-calls", "stop")
        assert first["calls"] == [["get_weather", {"city": "Paris"}]]
        assert first["results"] == ["sunny in Paris"]
        assert (second["text"], seen.get("errors", [])) == ("It is sunny.", [])
        assert setup.requests[1].results == ["sunny in Paris"]


@AI_SDK.does("object")
async def test_an_object(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply('{"name":"Paris","people":2102650}')]
    ) as setup:
        assert await run_program(setup, "ai-sdk", "object", release) == {
            "object": CITY,
            "finish": "stop",
        }
        assert setup.requests[0].schema is not None


@AI_SDK.does("streamed object")
async def test_a_streamed_object(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply('{"name":"Paris","people":2102650}')]
    ) as setup:
        seen = await run_program(setup, "ai-sdk", "streamedObject", release)
        assert seen["object"] == seen["partial"][-1] == CITY


@AI_SDK.does("turns without store")
@pytest.mark.parametrize("scenario", ["unstored", "streamedUnstored"])
async def test_turns_without_a_store_send_everything(
    tmp_path: Path, dialect: Dialect, release: Release, scenario: str
) -> None:
    async with client_gateway(tmp_path, dialect, [*STEPS, Reply("Rain.")]) as setup:
        seen = await run_program(setup, "ai-sdk", scenario, release)
        assert references(seen) == [0, 0, 0]
        check_history(setup, seen)


@AI_SDK.does("turns with store")
@pytest.mark.parametrize("scenario", ["stored", "streamedStored"])
async def test_turns_with_a_store_send_references(
    tmp_path: Path, dialect: Dialect, release: Release, scenario: str
) -> None:
    async with client_gateway(tmp_path, dialect, [*STEPS, Reply("Rain.")]) as setup:
        seen = await run_program(setup, "ai-sdk", scenario, release)
        assert [sent > 0 for sent in references(seen)] == [False, True, True]
        check_history(setup, seen)


@AI_SDK.does("cut stream")
async def test_a_cut_stream_is_an_error(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    reply = Reply("A sentence that does not come to its end.")
    async with client_gateway(tmp_path, dialect, [CutReply(reply, after="sentence")]) as setup:
        seen = await run_program(setup, "ai-sdk", "stream", release)
        assert (seen["finish"], seen["errors"][0]["type"]) == ("error", "response.failed")
        assert seen["text"].startswith("A sentence")


def references(seen: Any) -> list[int]:
    """The number of item references in each request."""
    return [step["references"] for turn in seen.values() for step in turn["steps"]]


def check_history(setup: ClientGateway, seen: Any) -> None:
    """Check that the last request has all earlier text and reasoning."""
    assert (seen["first"]["text"], seen["second"]["text"]) == ("It is sunny.", "Rain.")
    assert seen["first"]["steps"][0]["reasoning"] == THOUGHT
    last = setup.requests[-1]
    assert last.text_of_role("user") == "How is the weather in Paris?\nAnd tomorrow?"
    assert last.calls == [("get_weather", {"city": "Paris"})]
    assert last.results == ["sunny in Paris"]
    assert last.text_of_role("assistant").replace("\n", "") == "It is sunny."
    assert [request.states[:1] for request in setup.requests] == [
        [],
        *[[setup.model.state(0, THOUGHT)]] * 2,
    ]
