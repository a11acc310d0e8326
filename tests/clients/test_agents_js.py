"""The `@openai/agents` package: tools, streams, typed output, handoffs, reasoning."""

from __future__ import annotations

from pathlib import Path

from tests.support.clients.gateway import client_gateway
from tests.support.clients.node_programs import run_program
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import Call, Dialect, Reply

AGENTS = Client("@openai/agents", "npm:@openai/agents")
LOOK = Call("get_weather", {"city": "Paris"})
CALL_AND_ANSWER = ["tool_call_item", "tool_call_output_item", "message_output_item"]


def visible_items(items: list[str]) -> list[str]:
    """The items of a run but for reasoning, which only some providers have."""
    return [item for item in items if item != "reasoning_item"]


@AGENTS.does("tool")
async def test_a_run_calls_its_tool_and_reports(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[LOOK], tokens=20), Reply("It is sunny.", tokens=30)]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "agents", "tool")
        assert seen["final"] == "It is sunny."
        assert visible_items(seen["items"]) == CALL_AND_ANSWER
        assert seen["usage"] == 20 + 5 + 30 + 5
        assert setup.requests[1].results == ["sunny in Paris"]


@AGENTS.does("streamed tool")
async def test_a_streamed_run_calls_its_tool_and_reports(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[LOOK]), Reply("It is sunny.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "agents", "streamed")
        assert seen["final"] == seen["text"] == "It is sunny."
        assert visible_items(seen["items"]) == CALL_AND_ANSWER
        named = [name for name in seen["named"] if name != "reasoning_item_created"]
        assert named == ["tool_called", "tool_output", "message_output_created"]
        assert seen["raw"].count("response.completed") == 2
        assert setup.requests[1].results == ["sunny in Paris"]


@AGENTS.does("typed output")
async def test_a_typed_output_after_a_tool(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[LOOK]), Reply('{"name":"Paris","people":2102650}')]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "agents", "typed")
        assert seen["final"] == {"name": "Paris", "people": 2102650}
        assert setup.requests[1].results == ["sunny in Paris"]


@AGENTS.does("handoff")
async def test_a_handoff(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[Call("transfer_to_French")]), Reply("Bonjour !")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "agents", "handoff")
        assert (seen["final"], seen["agent"]) == ("Bonjour !", "French")
        assert setup.requests[1].text_of_role("system") == "Speak French."


@AGENTS.does("reasoning without store")
async def test_reasoning_makes_the_round_trip(tmp_path: Path, dialect: Dialect) -> None:
    thought = "It is about the weather."
    script = [Reply(thought=thought, calls=[LOOK]), Reply("It is sunny.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "agents", "reasoning")
        assert seen["final"] == "It is sunny."
        assert setup.requests[1].states == [setup.model.state(0, thought)]


@AGENTS.does("conversations session", "chat")
async def test_a_session_is_a_conversation(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[LOOK]), Reply("It is sunny."), Reply("Welcome.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "agents", "conversation")
        assert seen["finals"] == ["It is sunny.", "Welcome."]
        calls = ["function_call", "function_call_result"]
        assert seen["types"] == ["message", *calls, "message", "message", "message"]
        assert setup.requests[2].results == ["sunny in Paris"]
        assert setup.requests[2].messages[-1] == ("user", "Thanks.")
