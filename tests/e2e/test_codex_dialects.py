"""Every captured Codex request is encoded as a valid request in every dialect.

The provider of each dialect checks what it gets the way the real one would, and answers natively.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ProviderConfig
from antiphon.dialects.dialect import DIALECTS
from antiphon.providers.registry import SPECS
from tests.support import captured_requests as captured
from tests.support.client_answers import post_request
from tests.support.gateways import Running, replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Turn
from tests.support.upstream import Connection, ReceivedRequest, Upstream, upstream

BODIES = captured.answerable()
pytestmark = pytest.mark.skipif(not BODIES, reason=captured.ABSENT)

PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "chat": (ScriptedChat(), "m"),
    "anthropic": (ScriptedAnthropic(), "claude-opus-4-6"),
    "gemini": (ScriptedGemini("older", signed=False), "gemini-2.5-pro"),
    "openai": (ScriptedResponses(), "gpt-5.5"),
    "ollama": (ScriptedOllama(), "qwen3"),
    "cohere": (ScriptedCohere(), "command-a-reasoning-08-2025"),
    "bedrock": (ScriptedBedrock(), "anthropic.claude-opus-4-6-v1"),
}
"""One provider of each dialect."""
ANSWER = Turn(1, thought="Hm.", text='{"city":"Ulm"}')
"""It has to fit the schema that one of the requests asks for."""


@dataclass
class DialectGateway:
    gateway: Running
    upstream: Upstream
    scripted: ScriptedProvider
    model: str


@pytest.fixture(scope="module", params=PROVIDERS)
async def dialect_gateway(
    anyio_backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DialectGateway]:
    scripted, model = PROVIDERS[request.param]

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=scripted.content_type)
        await connection.send(scripted.stream_bytes(ANSWER))
        await connection.end()

    async with upstream(script) as server:
        entry = ProviderConfig(kind=request.param, base_url=server.url, api_keys=["sk-up"])
        directory: Path = tmp_path_factory.mktemp("dialect")
        config = replaced(settings(directory, server.url), providers={"up": entry})
        async with running(config) as gateway:
            gateway.client.headers.update(captured.CLIENT)
            yield DialectGateway(gateway, server, scripted, f"up/{model}")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_codex_request_is_accepted(
    dialect_gateway: DialectGateway, body: dict[str, Any]
) -> None:
    fields = {name: value for name, value in body.items() if name != "previous_response_id"}
    answer = await post_request(dialect_gateway.gateway, {**fields, "model": dialect_gateway.model})
    assert (answer.status, answer.response["status"]) == (200, "completed"), answer.body
    assert dialect_gateway.scripted.problems(dialect_gateway.upstream.requests[-1].raw) == []
    messages = [item for item in answer.response["output"] if item["type"] == "message"]
    assert [part["text"] for item in messages for part in item["content"]] == [ANSWER.text]


def test_every_dialect_has_a_provider_here() -> None:
    assert {SPECS[name].dialect for name in PROVIDERS} == set(DIALECTS)
