"""Token counters of providers: which request is sent, and what is read of the answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from antiphon.dialects.dialect import DIALECTS, resolve
from antiphon.dialects.gemini.dialect import GeminiDialect
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.dialects.token_count import TokenCounter

PLAN = Plan(
    provider="p",
    model="maker.m",
    instructions="Be brief.",
    history=(MessageStep("user", (TextPart("Hello"),)),),
    declarations=(ToolDeclaration(name="look", parameters={"type": "object"}),),
    parameters={"temperature": 0.5, "max_output_tokens": 100},
)
COUNTERS = {"anthropic", "bedrock", "gemini", "responses"}


def counter_of(name: str) -> TokenCounter:
    dialect = resolve(name)
    assert isinstance(dialect, TokenCounter)
    return dialect


def request_of(counter: TokenCounter) -> tuple[str, dict[str, Any]]:
    outbound = counter.count_request(PLAN)
    assert outbound is not None
    return outbound.path, msgspec.json.decode(outbound.body)


def test_four_dialects_have_a_counter() -> None:
    assert {name for name in DIALECTS if isinstance(DIALECTS[name], TokenCounter)} == COUNTERS


def test_anthropic_counts_a_request_without_its_limits() -> None:
    path, body = request_of(counter_of("anthropic"))
    assert path == "/v1/messages/count_tokens"
    assert body.keys() == {"model", "tools", "system", "messages"}
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


def test_a_server_with_another_path_has_no_counter() -> None:
    quirks = AnthropicQuirks(path="/models/{model}:rawPredict")
    assert AnthropicDialect(quirks).count_request(PLAN) is None


def test_anthropic_counts_the_servers_of_the_client() -> None:
    extra = {"format": "messages", "members": {"mcp_servers": [{"name": "sky"}], "other": 1}}
    plan = msgspec.structs.replace(PLAN, parameters={"extra": extra})
    outbound = AnthropicDialect().count_request(plan)
    assert outbound is not None
    body = msgspec.json.decode(outbound.body)
    assert (body["mcp_servers"], "other" in body) == ([{"name": "sky"}], False)


def test_gemini_counts_a_wrapped_request() -> None:
    path, body = request_of(counter_of("gemini"))
    assert path == "/models/maker.m:countTokens"
    [(name, request)] = body.items()
    assert (name, request["model"]) == ("generateContentRequest", "models/maker.m")
    assert request["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert request["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]


def test_vertex_counts_a_request_as_it_is() -> None:
    _, body = request_of(GeminiDialect(quirks=GeminiQuirks(counts_wrapped_request=False)))
    assert body.keys() == {"systemInstruction", "tools", "generationConfig", "contents"}


def test_bedrock_counts_a_converse_request() -> None:
    path, body = request_of(counter_of("bedrock"))
    assert path == "/model/maker.m/count-tokens"
    converse = body["input"]["converse"]
    assert converse.keys() == {"toolConfig", "system", "messages"}


def test_a_responses_server_counts_what_determines_the_input() -> None:
    path, body = request_of(counter_of("responses"))
    assert path == "/responses/input_tokens"
    assert body.keys() == {"model", "instructions", "tools", "tool_choice", "input"}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("anthropic", "input_tokens"),
        ("bedrock", "inputTokens"),
        ("gemini", "totalTokens"),
        ("responses", "input_tokens"),
    ],
)
def test_the_count_is_read_and_nothing_else_is_taken_for_one(name: str, field: str) -> None:
    counter = counter_of(name)
    assert counter.read_count(msgspec.json.encode({field: 12})) == 12
    for value in ("12", -1, True, None, 1.5):
        assert counter.read_count(msgspec.json.encode({field: value})) is None
    assert counter.read_count(b"<html>") is None
    assert counter.read_count(b"[]") is None
