"""Rounds in every dialect: requests of follow-up rounds are valid.

The provider of each dialect checks what it gets the way the real one would, and answers natively.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ProviderConfig, SearchConfig
from antiphon.dialects.dialect import DIALECTS
from antiphon.providers.registry import SPECS
from tests.support.client_answers import post_request
from tests.support.demand_scripts import native_turns
from tests.support.gateways import Running, replaced, running, settings
from tests.support.patches import FILES, patch
from tests.support.rounds import (
    PATCH,
    READ,
    SEARCH,
    SEARCH_RESULTS,
    TEXT_FORMAT,
    ULM,
    item_types,
    output_text,
)
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Call, Turn
from tests.support.upstream import Upstream, upstream

PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "chat": (ScriptedChat(), "m"),
    "anthropic": (ScriptedAnthropic(), "claude-opus-4-6"),
    "gemini": (ScriptedGemini(), "gemini-3-pro"),
    "openai": (ScriptedResponses(), "gpt-5.5"),
    "ollama": (ScriptedOllama(), "qwen3"),
    "cohere": (ScriptedCohere(), "command-a-reasoning-08-2025"),
    "bedrock": (ScriptedBedrock(), "anthropic.claude-opus-4-6-v1"),
}
every_dialect = pytest.mark.parametrize("kind", PROVIDERS)

SOUND = patch(FILES["text"])
BROKEN = SOUND.replace("+one", "one")


def patch_call(text: str) -> Call:
    return Call("apply_patch", json.dumps({"input": text}, separators=(",", ":")), "")


SEARCH_CALL = Call("web_search", '{"query":"rain"}', "")
READ_CALL = Call("read", "{}", "")


@dataclass
class DialectGateway:
    gateway: Running
    upstream: Upstream
    scripted: ScriptedProvider
    model: str

    async def fetch_response(self, **body: Any) -> dict[str, Any]:
        """Return a finished response; every request to the provider must be valid."""
        fields = {"model": self.model, "input": "Hello?", "stream": True, **body}
        answer = await post_request(self.gateway, fields)
        assert (answer.status, answer.response["status"]) == (200, "completed"), answer.body
        for each in self.upstream.requests:
            assert self.scripted.problems(each.raw) == []
        return answer.response


@asynccontextmanager
async def dialect_gateway(
    tmp_path: Path, kind: str, turns: Sequence[Turn]
) -> AsyncIterator[DialectGateway]:
    scripted, model = PROVIDERS[kind]
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(SEARCH_RESULTS))
    async with upstream(native_turns(scripted, turns)) as server:
        entry = ProviderConfig(
            kind=kind,
            base_url=server.url,
            api_keys=["sk-up"],
            web_search="managed",
        )
        config = replaced(
            settings(tmp_path, server.url),
            providers={"up": entry},
            search=SearchConfig(backend="recorded", url=f"file://{path}"),
        )
        async with running(config) as gateway:
            yield DialectGateway(gateway, server, scripted, f"up/{model}")


@every_dialect
async def test_a_reasoning_only_turn_gets_a_reminder(tmp_path: Path, kind: str) -> None:
    turns = [Turn(1, thought="Hm."), Turn(2, thought="Oh.", text="Here it is.")]
    async with dialect_gateway(tmp_path, kind, turns) as setup:
        response = await setup.fetch_response(reasoning={"effort": "high"}, tools=[READ])
        assert len(setup.upstream.requests) == 2
        assert "neither answered" in setup.upstream.requests[1].raw.decode()
    assert output_text(response) == "Here it is."


@every_dialect
async def test_a_patch_is_corrected(tmp_path: Path, kind: str) -> None:
    turns = [
        Turn(1, thought="Hm.", text="I patch.", calls=(patch_call(BROKEN),)),
        Turn(2, thought="Oh.", calls=(patch_call(SOUND),)),
    ]
    async with dialect_gateway(tmp_path, kind, turns) as setup:
        response = await setup.fetch_response(tools=[PATCH, READ], reasoning={"effort": "high"})
        assert len(setup.upstream.requests) == 2
    [call] = [item for item in response["output"] if item["type"] == "custom_tool_call"]
    assert call["input"] == SOUND


@every_dialect
async def test_structured_output_is_repaired(tmp_path: Path, kind: str) -> None:
    turns = [Turn(1, thought="Hm.", text="Ulm."), Turn(2, thought="Oh.", text=ULM)]
    async with dialect_gateway(tmp_path, kind, turns) as setup:
        response = await setup.fetch_response(text=TEXT_FORMAT)
        assert len(setup.upstream.requests) == 2
    assert output_text(response) == ULM


@every_dialect
async def test_a_search_is_made(tmp_path: Path, kind: str) -> None:
    turns = [
        Turn(1, thought="Hm.", text="I look.", calls=(SEARCH_CALL,)),
        Turn(2, thought="Oh.", calls=(SEARCH_CALL, SEARCH_CALL)),
        Turn(3, text="It rains [1]."),
        Turn(4, text="Still."),
    ]
    async with dialect_gateway(tmp_path, kind, turns) as setup:
        more: dict[str, Any] = {"tools": [SEARCH, READ], "reasoning": {"effort": "high"}}
        response = await setup.fetch_response(**more)
        assert len(setup.upstream.requests) == 3
        await setup.fetch_response(previous_response_id=response["id"], input="Sure?", **more)
    assert item_types(response)[-4:] == ["web_search_call"] * 3 + ["message"]


@every_dialect
async def test_one_answer_with_every_kind_of_follow_up(tmp_path: Path, kind: str) -> None:
    """A reminder, a search, a patch that breaks its grammar beside a call of the client's."""
    turns = [
        Turn(1, thought="Hm."),
        Turn(2, calls=(SEARCH_CALL,)),
        Turn(3, thought="So.", calls=(READ_CALL, patch_call(BROKEN))),
        Turn(4, calls=(patch_call(SOUND),)),
        Turn(5, text="Done."),
    ]
    async with dialect_gateway(tmp_path, kind, turns) as setup:
        more: dict[str, Any] = {"tools": [SEARCH, READ, PATCH], "reasoning": {"effort": "high"}}
        response = await setup.fetch_response(**more)
        assert len(setup.upstream.requests) == 4
        called = [item for item in response["output"] if item["type"].endswith("tool_call")]
        called += [item for item in response["output"] if item["type"] == "function_call"]
        outputs = [
            {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "ok"}
            for item in called
        ]
        await setup.fetch_response(previous_response_id=response["id"], input=outputs, **more)
    assert sorted(item_types(response)) == ["custom_tool_call", "function_call", "web_search_call"]


def test_every_dialect_has_a_provider_here() -> None:
    assert {SPECS[name].dialect for name in PROVIDERS} == set(DIALECTS)
