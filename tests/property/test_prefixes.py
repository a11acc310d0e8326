"""The prefix of a growing thread: for every pair of client format and dialect, the request of a
turn begins with the bytes of the turn before.

A changed prefix would miss the provider's prompt cache. Breakpoints move with the thread, and are
compared apart from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.client_dialect import ClientDialect
from antiphon.dialects.responses.client import RESPONSES
from antiphon.providers.registry import Provider
from tests.support.outbound_requests import configured
from tests.support.plans import make_plan

Document = dict[str, Any]
MARKS = re.compile(rb',?"cache_control":\{[^}]*\}|,?\{"cachePoint":\{[^}]*\}\}')
MODELS = {
    "chat": "some-model",
    "deepseek": "deepseek-v4-pro",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "openai": "gpt-5.4",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "command-a-reasoning-08-2025",
    "ollama": "qwen3",
}
DIALECTS = {each.name: each for each in (RESPONSES, CHAT, MESSAGES)}


class Step(NamedTuple):
    """What a user said, what the model said, and the results of the calls that it made."""

    user: str
    text: str
    results: tuple[str, ...]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
SAID = TEXT.filter(str.strip)
STEPS = st.lists(st.builds(Step, SAID, SAID, st.lists(TEXT, max_size=3).map(tuple)), max_size=5)


@cache
def provider_of(kind: str) -> Provider:
    return configured(kind)


def call_id(turn: int, number: int) -> str:
    return f"toolu_{turn:08}_{number:08}"


def body_of(format: str, system: str, steps: Sequence[Step], last: str) -> Document:
    """A request with this history, in a format."""
    write = {"responses": _items, "chat": _chat_messages, "messages": _messages}[format]
    thread = [part for turn, step in enumerate(steps) for part in write(turn, step)]
    said: Document = {"role": "user", "content": last}
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    function = {"name": "f", "parameters": schema}
    if format == "responses":
        tools: list[Document] = [{"type": "function", **function}]
        return {"model": "m", "instructions": system, "input": [*thread, said], "tools": tools}
    if format == "chat":
        tools = [{"type": "function", "function": function}]
        first = {"role": "system", "content": system}
        return {"model": "m", "messages": [first, *thread, said], "tools": tools}
    tools = [{"name": "f", "input_schema": schema}]
    messages = [*thread, said]
    return {
        "model": "m",
        "max_tokens": 9000,
        "system": system,
        "messages": messages,
        "tools": tools,
    }


def _items(turn: int, step: Step) -> list[Document]:
    calls, results = [], []
    for number, output in enumerate(step.results):
        made = {"call_id": call_id(turn, number)}
        calls.append({"type": "function_call", **made, "name": "f", "arguments": '{"a":"b"}'})
        results.append({"type": "function_call_output", **made, "output": output})
    said = {"role": "assistant", "content": step.text}
    return [{"role": "user", "content": step.user}, said, *calls, *results]


def _chat_messages(turn: int, step: Step) -> list[Document]:
    function = {"name": "f", "arguments": '{"a":"b"}'}
    ids = [call_id(turn, number) for number in range(len(step.results))]
    answer: Document = {"role": "assistant", "content": step.text}
    if ids:
        answer["tool_calls"] = [{"id": i, "type": "function", "function": function} for i in ids]
    pairs = zip(ids, step.results, strict=True)
    results = [{"role": "tool", "tool_call_id": i, "content": output} for i, output in pairs]
    return [{"role": "user", "content": step.user}, answer, *results]


def _messages(turn: int, step: Step) -> list[Document]:
    ids = [call_id(turn, number) for number in range(len(step.results))]
    uses = [{"type": "tool_use", "id": i, "name": "f", "input": {"a": "b"}} for i in ids]
    answer = [{"type": "text", "text": step.text}, *uses]
    pairs = zip(ids, step.results, strict=True)
    results = [{"type": "tool_result", "tool_use_id": i, "content": out} for i, out in pairs]
    thread: list[Document] = [
        {"role": "user", "content": step.user},
        {"role": "assistant", "content": answer},
    ]
    return [*thread, {"role": "user", "content": results}] if results else thread


def encode(kind: str, dialect: ClientDialect, body: Document) -> bytes:
    provider, model = provider_of(kind), MODELS[kind]
    capabilities = provider.capabilities(model)
    request = dialect.parse(json.loads(json.dumps(body)))
    plan = make_plan(request, [], provider=provider.name, model=model, capabilities=capabilities)
    return MARKS.sub(b"", provider.dialect.encode(plan, stream=True).body)


@pytest.mark.parametrize("format", DIALECTS)
@pytest.mark.parametrize("kind", MODELS)
@given(system=SAID, steps=STEPS, step=st.builds(Step, SAID, SAID, st.just(())), last=SAID)
def test_a_turn_begins_with_the_bytes_of_the_turn_before(
    kind: str, format: str, system: str, steps: list[Step], step: Step, last: str
) -> None:
    """The model has answered what was the last message, and the user goes on."""
    before = encode(kind, DIALECTS[format], body_of(format, system, steps, step.user))
    after = encode(kind, DIALECTS[format], body_of(format, system, [*steps, step], last))
    assert before.endswith(b"]}")
    assert after.startswith(before[:-2])
