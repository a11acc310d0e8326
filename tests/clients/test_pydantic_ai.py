"""Pydantic AI, by its model for the Responses API."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.clients.gateway import ClientSetup, client_setup
from tests.support.clients.provider_requests import Document
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, Dialect, Reply

PYDANTIC_AI = Client("Pydantic AI", "pypi:pydantic-ai-slim", in_process=True)
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
CALLS = [["get_weather", {"city": "Ulm"}], ["get_weather", {"city": "Bonn"}]]
THINKING = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun."), Reply("You are welcome.")]
play = partial(run_program, program="pydantic_ai_client")


@PYDANTIC_AI.does("text")
async def test_a_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        seen = await play(setup, scenario="text")
        assert (seen["output"], seen["tokens"]) == ("Good day.", [[21, 5]])
        assert seen["finish"] == ["stop"]
        assert setup.requests[0].messages == [("system", "Be kind."), ("user", "Good morning")]


@PYDANTIC_AI.does("stream")
async def test_a_streamed_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        seen = await play(setup, scenario="stream")
        assert ("".join(seen["pieces"]), seen["output"]) == ("Good day.", "Good day.")
        assert len(seen["pieces"]) > 1
        assert (seen["tokens"], seen["finish"]) == ([[21, 5]], ["stop"])


@PYDANTIC_AI.does("tools")
async def test_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply(calls=BOTH), Reply("Sun.")]
    ) as setup:
        seen = await play(setup, scenario="tools")
        assert (seen["output"], seen["calls"]) == ("Sun.", CALLS)
        check_results(setup)


@PYDANTIC_AI.does("tools, streamed")
async def test_streamed_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply(calls=BOTH), Reply("Sun.")]
    ) as setup:
        seen = await play(setup, scenario="tools_stream")
        assert (seen["output"], seen["calls"]) == ("Sun.", CALLS)
        check_results(setup)


def check_results(setup: ClientSetup) -> None:
    assert setup.requests[1].calls == [(call.name, call.arguments) for call in BOTH]
    assert setup.requests[1].results == ["sunny in Ulm", "sunny in Bonn"]


@PYDANTIC_AI.does("NativeOutput")
async def test_an_answer_by_schema(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply('{"name":"Ulm","people":126000}')]
    ) as setup:
        assert await play(setup, scenario="native_output") == {"name": "Ulm", "people": 126000}
        assert '"people"' in setup.requests[0].text


@PYDANTIC_AI.does("ToolOutput")
async def test_an_answer_by_a_required_call(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    call = Call("city", {"name": "Ulm", "people": 126000})
    async with client_setup(tmp_path, dialect, transport, [Reply(calls=[call])]) as setup:
        assert await play(setup, scenario="tool_output") == {"name": "Ulm", "people": 126000}
        assert [*setup.requests[0].tools] == ["city"]


@PYDANTIC_AI.does("reasoning, store=False")
async def test_encrypted_reasoning_is_replayed(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, THINKING) as setup:
        seen = await play(setup, scenario="reasoning")
        assert seen["outputs"] == ["Sun.", "You are welcome."]
        check_thoughts(setup, seen)


@PYDANTIC_AI.does("reasoning by its id")
async def test_reasoning_is_replayed_by_its_ids(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, THINKING) as setup:
        seen = await play(setup, scenario="reasoning_stored")
        assert seen["outputs"] == ["Sun.", "You are welcome."]
        check_thoughts(setup, seen)


def check_thoughts(setup: ClientSetup, seen: Document) -> None:
    assert "".join(seen["thoughts"]) == "Two cities."
    check_results(setup)
    state = setup.model.state(0, "Two cities.")
    assert [request.states[:1] for request in setup.requests] == [[], [state], [state]]


@PYDANTIC_AI.does("previous_response_id", "chat")
async def test_a_thread_is_continued_by_response_id(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("1"), Reply("2")]) as setup:
        assert await play(setup, scenario="memory") == ["1", "2"]
        assert setup.requests[1].messages[-3:] == [
            ("user", "One?"),
            ("assistant", "1"),
            ("user", "Two?"),
        ]
