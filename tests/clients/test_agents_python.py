"""The OpenAI Agents SDK for Python."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.support.clients.gateway import ClientSetup, client_gateway, client_setup
from tests.support.clients.proxy import changing_proxy
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, Dialect, Reply

AGENTS = Client("openai-agents (Python)", "pypi:openai-agents", in_process=True)
OVER_HTTP = Client(AGENTS.name, AGENTS.package)
"""For what a library in the process of the client has not: sockets."""
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


@OVER_HTTP.does("WebSocket model")
async def test_an_agent_uses_a_websocket(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=BOTH), Reply("Sun."), Reply("Welcome.")]
    async with (
        client_gateway(tmp_path, dialect, script) as setup,
        changing_proxy(setup) as proxy,
    ):
        first, second = await play(proxy.gateway, scenario="websocket")
        assert (first["output"], second["output"]) == ("Sun.", "Welcome.")
        assert proxy.seen == [("GET", "/v1/responses", 101)]
        assert len(proxy.frames) == 3
        check_results(setup)
        assert setup.requests[-1].messages[-1] == ("user", "Thanks.")


@AGENTS.does("conversations session", "chat")
async def test_a_session_is_a_conversation(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply(calls=BOTH), Reply("Sun."), Reply("Welcome.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="conversation")
        assert [turn["output"] for turn in seen["turns"]] == ["Sun.", "Welcome."]
        calls = ["function_call"] * 2 + ["function_call_output"] * 2
        assert seen["types"] == ["message", *calls, "message", "message", "message"]
        assert seen["newest"]
        assert seen["popped"] == [True, True]
        check_results(setup)
        assert setup.requests[2].messages[-2:] == [("assistant", "Sun."), ("user", "Thanks.")]
        assert setup.requests[2].results == setup.requests[1].results


@AGENTS.does("compaction session", "chat")
async def test_a_session_is_compacted(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    lists = ("decisions", "open_work", "files_touched", "last_user_wishes")
    summary = {"goal": "Remember.", **{name: [] for name in lists}, "facts": ["It is heron."]}
    script = [Reply("Noted."), Reply("Kept."), Reply(json.dumps(summary)), Reply("Heron.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="compaction")
        assert seen["turns"] == ["Noted.", "Kept.", "Heron."]
        assert seen["types"][1] == ["message", "message", "compaction"]
        last = setup.requests[-1]
        assert "It is heron." in last.text_of_role("user")
        assert "Kept." not in last.text
        assert last.messages[-1] == ("user", "Which word?")
