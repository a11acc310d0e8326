"""Clients of Chat Completions: the OpenAI SDK, LangChain, Pydantic AI and llm."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.support.clients.gateway import (
    MODEL,
    ClientSetup,
    client_gateway,
    client_setup,
)
from tests.support.clients.installed import python_command
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, CutReply, Dialect, Reply

OPENAI = Client("openai (Python), Chat", "pypi:openai", in_process=True)
LANGCHAIN = Client("LangChain, Chat", "pypi:langchain-openai", in_process=True)
PYDANTIC_AI = Client("Pydantic AI, Chat", "pypi:pydantic-ai-slim", in_process=True)
LLM = Client("llm, Chat", "pypi:llm")
CITY = '{"name":"Ulm","people":126000}'
ULM = {"name": "Ulm", "people": 126000}
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
SUNNY = ["sunny in Ulm", "sunny in Bonn"]
TOOLS = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun.")]
play = partial(run_program, program="chat_clients")


def check_results(setup: ClientSetup) -> None:
    assert [call for call, _ in setup.requests[1].calls] == ["get_weather"] * 2
    assert all(result in setup.requests[1].text for result in SUNNY)


@OPENAI.does("create")
async def test_a_whole_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        assert await play(setup, scenario="openai_create") == ["Good day.", "stop", [21, 5]]


@OPENAI.does("stream")
async def test_a_streamed_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.")]) as setup:
        assert await play(setup, scenario="openai_stream") == ["Good day.", "stop", True]


@OPENAI.does("parse")
async def test_a_parsed_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply(CITY)]) as setup:
        assert await play(setup, scenario="openai_parse") == ULM


@OPENAI.does("tools")
async def test_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, TOOLS) as setup:
        assert await play(setup, scenario="openai_tools") == "Sun."
        check_results(setup)


@OPENAI.does("cut stream")
async def test_a_cut_stream(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    cut = CutReply(Reply("Good day, and more."), after="Good")
    async with client_setup(tmp_path, dialect, transport, [cut]) as setup:
        assert await play(setup, scenario="openai_cut") == "APIError"


@LANGCHAIN.does("stream")
async def test_langchain_streams(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.")]) as setup:
        assert await play(setup, scenario="langchain_stream") == "Good day."


@LANGCHAIN.does("tools")
async def test_langchain_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, TOOLS) as setup:
        assert await play(setup, scenario="langchain_tools") == "Sun."
        check_results(setup)


@LANGCHAIN.does("typed output")
async def test_langchain_types(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply(CITY)]) as setup:
        assert await play(setup, scenario="langchain_typed") == ULM


@PYDANTIC_AI.does("tools, streamed")
async def test_pydantic_ai_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    calls = [Call("forecast_tool", call.arguments) for call in BOTH]
    script = [Reply(thought="Two cities.", calls=calls), Reply("Sun.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        assert await play(setup, scenario="pydantic_tools") == "Sun."
        assert all(result in setup.requests[1].text for result in SUNNY)


@PYDANTIC_AI.does("typed output")
async def test_pydantic_ai_types(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply(CITY)]) as setup:
        assert await play(setup, scenario="pydantic_typed") == ULM


@LLM.does("streamed")
async def test_llm(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good day.", thought="Hm.")]) as setup:
        path = setup.home / "llm"
        path.mkdir()
        model = {"model_id": MODEL, "model_name": MODEL, "api_base": setup.base_url}
        (path / "extra-openai-models.yaml").write_text(json.dumps([model]), encoding="utf-8")
        command = [python_command("llm"), "-m", MODEL, "Good morning"]
        done = await setup.run(command, env={"LLM_USER_PATH": str(path)})
        assert done.check_success().out == "Good day.\n"
        assert setup.requests[0].messages[-1] == ("user", "Good morning")
