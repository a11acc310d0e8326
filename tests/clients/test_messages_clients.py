"""Clients of Messages: Anthropic's SDK, LangChain and Pydantic AI."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.clients.gateway import ClientSetup, client_gateway, client_setup
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, Dialect, Reply

ANTHROPIC = Client("anthropic (Python)", "pypi:anthropic", in_process=True)
LANGCHAIN = Client("LangChain, Messages", "pypi:langchain-anthropic")
PYDANTIC_AI = Client("Pydantic AI, Messages", "pypi:pydantic-ai-slim")
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
SUNNY = ["sunny in Ulm", "sunny in Bonn"]
TOOLS = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun.")]
TYPED = [Reply(calls=[Call("final_result", {"name": "Ulm", "people": 126000})])]
play = partial(run_program, program="messages_clients")


def check_results(setup: ClientSetup) -> None:
    assert [call for call, _ in setup.requests[1].calls] == ["get_weather"] * 2
    assert all(result in setup.requests[1].text for result in SUNNY)


@ANTHROPIC.does("create")
async def test_a_whole_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        assert await play(setup, scenario="anthropic_create") == ["Good day.", "end_turn", 21]


@ANTHROPIC.does("stream")
async def test_a_streamed_text(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.")]) as setup:
        assert await play(setup, scenario="anthropic_stream") == ["Good day.", "end_turn"]


@ANTHROPIC.does("tool runner")
async def test_tools(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, TOOLS) as setup:
        assert await play(setup, scenario="anthropic_tools") == "Sun."
        check_results(setup)


@LANGCHAIN.does("stream")
async def test_langchain_streams(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good day.")]) as setup:
        assert await play(setup, scenario="langchain_stream") == "Good day."


@LANGCHAIN.does("tools")
async def test_langchain_tools(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, TOOLS, same_format=dialect == "anthropic"
    ) as setup:
        assert await play(setup, scenario="langchain_tools") == "Sun."
        check_results(setup)


@PYDANTIC_AI.does("tools, streamed")
async def test_pydantic_ai_tools(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, TOOLS, same_format=dialect == "anthropic"
    ) as setup:
        assert await play(setup, scenario="pydantic_tools") == "Sun."
        check_results(setup)


@PYDANTIC_AI.does("typed output")
async def test_pydantic_ai_types(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, TYPED, same_format=dialect == "anthropic"
    ) as setup:
        seen = await play(setup, scenario="pydantic_typed")
        assert seen == {"name": "Ulm", "people": 126000}
