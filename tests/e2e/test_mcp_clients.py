"""MCP servers by the official clients: the OpenAI SDK and the Agents SDK, streamed and whole, with
approvals, in the background with a second reader, on every dialect, and from one to another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
)
from openai import AsyncOpenAI, BadRequestError

from tests.support.mcp.server_gateway import (
    ASKING,
    DONE,
    GREET,
    PROVIDERS,
    TOOL,
    ServerGateway,
    every_dialect,
    server_gateway,
)
from tests.support.mcp.tools_server import ToolsServer, serve_tools
from tests.support.openai_client import openai_client
from tests.support.rounds import streamed_and_whole
from tests.support.scripted_providers.session import Turn
from tests.support.waiting import until_async

Document = dict[str, Any]
CALLED = ["mcp_list_tools", "mcp_call", "message"]
ASKED = ["mcp_list_tools", "mcp_approval_request"]
TEXT = "I have greeted her."
each_decision = pytest.mark.parametrize("approve", [True, False], ids=["approved", "refused"])
CHANGES = [*permutations(PROVIDERS, 2)]
each_change = pytest.mark.parametrize(
    ("first", "second"), CHANGES, ids=["-to-".join(each) for each in CHANGES]
)


@pytest.fixture(scope="module")
def server() -> Iterator[ToolsServer]:
    with serve_tools() as state:
        yield state


@asynccontextmanager
async def client_of(
    tmp_path: Path, server: ToolsServer, turns: Mapping[str, Sequence[Turn]]
) -> AsyncIterator[tuple[ServerGateway, AsyncOpenAI]]:
    """A client in strict mode; every request that a provider has got must be valid."""
    async with (
        server_gateway(tmp_path, server.url, turns) as setup,
        openai_client(setup.gateway) as client,
    ):
        yield setup, client
        assert setup.problems() == []


def model_of(kind: str) -> str:
    return f"{kind}/{PROVIDERS[kind][1]}"


def sent_last(setup: ServerGateway, kind: str) -> str:
    """The last request to the provider of a dialect."""
    return setup.upstreams[kind].requests[-1].raw.decode()


def types(response: Any) -> list[str]:
    return [item.type for item in response.output if item.type != "reasoning"]


# --- the OpenAI SDK -------------------------------------------------------------------------------


async def create(client: AsyncOpenAI, kind: str, *, stream: bool, **fields: Any) -> Any:
    """Make a response; that of a stream is what the SDK puts together."""
    given: Document = {"input": "Greet Ada.", "tools": [TOOL], **fields, "model": model_of(kind)}
    if not stream:
        return await client.responses.create(**given)
    async with client.responses.stream(**given) as events:
        async for _ in events:
            pass
        return await events.get_final_response()


def decide(response: Any, *, approve: bool) -> Document:
    """The decision of a user about the call that a response ends with."""
    asked = response.output[-1]
    assert (asked.type, asked.name, asked.server_label) == (ASKED[-1], "greet", "tests")
    decision = {"type": "mcp_approval_response", "approval_request_id": asked.id}
    return {**decision, "approve": approve, **({} if approve else {"reason": "Not now."})}


@streamed_and_whole
@every_dialect
async def test_a_call(tmp_path: Path, server: ToolsServer, kind: str, stream: bool) -> None:
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (_, client):
        response = await create(client, kind, stream=stream)
    assert types(response) == CALLED
    assert response.output_text == TEXT


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "sent back"])
@each_decision
@streamed_and_whole
@every_dialect
async def test_a_decision(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool, approve: bool, stored: bool
) -> None:
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (setup, client):
        given: Document = {"tools": [ASKING], "stream": stream, "store": stored}
        if not stored:
            given["include"] = ["reasoning.encrypted_content"]
        first = await create(client, kind, **given)
        assert types(first) == ASKED
        decision = decide(first, approve=approve)
        if stored:
            given |= {"previous_response_id": first.id, "input": [decision]}
        else:
            output = [item.to_dict() for item in first.output]
            given["input"] = [{"role": "user", "content": "Greet Ada."}, *output, decision]
        later = await create(client, kind, **given)
        sent = sent_last(setup, kind)
    assert types(later) == (["mcp_call", "message"] if approve else ["message"])
    assert later.output_text == TEXT
    assert ("Hello Ada" in sent, "Not now." in sent) == (approve, not approve)


@each_change
@streamed_and_whole
async def test_a_thread_changes_its_provider(
    tmp_path: Path, server: ToolsServer, first: str, second: str, stream: bool
) -> None:
    turns = {first: [GREET, DONE], second: [GREET, DONE]}
    async with client_of(tmp_path, server, turns) as (setup, client):
        begun = await create(client, first, stream=stream)
        later = await create(client, second, stream=stream, previous_response_id=begun.id)
        sent = sent_last(setup, second)
    assert types(begun) == CALLED
    assert types(later) == CALLED[1:]
    assert sent.count("Hello Ada") == 2


@each_change
@each_decision
async def test_the_provider_changes_before_the_decision(
    tmp_path: Path, server: ToolsServer, first: str, second: str, approve: bool
) -> None:
    turns = {first: [GREET], second: [DONE]}
    async with client_of(tmp_path, server, turns) as (setup, client):
        asked = await create(client, first, stream=True, tools=[ASKING])
        decision = decide(asked, approve=approve)
        given: Document = {"previous_response_id": asked.id, "tools": [ASKING]}
        later = await create(client, second, stream=False, input=[decision], **given)
        sent = sent_last(setup, second)
    assert types(later) == (["mcp_call", "message"] if approve else ["message"])
    assert ("Hello Ada" if approve else "Not now.") in sent


# --- Chat Completions -----------------------------------------------------------------------------


@streamed_and_whole
@every_dialect
async def test_a_client_of_chat_completions_gets_the_text(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool
) -> None:
    """The format has no item for the call of a server."""
    question: Any = [{"role": "user", "content": "Greet Ada."}]
    given: Document = {"model": model_of(kind), "messages": question, "tools": [TOOL]}
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (setup, client):
        if stream:
            chunks = await client.chat.completions.create(**given, stream=True)
            texts = [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]
            text = "".join(filter(None, texts))
        else:
            completion = await client.chat.completions.create(**given)
            text = completion.choices[0].message.content or ""
        sent = sent_last(setup, kind)
    assert text == TEXT
    assert "Hello Ada" in sent


async def test_a_client_of_chat_completions_cannot_approve(
    tmp_path: Path, server: ToolsServer
) -> None:
    question: Any = [{"role": "user", "content": "Greet Ada."}]
    tools: Any = [ASKING]
    async with client_of(tmp_path, server, {"chat": []}) as (_, client):
        with pytest.raises(BadRequestError) as caught:
            await client.chat.completions.create(model="chat/m", messages=question, tools=tools)
    assert caught.value.param == "tools[0].require_approval"


# --- in the background ----------------------------------------------------------------------------


async def read_twice(client: AsyncOpenAI, kind: str, until: str, **fields: Any) -> list[Any]:
    """All events of a background response: its reader leaves behind one of a type, and another
    reader goes on."""
    given: Document = {"input": "Greet Ada.", "tools": [TOOL], **fields, "model": model_of(kind)}
    stream: Any = await client.responses.create(**given, background=True, stream=True)
    first: list[Any] = []
    async for event in stream:
        first.append(event)
        if event.type == until:
            break
    await stream.close()
    last = first[-1].sequence_number
    response_id = first[0].response.id
    again: Any = await client.responses.retrieve(response_id, stream=True, starting_after=last)
    rest = [event async for event in again]
    numbers = [event.sequence_number for event in (*first, *rest)]
    assert numbers == list(range(len(numbers)))
    return [*first, *rest]


@pytest.mark.parametrize(
    "until",
    [
        "response.mcp_list_tools.in_progress",
        "response.mcp_call_arguments.delta",
        "response.output_text.delta",
    ],
)
@every_dialect
async def test_a_background_response_has_a_second_reader(
    tmp_path: Path, server: ToolsServer, kind: str, until: str
) -> None:
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (_, client):
        events = await read_twice(client, kind, until)
        kept = await client.responses.retrieve(events[0].response.id)
    assert [event.type for event in events].count("response.mcp_call.completed") == 1
    assert events[-1].type == "response.completed"
    assert types(events[-1].response) == types(kept) == CALLED


@each_decision
@every_dialect
async def test_a_decision_in_the_background(
    tmp_path: Path, server: ToolsServer, kind: str, approve: bool
) -> None:
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (_, client):
        asked = await read_twice(client, kind, "response.in_progress", tools=[ASKING])
        response = asked[-1].response
        assert types(response) == ASKED
        given = {"previous_response_id": response.id, "tools": [ASKING]}
        decision = decide(response, approve=approve)
        later = await read_twice(client, kind, "response.in_progress", input=[decision], **given)
    expected = ["mcp_call", "message"] if approve else ["message"]
    assert types(later[-1].response) == expected


@every_dialect
async def test_a_background_response_is_asked_for(
    tmp_path: Path, server: ToolsServer, kind: str
) -> None:
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (_, client):
        queued = await create(client, kind, stream=False, background=True)

        async def has_ended() -> bool:
            found = await client.responses.retrieve(queued.id)
            return found.status not in ("queued", "in_progress")

        await until_async(has_ended, "the response has ended")
        ended = await client.responses.retrieve(queued.id)
    assert (ended.status, types(ended)) == ("completed", CALLED)


# --- the Agents SDK -------------------------------------------------------------------------------


class User:
    """Decides about calls, and keeps what was asked."""

    def __init__(self, *, approve: bool = True) -> None:
        self._approve = approve
        self.asked: list[str] = []

    def __call__(self, request: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        self.asked.append(request.data.name)
        return {"approve": True} if self._approve else {"approve": False, "reason": "Not now."}


def agent_of(
    client: AsyncOpenAI, kind: str, user: User | None, tool: Any = ASKING, **settings: Any
) -> Agent[Any]:
    return Agent(
        name="Greeter",
        model=OpenAIResponsesModel(model_of(kind), openai_client=client),
        model_settings=ModelSettings(**settings),
        tools=[HostedMCPTool(tool_config=tool, on_approval_request=user)],
    )


async def run(agent: Agent[Any], given: Any, *, stream: bool, **options: Any) -> Any:
    quiet = RunConfig(tracing_disabled=True)
    if not stream:
        return await Runner.run(agent, given, run_config=quiet, **options)
    result = Runner.run_streamed(agent, given, run_config=quiet, **options)
    async for _ in result.stream_events():
        pass
    return result


@streamed_and_whole
@every_dialect
async def test_an_agent_calls(tmp_path: Path, server: ToolsServer, kind: str, stream: bool) -> None:
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (setup, client):
        result = await run(agent_of(client, kind, None, TOOL), "Greet Ada.", stream=stream)
        sent = sent_last(setup, kind)
    assert result.final_output == TEXT
    assert "Hello Ada" in sent


@each_decision
@streamed_and_whole
@every_dialect
async def test_an_agent_asks_for_approval(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool, approve: bool
) -> None:
    user = User(approve=approve)
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (setup, client):
        result = await run(agent_of(client, kind, user), "Greet Ada.", stream=stream)
        sent = sent_last(setup, kind)
    assert user.asked == ["greet"]
    assert result.final_output == TEXT
    assert ("Hello Ada" if approve else "Not now.") in sent


@each_decision
@streamed_and_whole
@every_dialect
async def test_an_agent_is_interrupted_for_approval(
    tmp_path: Path, server: ToolsServer, kind: str, stream: bool, approve: bool
) -> None:
    """Without a function that decides, the run ends, and its state is continued later."""
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (setup, client):
        agent = agent_of(client, kind, None)
        result = await run(agent, "Greet Ada.", stream=stream)
        [asked] = result.interruptions
        state = result.to_state()
        if approve:
            state.approve(asked)
        else:
            state.reject(asked)
        later = await run(agent, state, stream=stream)
        sent = sent_last(setup, kind)
    assert later.final_output == TEXT
    assert ("Hello Ada" in sent) is approve


@each_change
@streamed_and_whole
async def test_the_next_agent_has_another_provider(
    tmp_path: Path, server: ToolsServer, first: str, second: str, stream: bool
) -> None:
    user = User()
    turns = {first: [GREET, DONE], second: [GREET, DONE]}
    async with client_of(tmp_path, server, turns) as (setup, client):
        begun = await run(agent_of(client, first, user), "Greet Ada.", stream=stream)
        thread = [*begun.to_input_list(), {"role": "user", "content": "Greet Ada."}]
        later = await run(agent_of(client, second, user), thread, stream=stream)
        sent = sent_last(setup, second)
    assert user.asked == ["greet", "greet"]
    assert later.final_output == TEXT
    assert sent.count("Hello Ada") == 2


@every_dialect
async def test_an_agent_runs_in_the_background(
    tmp_path: Path, server: ToolsServer, kind: str
) -> None:
    user = User()
    async with client_of(tmp_path, server, {kind: [GREET, DONE]}) as (_, client):
        agent = agent_of(client, kind, user, extra_args={"background": True})
        result = await run(agent, "Greet Ada.", stream=True)
        [asked, called] = result.raw_responses
        kept = await client.responses.retrieve(called.response_id)
        again: Any = await client.responses.retrieve(asked.response_id, stream=True)
        events = [event async for event in again]
    assert (user.asked, result.final_output) == (["greet"], TEXT)
    assert (kept.background, types(kept)) == (True, ["mcp_call", "message"])
    assert types(events[-1].response) == ASKED
