"""The OpenAI Agents SDK for Python."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.clients.gateway import ClientSetup, client_setup
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, Dialect, Reply

AGENTS = Client("openai-agents (Python)", "pypi:openai-agents", in_process=True)
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
play = partial(run_program, program="agents_client")


@AGENTS.does("run")
async def test_an_agent_answers(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        seen = await play(setup, scenario="run")
        assert (seen["output"], seen["agent"]) == ("Good day.", "host")
        assert seen["tokens"] == [1, 21, 5, 26]
        assert setup.requests[0].messages == [("system", "You are host."), ("user", "Good morning")]


@AGENTS.does("run with tools")
async def test_an_agent_calls_its_tools(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply(calls=BOTH), Reply("Sun.", tokens=30)]
    ) as setup:
        seen = await play(setup, scenario="tool")
        assert seen["output"] == "Sun."
        assert seen["tokens"] == [2, 39, 10, 49]
        check_results(setup)


@AGENTS.does("run_streamed with tools")
async def test_a_streamed_agent_calls_its_tools(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply("Wait.", calls=BOTH), Reply("Sun.")]
    ) as setup:
        seen = await play(setup, scenario="tool_stream")
        assert (seen["output"], seen["text"]) == ("Sun.", "Wait.Sun.")
        assert seen["heard"].count("tool_called") == 2
        assert seen["heard"].count("tool_output") == 2
        check_results(setup)


def check_results(setup: ClientSetup) -> None:
    assert setup.requests[1].calls == [(call.name, call.arguments) for call in BOTH]
    assert setup.requests[1].results == ["sunny in Ulm", "sunny in Bonn"]


@AGENTS.does("typed output")
async def test_an_agent_answers_with_a_type(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply('{"name":"Ulm","people":126000}')]
    ) as setup:
        assert await play(setup, scenario="typed") == {"name": "Ulm", "people": 126000}
        assert '"people"' in setup.requests[0].text


@AGENTS.does("handoff")
async def test_an_agent_hands_over_to_another(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply(calls=[Call("transfer_to_guide")]), Reply("This way, please.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="handoff")
        assert (seen["output"], seen["agent"]) == ("This way, please.", "guide")
        assert [request.text_of_role("system") for request in setup.requests] == [
            "You are host.",
            "You are guide.",
        ]
        assert setup.requests[1].calls == [("transfer_to_guide", {})]
        assert len(setup.requests[1].results) == 1


@AGENTS.does("reasoning, store=False")
async def test_reasoning_is_replayed_without_a_store(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun."), Reply("You are welcome.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="reasoning")
        assert [turn["output"] for turn in seen["turns"]] == ["Sun.", "You are welcome."]
        assert seen["text"] == "You are welcome."
        assert any(seen["sealed"])
        check_results(setup)
        state = setup.model.state(0, "Two cities.")
        assert [request.states[:1] for request in setup.requests] == [[], [state], [state]]
        assert setup.requests[2].messages[-2:] == [("assistant", "Sun."), ("user", "Thanks.")]


@AGENTS.does("previous_response_id", "chat")
async def test_an_agent_continues_by_response_id(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("1"), Reply("2")]) as setup:
        seen = await play(setup, scenario="memory")
        assert [turn["output"] for turn in seen] == ["1", "2"]
        history = [("user", "One?"), ("assistant", "1"), ("user", "Two?")]
        assert setup.requests[1].messages == [("system", "You are host."), *history]
