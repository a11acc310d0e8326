"""The `openai-agents` package, without its tracing, against the gateway on a real port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    ToolCallItem,
    ToolCallOutputItem,
    function_tool,
    set_tracing_disabled,
)
from agents.memory import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI
from pydantic import BaseModel

from antiphon.config import ModelConfig
from tests.support.checked_gateway import CheckedGateway, checked_gateway, configured
from tests.support.openai_client import echo_client, openai_client, scripted_client
from tests.support.upstream import (
    DONE,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    send_frames,
    usage,
)

set_tracing_disabled(True)
QUIET = RunConfig(tracing_disabled=True)


class City(BaseModel):
    name: str
    people: int


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def agent(client: AsyncOpenAI, model: str = "echo/echo", **options: Any) -> Agent[Any]:
    settings = ModelSettings(store=options.pop("store", None))
    answering = OpenAIResponsesModel(model, openai_client=client)
    return Agent(name="Tester", model=answering, model_settings=settings, **options)


def call_script(name: str, arguments: str = "{}") -> tuple[bytes, ...]:
    call = {"index": 0, "id": f"call_{name}", "function": {"name": name, "arguments": arguments}}
    return (chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), usage(), DONE)


def scripts_in_turn(*answers: tuple[bytes, ...]) -> Script:
    """Make a script that gives one answer after another."""
    left = list(answers)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await send_frames(left.pop(0))(request, connection)

    return script


@asynccontextmanager
async def reasoning_client(
    tmp_path: Path, script: Script
) -> AsyncIterator[tuple[AsyncOpenAI, CheckedGateway]]:
    """A client of a provider to which reasoning is replayed."""
    models = {"*": ModelConfig(replay_reasoning="always")}
    async with (
        configured(tmp_path, script, models=models) as setup,
        openai_client(setup.gateway) as client,
    ):
        yield client, setup


async def test_a_run_returns_text(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        result = await Runner.run(agent(client), "Good morning", run_config=QUIET)
        assert result.final_output == "Good morning"
        assert result.context_wrapper.usage.total_tokens > 0


async def test_a_run_calls_its_tool_and_reports(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        tester = agent(client, tools=[get_weather])
        result = await Runner.run(tester, "How is the weather?", run_config=QUIET)
        kinds = [type(item) for item in result.new_items]
        assert kinds[:2] == [ToolCallItem, ToolCallOutputItem]
        assert result.final_output.startswith("sunny in ")


async def test_a_streamed_run_calls_its_tool_and_reports(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        tester = agent(client, tools=[get_weather])
        result = Runner.run_streamed(tester, "How is the weather?", run_config=QUIET)
        raw, named = [], []
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                raw.append(event.data.type)
            elif event.type == "run_item_stream_event":
                named.append(event.name)
        assert result.final_output.startswith("sunny in ")
        assert raw.count("response.completed") == 2
        assert named == ["tool_called", "tool_output", "message_output_created"]


async def test_typed_output(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        tester = agent(client, output_type=City)
        result = await Runner.run(tester, "Paris", run_config=QUIET)
        assert isinstance(result.final_output, City)


async def test_typed_output_after_a_tool(tmp_path: Path) -> None:
    contents = (chunk({"content": '{"name":"Paris","people":2}'}), chunk({}, "stop"), usage(), DONE)
    script = scripts_in_turn(call_script("get_weather", '{"city":"Paris"}'), contents)
    async with scripted_client(tmp_path, script) as (client, setup):
        tester = agent(client, "m", output_type=City, tools=[get_weather])
        result = await Runner.run(tester, "Go", run_config=QUIET)
        assert result.final_output == City(name="Paris", people=2)
        assert setup.last_body["response_format"]["type"] == "json_schema"
        assert setup.last_body["messages"][-1]["content"] == "sunny in Paris"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_handoff(tmp_path: Path, streamed: bool) -> None:
    script = scripts_in_turn(call_script("transfer_to_french"), HELLO_WORLD)
    async with scripted_client(tmp_path, script) as (client, setup):
        model = OpenAIResponsesModel("m", openai_client=client)
        french = Agent(name="French", instructions="Speak French.", model=model)
        triage = Agent(name="Triage", handoffs=[french], model=model)
        if streamed:
            streaming = Runner.run_streamed(triage, "Bonjour", run_config=QUIET)
            assert [event async for event in streaming.stream_events()]
            assert (streaming.final_output, streaming.last_agent) == ("Hello, world", french)
        else:
            result = await Runner.run(triage, "Bonjour", run_config=QUIET)
            assert (result.final_output, result.last_agent) == ("Hello, world", french)
        assert setup.last_body["messages"][0] == {"role": "system", "content": "Speak French."}


async def test_reasoning_makes_the_round_trip_without_a_store(tmp_path: Path) -> None:
    thinking = chunk({"reasoning_content": "It is about the weather."})
    script = scripts_in_turn(
        (thinking, *call_script("get_weather", '{"city":"Paris"}')), HELLO_WORLD
    )
    async with reasoning_client(tmp_path, script) as (client, setup):
        tester = agent(client, "up/m", tools=[get_weather], store=False)
        result = await Runner.run(tester, "Go", run_config=QUIET)
        assert result.final_output == "Hello, world"
        (turn,) = [each for each in setup.last_body["messages"] if each["role"] == "assistant"]
        assert turn["reasoning_content"] == "It is about the weather."
        assert turn["tool_calls"][0]["id"] == "call_get_weather"


async def test_a_session_of_several_turns(tmp_path: Path) -> None:
    async with scripted_client(tmp_path, send_frames(HELLO_WORLD)) as (client, setup):
        session = SQLiteSession("s", tmp_path / "session.db")
        try:
            for contents in ("One", "Two", "Three"):
                await Runner.run(agent(client, "m"), contents, session=session, run_config=QUIET)
        finally:
            session.close()
        roles = [message["role"] for message in setup.last_body["messages"]]
        assert roles == ["user", "assistant", "user", "assistant", "user"]


async def test_a_session_is_compacted(tmp_path: Path) -> None:
    """The session replaces its items by what the gateway answers, and continues from that."""
    empty: dict[str, Any] = {name: [] for name in ("decisions", "open_work", "files_touched")}
    summary = {"goal": "Count.", **empty, "facts": ["One was said."], "last_user_wishes": []}
    written = (chunk({"content": json.dumps(summary)}), chunk({}, "stop"), usage(), DONE)
    script = scripts_in_turn(HELLO_WORLD, written, HELLO_WORLD)
    async with checked_gateway(tmp_path, script) as setup:
        async with openai_client(setup.gateway, strict=False) as client:
            store = SQLiteSession("s", tmp_path / "session.db")
            session = OpenAIResponsesCompactionSession(
                "s", store, client=client, model="gpt-x", should_trigger_compaction=lambda _: False
            )
            await Runner.run(agent(client, "m"), "One", session=session, run_config=QUIET)
            await session.run_compaction({"force": True})
            await Runner.run(agent(client, "m"), "Two", session=session, run_config=QUIET)
            store.close()
        said = [message["content"] for message in setup.last_body["messages"]]
    assert said[-1] == "Two"
    assert "One was said." in said[1]
    assert "Hello world" not in "".join(said)


async def test_a_chain_by_id(tmp_path: Path) -> None:
    async with scripted_client(tmp_path, send_frames(HELLO_WORLD)) as (client, setup):
        first = await Runner.run(agent(client, "m"), "One", run_config=QUIET)
        await Runner.run(
            agent(client, "m"),
            "Two",
            previous_response_id=first.last_response_id,
            run_config=QUIET,
        )
        contents = [message["content"] for message in setup.last_body["messages"]]
        assert contents == ["One", "Hello, world", "Two"]


async def test_failures_raise_the_documented_exceptions(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        with pytest.raises(openai.RateLimitError) as limited:
            await Runner.run(agent(client, "echo/error-429"), "x", run_config=QUIET)
        assert limited.value.code == "rate_limit_exceeded"
        result = Runner.run_streamed(agent(client, "echo/error-midway"), "x", run_config=QUIET)
        with pytest.raises(ModelBehaviorError):
            async for _ in result.stream_events():
                pass
