"""LangChain, by its package for the Responses API."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.clients.gateway import ClientSetup, client_setup
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, Dialect, Reply

LANGCHAIN = Client("LangChain", "pypi:langchain-openai", in_process=True)
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
CALLS = [["get_weather", {"city": "Ulm"}], ["get_weather", {"city": "Bonn"}]]
play = partial(run_program, program="langchain_client")


@LANGCHAIN.does("invoke, usage")
async def test_a_message(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        seen = await play(setup, scenario="invoke")
        assert (seen["text"], seen["tokens"]) == ("Good day.", [21, 5, 26])
        assert setup.requests[0].messages == [("system", "Be kind."), ("user", "Good morning")]


@LANGCHAIN.does("stream, usage")
async def test_a_streamed_message(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        seen = await play(setup, scenario="stream")
        assert (seen["text"], seen["tokens"]) == ("Good day.", [21, 5, 26])
        assert seen["pieces"] > 1


@LANGCHAIN.does("tools")
async def test_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply(calls=BOTH), Reply("Sun.")]
    ) as setup:
        first, second = await play(setup, scenario="tools")
        assert (first["calls"], second["text"]) == (CALLS, "Sun.")
        check_results(setup)


@LANGCHAIN.does("tools, streamed")
async def test_streamed_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply("Wait.", calls=BOTH), Reply("Sun.")]
    ) as setup:
        first, second = await play(setup, scenario="tools_stream")
        assert (first["text"], first["calls"]) == ("Wait.", CALLS)
        assert second["text"] == "Sun."
        check_results(setup)


def check_results(setup: ClientSetup) -> None:
    assert setup.requests[1].calls == [(call.name, call.arguments) for call in BOTH]
    assert setup.requests[1].results == ["sunny in Ulm", "sunny in Bonn"]


@LANGCHAIN.does("structured output, json_schema")
async def test_an_answer_by_schema(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply('{"name":"Ulm","people":126000}')]
    ) as setup:
        assert await play(setup, scenario="json_schema") == {"name": "Ulm", "people": 126000}
        assert '"people"' in setup.requests[0].text


@LANGCHAIN.does("structured output, function_calling")
async def test_an_answer_by_a_forced_call(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    call = Call("City", {"name": "Ulm", "people": 126000})
    async with client_setup(tmp_path, dialect, transport, [Reply(calls=[call])]) as setup:
        assert await play(setup, scenario="function_calling") == {"name": "Ulm", "people": 126000}
        assert [*setup.requests[0].tools] == ["City"]


@LANGCHAIN.does("reasoning over a tool call")
async def test_reasoning_is_replayed(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        first, second = await play(setup, scenario="reasoning")
        assert "".join(first["thoughts"]) == "Two cities."
        assert (first["calls"], second["text"]) == (CALLS, "Sun.")
        check_results(setup)
        assert setup.requests[1].states == [setup.model.state(0, "Two cities.")]


@LANGCHAIN.does("previous_response_id", "chat")
async def test_a_thread_is_continued_by_response_id(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply("1"), Reply("2"), Reply("3")]
    ) as setup:
        assert (await play(setup, scenario="memory"))["text"] == "3"
        assert setup.requests[2].messages == [
            ("user", "One?"),
            ("assistant", "1"),
            ("user", "Two?"),
            ("assistant", "2"),
            ("user", "Three?"),
        ]
