"""The canonical vocabulary: what each dialect sends of the members that only some formats have.

One table: a member of a client, and where it stands in the request to a provider of each dialect.
Where the provider has none, the member is a diagnostic (hints are not). Every cell is a real
request of a client format, parsed, planned and encoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from antiphon.core.plan.plan import Plan
from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.client_dialect import ClientDialect
from antiphon.dialects.responses.client import RESPONSES
from tests.support.outbound_requests import configured
from tests.support.plans import make_plan

Document = dict[str, Any]
MODELS: Mapping[str, str] = {
    "chat": "some-model",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "openai": "gpt-5.4",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "command-a-reasoning-08-2025",
    "ollama": "qwen3",
}
"""A provider of each dialect, and of Chat Completions a second one with more members."""


class Reported(NamedTuple):
    """The provider has no such member: the diagnostic."""

    code: str


class Hint(NamedTuple):
    """The provider has no such member, and needs none: nothing is sent, nothing is reported."""


IGNORED = Reported("param.ignored")
Cell = str | Reported | Hint
"""The path in the body for the provider (`*` is the last element), or what becomes of it."""

TABLE: Mapping[str, Mapping[str, Cell]] = {
    "stop": {
        "chat": 'stop=["END"]',
        "openrouter": 'stop=["END"]',
        "openai": IGNORED,
        "anthropic": 'stop_sequences=["END"]',
        "gemini": 'generationConfig.stopSequences=["END"]',
        "bedrock": 'inferenceConfig.stopSequences=["END"]',
        "cohere": 'stop_sequences=["END"]',
        "ollama": 'options.stop=["END"]',
    },
    "top_k": {
        "chat": IGNORED,
        "openrouter": "top_k=7",
        "openai": IGNORED,
        "anthropic": "top_k=7",
        "gemini": "generationConfig.topK=7",
        "bedrock": "additionalModelRequestFields.top_k=7",
        "cohere": "k=7",
        "ollama": "options.top_k=7",
    },
    "seed": {
        "chat": "seed=5",
        "openrouter": "seed=5",
        "openai": IGNORED,
        "anthropic": IGNORED,
        "gemini": "generationConfig.seed=5",
        "bedrock": IGNORED,
        "cohere": "seed=5",
        "ollama": "options.seed=5",
    },
    "logit_bias": {
        "chat": IGNORED,
        "openrouter": 'logit_bias={"50256":-100}',
        "openai": IGNORED,
        "anthropic": IGNORED,
        "gemini": IGNORED,
        "bedrock": IGNORED,
        "cohere": IGNORED,
        "ollama": IGNORED,
    },
    "thinking budget": {
        "chat": Reported("effort.degraded"),
        "openrouter": "reasoning.max_tokens=2048",
        "openai": Reported("effort.degraded"),
        "anthropic": "thinking.budget_tokens=2048",
        "gemini": "generationConfig.thinkingConfig.thinkingBudget=2048",
        "bedrock": "additionalModelRequestFields.thinking.budget_tokens=2048",
        "cohere": "thinking.token_budget=2048",
        "ollama": Reported("effort.degraded"),
    },
    "is_error": {
        "chat": Reported("history.error.unmarked"),
        "openrouter": Reported("history.error.unmarked"),
        "openai": Reported("history.error.unmarked"),
        "anthropic": "messages.*.content.*.is_error=true",
        "gemini": 'contents.*.parts.*.functionResponse.response={"error":"broken"}',
        "bedrock": 'messages.*.content.0.toolResult.status="error"',
        "cohere": Reported("history.error.unmarked"),
        "ollama": Reported("history.error.unmarked"),
    },
    "cache breakpoint": {
        "chat": Hint(),
        "openrouter": 'cache_control={"type":"ephemeral"}',
        "openai": Hint(),
        "anthropic": 'system.*.cache_control={"type":"ephemeral"}',
        "gemini": Hint(),
        "bedrock": 'system.*.cachePoint={"type":"default"}',
        "cohere": Hint(),
        "ollama": Hint(),
    },
    "no cache breakpoint": {
        "chat": Hint(),
        "openrouter": 'cache_control={"type":"ephemeral"}',
        "openai": Hint(),
        "anthropic": 'cache_control={"type":"ephemeral"}',
        "gemini": Hint(),
        "bedrock": 'messages.*.content.*.cachePoint={"type":"default"}',
        "cohere": Hint(),
        "ollama": Hint(),
    },
    "document citations": {
        "chat": Reported("history.file.inlined"),
        "openrouter": 'messages.*.content.0.file.filename="T"',
        "openai": 'input.*.content.0.filename="T"',
        "anthropic": "messages.*.content.0.citations.enabled=true",
        "gemini": 'contents.*.parts.0.inlineData.mimeType="text/plain"',
        "bedrock": 'messages.*.content.0.document.name="T"',
        "cohere": Reported("history.file.inlined"),
        "ollama": Reported("history.file.inlined"),
    },
}
"""A document goes to each provider; only Anthropic's API cites it by the switch of the client."""

_SAID = [{"role": "user", "content": "hi"}]
_CALL = {"type": "tool_use", "id": "toolu_0123456789abcdef", "name": "f", "input": {}}
_RESULT = {"type": "tool_result", "tool_use_id": _CALL["id"], "content": "broken"}
_FACTS = {"type": "text", "media_type": "text/plain", "data": "Facts."}
_MARK = {"cache_control": {"type": "ephemeral"}}
REQUESTS: Mapping[str, list[tuple[ClientDialect, Document]]] = {
    "stop": [
        (RESPONSES, {"input": "hi", "stop": ["END"]}),
        (CHAT, {"messages": _SAID, "stop": "END"}),
        (MESSAGES, {"messages": _SAID, "stop_sequences": ["END"]}),
    ],
    "top_k": [
        (RESPONSES, {"input": "hi", "top_k": 7}),
        (CHAT, {"messages": _SAID, "top_k": 7}),
        (MESSAGES, {"messages": _SAID, "top_k": 7}),
    ],
    "seed": [
        (RESPONSES, {"input": "hi", "seed": 5}),
        (CHAT, {"messages": _SAID, "seed": 5}),
    ],
    "logit_bias": [
        (RESPONSES, {"input": "hi", "logit_bias": {"50256": -100}}),
        (CHAT, {"messages": _SAID, "logit_bias": {"50256": -100}}),
    ],
    "thinking budget": [
        (MESSAGES, {"messages": _SAID, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (CHAT, {"messages": _SAID, "reasoning": {"max_tokens": 2048}}),
    ],
    "is_error": [
        (
            MESSAGES,
            {
                "tools": [{"name": "f", "input_schema": {"type": "object"}}],
                "messages": [
                    *_SAID,
                    {"role": "assistant", "content": [_CALL]},
                    {"role": "user", "content": [{**_RESULT, "is_error": True}]},
                ],
            },
        ),
    ],
    "cache breakpoint": [
        (MESSAGES, {"messages": _SAID, "system": [{"type": "text", "text": "Be.", **_MARK}]}),
    ],
    "no cache breakpoint": [
        (RESPONSES, {"input": "hi"}),
        (CHAT, {"messages": _SAID}),
    ],
    "document citations": [
        (
            MESSAGES,
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "document",
                                "source": _FACTS,
                                "title": "T",
                                "citations": {"enabled": True},
                            },
                            {"type": "text", "text": "hi"},
                        ],
                    }
                ]
            },
        ),
    ],
}
CASES = [
    pytest.param(member, kind, dialect, body, id=f"{member}-{kind}-{dialect.name}")
    for member, requests in REQUESTS.items()
    for dialect, body in requests
    for kind in MODELS
]


def test_the_table_is_complete() -> None:
    assert TABLE.keys() == REQUESTS.keys()
    assert {frozenset(row) for row in TABLE.values()} == {frozenset(MODELS)}


def encode(kind: str, dialect: ClientDialect, body: Document) -> tuple[Document, Plan]:
    provider = configured(kind)
    limit = {"max_tokens": 16_000} if dialect is MESSAGES else {}
    request = dialect.parse({"model": "m", **limit, **body})
    capabilities = provider.capabilities(MODELS[kind])
    plan = make_plan(
        request, [], provider=provider.name, model=MODELS[kind], capabilities=capabilities
    )
    return json.loads(provider.dialect.encode(plan, stream=False).body), plan


def find(body: Any, path: str) -> Any:
    """The value at a path; None if there is none."""
    for name in path.split("."):
        if isinstance(body, list):
            body = body[-1 if name == "*" else int(name)] if body else None
        else:
            body = body.get(name) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize(("member", "kind", "dialect", "body"), CASES)
def test_a_member_reaches_each_provider_that_has_it(
    member: str, kind: str, dialect: ClientDialect, body: Document
) -> None:
    sent, plan = encode(kind, dialect, body)
    codes = {str(each.code) for each in plan.diagnostics}
    match TABLE[member][kind]:
        case Reported(code):
            assert code in codes
        case Hint():
            assert not codes
            assert "cache" not in json.dumps(sent)
        case str(cell):
            path, _, value = cell.partition("=")
            assert find(sent, path) == json.loads(value), sent
            assert IGNORED.code not in codes
