"""Reasoning state reaches its provider again, across restarts and key rotation.

A session of six turns, with a gateway that is taken down and started anew between any two of them.
The provider must get, to the byte, the history that a client of its own would have sent. The client
either keeps no state and echoes what it was given, or names the response before; what it carries
may also be damaged, foreign, too old, or sealed with a key that has been replaced.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    Config,
    ProviderConfig,
    StoreConfig,
    TraceConfig,
)
from antiphon.engine.runtime import Runtime
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider, native_tail
from tests.support.scripted_providers.session import (
    SESSION,
    Document,
    echo_items,
    request_body,
    result_items,
    user_items,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import (
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    send_json,
    upstream,
)

HEADER = "antiphon-diagnostics"
CACHE_MARK = b',{"cachePoint":{"type":"default"}}'  # for the provider's cache: no part of a history


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@dataclass
class StatefulGateway:
    """Settings of gateways that are started one after another: provider, store and capsule keys."""

    scripted: ScriptedProvider
    kind: str
    model: str
    upstream: Upstream
    tmp_path: Path
    store: str = "memory://"
    keys: list[str] = field(default_factory=lambda: ["the first key"])
    now: int = 1_000_000
    refusals: list[Script] = field(default_factory=list)
    """What the provider plays before it goes on with the session."""

    def config(self) -> Config:
        entry = ProviderConfig(kind=self.kind, base_url=self.upstream.url, api_keys=["sk-up"])
        return replaced(
            settings(self.tmp_path, self.upstream.url),
            providers={"up": entry},
            store=StoreConfig(url=self.store),
            trace=TraceConfig(enabled=False),
            capsule=CapsuleConfig(keys=self.keys, ttl_s=1000),
            attempts=AttemptConfig(),
        )

    async def post_request(self, items: list[Document], **more: Any) -> Answer:
        """Start a gateway for one request."""
        async with running(self.config(), Runtime(now=lambda: self.now)) as gateway:
            answer = await post_request(gateway, request_body(f"up/{self.model}", items, **more))
        assert answer.status == 200, answer.body
        assert answer.response["status"] == "completed"
        return answer


@asynccontextmanager
async def stateful_gateway(
    tmp_path: Path, scripted: ScriptedProvider, kind: str, model: str
) -> AsyncIterator[StatefulGateway]:
    """Open a provider that answers turn by turn."""
    turns = iter(SESSION)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if setup.refusals:
            await setup.refusals.pop(0)(request, connection)
            return
        await connection.head(content_type=scripted.content_type)
        await connection.send(scripted.stream_bytes(next(turns)))
        await connection.end()

    async with upstream(script) as server:
        setup = StatefulGateway(scripted, kind, model, server, tmp_path)
        yield setup


def turn_input(index: int, before: Sequence[Document]) -> list[Document]:
    """The input of a turn, given the output of the one before."""
    return user_items(SESSION[index]) or result_items([*before], SESSION[index - 1])


def check(index: int, stateful_gateway: StatefulGateway) -> None:
    """The last request is what the provider's own client would have sent."""
    raw = stateful_gateway.upstream.requests[-1].raw.replace(CACHE_MARK, b"")
    assert raw.endswith(native_tail(stateful_gateway.scripted, SESSION[: index + 1])), raw.decode()


PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "deepseek": (ScriptedChat("deepseek", "tool_turns"), "deepseek-v4-pro"),
    "moonshot": (ScriptedChat("moonshot", "tool_turns"), "kimi-k2.6"),
    "xiaomi": (ScriptedChat("xiaomi", "tool_turns", silence=""), "mimo-v2.5-pro"),
    "zhipu": (ScriptedChat("zhipu", "always"), "glm-5.2"),
    "openrouter": (ScriptedChat("openrouter", details=True), "anthropic/claude-sonnet-4.5"),
    "anthropic": (ScriptedAnthropic(), "claude-sonnet-4-5"),
    "gemini": (ScriptedGemini(), "gemini-3-pro-preview"),
    "openai": (ScriptedResponses(), "gpt-5.4"),
    "ollama": (ScriptedOllama(), "qwen3"),
    "cohere": (ScriptedCohere("tool_turns"), "command-a-reasoning-08-2025"),
    "bedrock": (ScriptedBedrock(), "anthropic.claude-sonnet-4-5-20250929-v1:0"),
}


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_state_in_echoed_items_survives_a_restart(tmp_path: Path, kind: str) -> None:
    scripted, model = PROVIDERS[kind]
    async with stateful_gateway(tmp_path, scripted, kind, model) as setup:
        items: list[Document] = []
        output: list[Document] = []
        for index in range(len(SESSION)):
            items += turn_input(index, output)
            output = (await setup.post_request(items, store=False)).response["output"]
            items += echo_items(output)
            check(index, setup)


@pytest.mark.parametrize("kind", PROVIDERS)
async def test_state_behind_previous_response_id_survives_a_restart(
    tmp_path: Path, kind: str
) -> None:
    scripted, model = PROVIDERS[kind]
    async with stateful_gateway(tmp_path, scripted, kind, model) as setup:
        setup.store = f"sqlite:///{tmp_path / 'kept.db'}"
        output: list[Document] = []
        previous: dict[str, str] = {}
        for index in range(len(SESSION)):
            response = (await setup.post_request(turn_input(index, output), **previous)).response
            output, previous = response["output"], {"previous_response_id": response["id"]}
            check(index, setup)


# What cannot be opened

SIGNED = ("anthropic", "gemini", "openai", "bedrock", "openrouter")
"""Providers whose state nobody could make up."""


async def first_turn(setup: StatefulGateway) -> list[Document]:
    """Return the items of a thread whose first calls have no results yet."""
    items = user_items(SESSION[0])
    output = (await setup.post_request(items, store=False)).response["output"]
    assert [item["type"] for item in output if "encrypted_content" in item]
    return [*items, *echo_items(output), *result_items(output, SESSION[0])]


def with_capsule(items: list[Document], change: Callable[[str], str]) -> list[Document]:
    """The same items with a changed capsule."""
    return [
        {**item, "encrypted_content": change(item["encrypted_content"])}
        if "encrypted_content" in item
        else item
        for item in items
    ]


def states_in(setup: StatefulGateway) -> list[str]:
    """Which states of the first turn are in the last request."""
    return states_of(setup.scripted, setup.upstream.requests[-1])


def states_of(scripted: ScriptedProvider, received: ReceivedRequest) -> list[str]:
    escaped = {state: json.dumps(state)[1:-1] for state in scripted.states(SESSION[0])}
    return [state for state, text in escaped.items() if text in received.raw.decode()]


DAMAGES: dict[str, tuple[Callable[[str], str], str]] = {
    "altered": (
        lambda seal: f"{seal[:40]}{'A' if seal[40] != 'A' else 'B'}{seal[41:]}",
        "tampered",
    ),
    "cut": (lambda seal: seal[:-8], "tampered"),
    "emptied": (lambda seal: seal[:4], "unknown_key"),
    "not ours": (lambda seal: "gAAAAABo" + seal[8:], "foreign"),
    "no text at all": (lambda seal: "ap1.\u2603", "tampered"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["deepseek", *SIGNED])
async def test_a_capsule_that_cannot_be_opened_loses_only_its_state(
    tmp_path: Path, kind: str, damage: str
) -> None:
    scripted, model = PROVIDERS[kind]
    change, why = DAMAGES[damage]
    async with stateful_gateway(tmp_path, scripted, kind, model) as setup:
        items = with_capsule(await first_turn(setup), change)
        answer = await setup.post_request(items, store=False)
        assert states_in(setup) == []
    assert f"capsule.unused:{why}" in answer.headers[HEADER]


@pytest.mark.parametrize("kind", ["deepseek", *SIGNED])
async def test_a_capsule_expires(tmp_path: Path, kind: str) -> None:
    scripted, model = PROVIDERS[kind]
    async with stateful_gateway(tmp_path, scripted, kind, model) as setup:
        items = await first_turn(setup)
        setup.now += 1000
        assert HEADER not in (await setup.post_request(items, store=False)).headers
        assert states_in(setup) == scripted.states(SESSION[0])
        setup.now += 1
        answer = await setup.post_request(items, store=False)
        assert states_in(setup) == []
    assert "capsule.unused:expired" in answer.headers[HEADER]


@pytest.mark.parametrize("kind", SIGNED)
async def test_a_capsule_is_only_for_its_model(tmp_path: Path, kind: str) -> None:
    scripted, model = PROVIDERS[kind]
    async with stateful_gateway(tmp_path, scripted, kind, model) as setup:
        items = await first_turn(setup)
        setup.model = {"anthropic": "claude-opus-5", "openai": "gpt-5.2"}.get(kind, f"{model}-2")
        answer = await setup.post_request(items, store=False)
        assert states_in(setup) == []
    assert "capsule.unused" in answer.headers[HEADER]


async def test_plain_reasoning_is_sent_to_another_model(tmp_path: Path) -> None:
    scripted, model = PROVIDERS["deepseek"]
    async with stateful_gateway(tmp_path, scripted, "deepseek", model) as setup:
        items = await first_turn(setup)
        setup.model = "deepseek-flash"
        answer = await setup.post_request(items, store=False)
        assert states_in(setup) == [SESSION[0].thought]
        assert HEADER not in answer.headers


async def test_a_capsule_is_not_for_another_server_of_the_same_kind(tmp_path: Path) -> None:
    scripted = ScriptedChat("chat", details=True)
    async with (
        stateful_gateway(tmp_path, scripted, "chat", "m") as setup,
        stateful_gateway(tmp_path, scripted, "chat", "m") as elsewhere,
    ):
        items = await first_turn(setup)
        answer = await elsewhere.post_request(items, store=False)
        assert states_in(elsewhere) == []
        assert "capsule.unused:foreign" in answer.headers[HEADER]
        await setup.post_request(items, store=False)
        assert states_in(setup) == scripted.states(SESSION[0])


async def test_capsule_keys_can_be_rotated(tmp_path: Path) -> None:
    scripted, model = PROVIDERS["anthropic"]
    async with stateful_gateway(tmp_path, scripted, "anthropic", model) as setup:
        items: list[Document] = []
        output: list[Document] = []
        keys = ["a", "a", "b a", "b a", "c b a", "c b a"]
        for index, held in enumerate(keys):
            setup.keys = held.split()
            items += turn_input(index, output)
            output = (await setup.post_request(items, store=False)).response["output"]
            items += echo_items(output)
            check(index, setup)


async def test_a_removed_capsule_key_invalidates_only_its_capsules(
    tmp_path: Path,
) -> None:
    scripted, model = PROVIDERS["openai"]
    async with stateful_gateway(tmp_path, scripted, "openai", model) as setup:
        setup.keys = ["old"]
        items = await first_turn(setup)
        setup.keys = ["new", "old"]
        output = (await setup.post_request(items, store=False)).response["output"]
        items += [*echo_items(output), *result_items(output, SESSION[1])]
        setup.keys = ["new"]
        answer = await setup.post_request(items, store=False)
        assert "capsule.unused:unknown_key" in answer.headers[HEADER]
        assert states_in(setup) == []
        assert scripted.states(SESSION[1])[0] in setup.upstream.requests[-1].raw.decode()


# What the provider does not take back

REFUSED = {
    "anthropic": {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"},
    "gemini": {"message": "Invalid thought_signature", "code": 400, "status": "INVALID_ARGUMENT"},
    "openai": {"message": "The content could not be verified", "code": "invalid_encrypted_content"},
    "bedrock": {"message": "The signature in reasoningContent is not valid"},
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_rejected_signature_is_left_out_once(tmp_path: Path, kind: str) -> None:
    scripted, model = PROVIDERS[kind]
    async with stateful_gateway(tmp_path, scripted, kind, model) as setup:
        items = await first_turn(setup)
        setup.refusals = [send_json(400, {"error": REFUSED[kind]})]
        answer = await setup.post_request(items, store=False)
        assert len(setup.upstream.requests) == 3
        with_state, without = setup.upstream.requests[-2:]
        assert states_of(scripted, with_state) == scripted.states(SESSION[0])
        assert states_of(scripted, without) == []
        assert scripted.problems(without.raw) == []
    assert "capsule.unused:refused" in answer.headers[HEADER]
