"""Reasoning state in every client format: threads whose provider changes at each turn.

A session of six turns with tools and reasoning goes back and forth between two providers. Each
refuses what its native format does not allow, and must get its own state back, to the byte. The
client speaks Responses, Messages or Chat Completions. Clients of Chat Completions return little:
nothing but texts and calls, or the text of the reasoning, or they forbid to store anything.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import pytest

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    Config,
    ProviderConfig,
    StoreConfig,
    TraceConfig,
)
from antiphon.core.history.call_state import MAX_CHARS_IN_ID
from tests.support.gateways import Running, replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import (
    INSTRUCTIONS,
    SESSION,
    TOOLS,
    Document,
    Turn,
    echo_items,
    request_body,
    result_items,
    user_items,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import Connection, ReceivedRequest, Upstream, send_json, upstream

PROVIDERS: Mapping[str, tuple[ScriptedProvider, str]] = {
    "deepseek": (ScriptedChat("deepseek", "tool_turns"), "deepseek-v4-pro"),
    "anthropic": (ScriptedAnthropic(), "claude-sonnet-4-5"),
    "gemini": (ScriptedGemini(), "gemini-3-pro-preview"),
    "openai": (ScriptedResponses(), "gpt-5.4"),
    "ollama": (ScriptedOllama(), "qwen3"),
    "openrouter": (ScriptedChat("openrouter", details=True), "anthropic/claude-sonnet-4.5"),
    "cohere": (ScriptedCohere("tool_turns"), "command-a-reasoning-08-2025"),
    "bedrock": (ScriptedBedrock(), "anthropic.claude-sonnet-4-5-20250929-v1:0"),
}
OWN_MEMBERS = {
    "unknown key thinking",
    "unknown key usage",
    "unknown key reasoning",
    "unknown key cache_control",
    "bad tool choice None",
}
"""What servers of Chat Completions take beyond the format, and what DeepSeek wants left out."""
PAIRS = [*pairwise([*PROVIDERS, "deepseek"])]


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


# --- clients --------------------------------------------------------------------------------------


class ClientThread(Protocol):
    """The history of a client in its own format."""

    path: str

    def ask(self, turn: Turn, before: Turn | None) -> None:
        """Add what the client sends in a turn: a text, or the results of the turn before."""

    def body(self, model: str) -> Document: ...

    def read(self, events: list[Document]) -> None:
        """Add the response, as far as this client keeps it."""

    def carries(self, turn: Turn, states: list[str]) -> bool:
        """Whether the state of a turn is expected to come back."""


class ResponsesThread:
    path = "/responses"

    def __init__(self) -> None:
        self._items: list[Document] = []
        self._output: list[Document] = []

    def ask(self, turn: Turn, before: Turn | None) -> None:
        self._items += user_items(turn) or result_items(self._output, before or turn)

    def body(self, model: str) -> Document:
        return request_body(model, self._items, store=False)

    def read(self, events: list[Document]) -> None:
        assert events[-1]["type"] == "response.completed", events[-1]
        self._output = events[-1]["response"]["output"]
        self._items += echo_items(self._output)

    def carries(self, turn: Turn, states: list[str]) -> bool:
        return True


class ChatThread:
    """A client that returns nothing of the reasoning."""

    path = "/chat/completions"
    store: bool | None = None
    echoed: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._messages: list[Document] = [{"role": "system", "content": INSTRUCTIONS}]

    def ask(self, turn: Turn, before: Turn | None) -> None:
        if turn.user:
            self._messages.append({"role": "user", "content": turn.user})
            return
        calls = self._messages[-1]["tool_calls"]
        for call, made in zip(calls, (before or turn).calls, strict=True):
            result = {"tool_call_id": call["id"], "content": made.result}
            self._messages.append({"role": "tool", **result})

    def body(self, model: str) -> Document:
        tools = [
            {"type": tool["type"], tool["type"]: {k: tool[k] for k in tool if k != "type"}}
            for tool in TOOLS
        ]
        return {
            "model": model,
            "messages": self._messages,
            "tools": tools,
            "reasoning_effort": "high",
            "stream": True,
            "store": self.store,
        }

    def read(self, events: list[Document]) -> None:
        assert [event["choices"][0]["finish_reason"] for event in events[-1:]] != [None], events
        message: Document = {"role": "assistant", "content": None}
        calls: list[Document] = []
        for event in events:
            delta = event["choices"][0]["delta"]
            for name in ("content", *self.echoed):
                if delta.get(name):
                    message[name] = (message.get(name) or "") + delta[name]
            for piece in delta.get("tool_calls", ()):
                _add_piece(calls, piece)
        if calls:
            message["tool_calls"] = calls
        self.add(message)

    def add(self, message: Document) -> None:
        """Add the message of a response."""
        self._messages.append(message)

    def carries(self, turn: Turn, states: list[str]) -> bool:
        """A response without calls has no carrier, and no provider demands its state."""
        return bool(turn.calls)


def _add_piece(calls: list[Document], piece: Document) -> None:
    index = piece.pop("index")
    if index == len(calls):
        calls.append(piece)
        return
    [(kind, fields)] = piece.items()
    for name, value in fields.items():
        calls[index][kind][name] += value


class ReasoningChatThread(ChatThread):
    """A client that returns the text of the reasoning."""

    echoed = ("reasoning_content",)


class UnstoredChatThread(ChatThread):
    """A client that wants nothing stored: state is in the ids, as far as it fits."""

    store = False

    def carries(self, turn: Turn, states: list[str]) -> bool:
        return bool(turn.calls) and sum(map(len, states)) < MAX_CHARS_IN_ID // 4


class MessagesThread:
    path = "/messages"

    def __init__(self) -> None:
        self._messages: list[Document] = []

    def ask(self, turn: Turn, before: Turn | None) -> None:
        if turn.user:
            self._messages.append({"role": "user", "content": turn.user})
            return
        uses = [block for block in self._messages[-1]["content"] if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": made.result}
            for use, made in zip(uses, (before or turn).calls, strict=True)
        ]
        self._messages.append({"role": "user", "content": results})

    def body(self, model: str) -> Document:
        text = {"type": "object", "properties": {"input": {"type": "string"}}}
        tools = [
            {"name": tool["name"], "input_schema": tool.get("parameters", text)} for tool in TOOLS
        ]
        return {
            "model": model,
            "max_tokens": 32000,
            "system": INSTRUCTIONS,
            "messages": self._messages,
            "tools": tools,
            "thinking": {"type": "enabled", "budget_tokens": 10000},
            "stream": True,
        }

    def read(self, events: list[Document]) -> None:
        assert events[-1]["type"] == "message_stop", events[-1]
        blocks: list[Document] = []
        inputs: dict[int, str] = {}
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                if "partial_json" in delta:
                    number = event["index"]
                    inputs[number] = inputs.get(number, "") + delta["partial_json"]
                for name in ("text", "thinking", "signature"):
                    if name in delta:
                        blocks[-1][name] += delta[name]
        for index, given in inputs.items():
            blocks[index]["input"] = json.loads(given)
        self._messages.append({"role": "assistant", "content": blocks})

    @property
    def blocks(self) -> list[Document]:
        """The content of the last message."""
        blocks: list[Document] = self._messages[-1]["content"]
        return blocks

    def carries(self, turn: Turn, states: list[str]) -> bool:
        return True


CLIENTS: Mapping[str, type[ClientThread]] = {
    "responses": ResponsesThread,
    "messages": MessagesThread,
    "chat": ChatThread,
    "chat with reasoning": ReasoningChatThread,
    "chat, nothing stored": UnstoredChatThread,
}


# --- gateway and providers ------------------------------------------------------------------------


class StrictProviders:
    """Servers of all scripted providers, each of which refuses what its format does not allow."""

    def __init__(self) -> None:
        self.turn = SESSION[0]
        self.received: list[ReceivedRequest] = []

    async def start(self, stack: AsyncExitStack) -> dict[str, Upstream]:
        return {
            kind: await stack.enter_async_context(upstream(self._script(scripted)))
            for kind, (scripted, _) in PROVIDERS.items()
        }

    def _script(self, scripted: ScriptedProvider) -> Any:
        async def script(request: ReceivedRequest, connection: Connection) -> None:
            self.received.append(request)
            if problems := set(scripted.problems(request.raw)) - OWN_MEMBERS:
                await send_json(400, {"error": {"message": str(problems)}})(request, connection)
                return
            await connection.head(content_type=scripted.content_type)
            await connection.send(scripted.stream_bytes(self.turn))
            await connection.end()

        return script


@asynccontextmanager
async def gateway_of_all(
    tmp_path: Path, store: str
) -> AsyncIterator[tuple[Running, StrictProviders]]:
    providers = StrictProviders()
    async with AsyncExitStack() as stack:
        servers = await providers.start(stack)
        config: Config = replaced(
            settings(tmp_path, servers["deepseek"].url),
            providers={
                kind: ProviderConfig(kind=kind, base_url=server.url, api_keys=["sk-up"])
                for kind, server in servers.items()
            },
            store=StoreConfig(url=store),
            trace=TraceConfig(enabled=False),
            capsule=CapsuleConfig(keys=["a key"]),
            attempts=AttemptConfig(),
            default_provider="deepseek",
        )
        gateway = await stack.enter_async_context(running(config))
        yield gateway, providers


async def play(
    gateway: Running, providers: StrictProviders, thread: ClientThread, kinds: tuple[str, str]
) -> list[str]:
    """Play the session; return what went wrong."""
    wrong: list[str] = []
    for index, turn in enumerate(SESSION):
        kind = kinds[index % 2]
        scripted, model = PROVIDERS[kind]
        providers.turn = turn
        providers.received.clear()
        thread.ask(turn, SESSION[index - 1] if index else None)
        status, events = await post(gateway, thread.path, thread.body(f"{kind}/{model}"))
        if status != 200 or len(providers.received) != 1:
            return [*wrong, f"{kinds} turn {index}: {status} {events}"]
        thread.read(events)
        raw = providers.received[0].raw.decode()
        if '"thinking":{"type":"disabled"}' in raw:
            continue  # the last turn was another provider's: this one may not think in between
        for earlier in range(index % 2, index, 2):
            states = scripted.states(SESSION[earlier])
            if thread.carries(SESSION[earlier], states):
                lost = [state for state in states if json.dumps(state)[1:-1] not in raw]
                wrong += [f"{kinds} turn {index}: state of {earlier} is lost: {lost}"] * bool(lost)
    return wrong


class Reachable(Protocol):
    """A gateway, in this process or in another one."""

    @property
    def base_url(self) -> str: ...
    @property
    def client(self) -> aiohttp.ClientSession: ...


async def post(gateway: Reachable, path: str, body: Document) -> tuple[int, list[Document]]:
    async with gateway.client.post(gateway.base_url + path, json=body) as answer:
        data = await answer.read()
    if answer.status != 200:
        return answer.status, [json.loads(data)]
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    return 200, [json.loads(line) for line in lines if line != b"[DONE]"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_each_provider_gets_its_state_back_and_refuses_nothing(
    tmp_path: Path, client: str
) -> None:
    wrong: list[str] = []
    async with gateway_of_all(tmp_path, f"sqlite:///{tmp_path}/state.sqlite") as (gateway, servers):
        for kinds in PAIRS:
            wrong += await play(gateway, servers, CLIENTS[client](), kinds)
    assert wrong == []


async def test_state_of_calls_survives_a_restart_and_a_thread_survives_its_loss(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/state.sqlite"
    thread = ChatThread()
    async with gateway_of_all(tmp_path, url) as (gateway, servers):
        thread.ask(SESSION[0], None)
        body = thread.body("anthropic/claude-sonnet-4-5")
        thread.read((await post(gateway, thread.path, body))[1])
    body = thread.body("anthropic/claude-sonnet-4-5")
    thread.ask(SESSION[1], SESSION[0])
    async with gateway_of_all(tmp_path, url) as (gateway, servers):
        await post(gateway, thread.path, body)
        kept = servers.received[-1].raw.decode()
    assert all(state in kept for state in ScriptedAnthropic().states(SESSION[0]))
    async with gateway_of_all(tmp_path, f"sqlite:///{tmp_path}/other.sqlite") as (gateway, servers):
        status, _ = await post(gateway, thread.path, body)
        without = servers.received[-1].raw.decode()
    assert status == 200
    assert not any(state in without for state in ScriptedAnthropic().states(SESSION[0]))
