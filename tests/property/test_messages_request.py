"""Any Messages document is parsed and planned for every provider, or refused with its path; and a
growing thread keeps the prefix that prompt caches need."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.dialects.dialect import Dialect
from antiphon.errors import InvalidRequest
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.registry import SPECS
from tests.property.test_request import strings_of
from tests.support import captured_messages as captured
from tests.support.plans import make_plan

Document = dict[str, Any]

PROVIDERS = ("anthropic", "deepseek", "gemini", "bedrock", "cohere", "ollama", "openai", "vllm")
"""One of each dialect, and one that accepts a system message first only."""
SAMPLE: Document = {
    "model": "m",
    "max_tokens": 100,
    "stream": True,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 4,
    "stop_sequences": ["END"],
    "service_tier": "auto",
    "metadata": {"user_id": "u"},
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "summarized"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "cache_control": {"type": "ephemeral"},
    "thread": {"type": "continue", "previous_message_id": "msg_1"},
    "system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}],
    "tools": [
        {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True, "strict": True},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": [{"type": "text", "text": "now"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "ap2.AAAA"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "a", "citations": []},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "no"},
                        {"type": "tool_reference", "tool_name": "f"},
                        {"type": "image", "source": {"type": "url", "url": "https://x.test/a"}},
                    ],
                },
                {
                    "type": "document",
                    "title": "t",
                    "source": {"type": "text", "media_type": "text/plain", "data": "d"},
                },
            ],
        },
    ],
}
DOCUMENTS = [SAMPLE, *(each.body for each in captured.requests().values())]

words = st.sampled_from(sorted({word for word in strings_of(SAMPLE) if len(word) < 40}))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=10,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(each for name, inner in children for each in places(inner, (*path, name)))]


def changed(document: Document, path: tuple[Any, ...], value: Any) -> Document:
    copied: Document = json.loads(json.dumps(document))
    target: Any = copied
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return copied


def dialect_of(name: str) -> Dialect:
    return make_dialect(SPECS[name])


def body_for(name: str, document: Document) -> Document:
    """The body that a provider gets for a request."""
    can = SPECS[name].capabilities_of("some-model")
    plan = make_plan(parse_messages(document), provider=name, model="m", capabilities=can)
    body: Document = msgspec.json.decode(dialect_of(name).encode(plan, stream=False).body)
    return body


def refusal(call: Callable[[], object]) -> InvalidRequest | None:
    try:
        call()
    except InvalidRequest as error:
        return error
    return None


@given(st.data())
def test_any_document_is_served_or_refused_with_a_path(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(DOCUMENTS))
    path = data.draw(st.sampled_from(places(document)[1:]))
    odd = changed(document, path, data.draw(json_values))
    error = refusal(partial(parse_messages, odd))
    if error is not None:
        assert (error.status, bool(error.param)) == (400, True)
        assert str(error.param).startswith(str(path[0]))
        return
    for name in PROVIDERS:
        refused = refusal(partial(body_for, name, odd))
        # A plan may refuse, such as a tool that no server can run.
        assert refused is None or refused.param


# --- prompt caches --------------------------------------------------------------------------------


def thread(turns: int, *, as_blocks: bool) -> Document:
    """A thread of Claude Code: the form of the content changes from turn to turn, and a breakpoint
    moves to its end."""
    messages: list[Document] = [
        {"role": "user", "content": content("hi", as_blocks)},
        {"role": "system", "content": content("the environment", as_blocks)},
    ]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{turn:020}", "name": "Bash", "input": {"n": turn}}
        answer = [{"type": "text", "text": f"step {turn}"}, use]
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": f"result {turn}"}
        note = {"type": "text", "text": f"<system-reminder>{turn}</system-reminder>"}
        messages += [
            {"role": "assistant", "content": answer},
            {"role": "user", "content": [result, note]},
        ]
    last = messages[-1]["content"]
    if isinstance(last, list):
        last[-1]["cache_control"] = {"type": "ephemeral"}
    tools = [{"name": "Bash", "input_schema": {"type": "object", "properties": {}}}]
    system = f"x-anthropic-billing-header: cc_version=2.1.326.{turns};"
    prompt = {"type": "text", "text": "You are an agent.", **CACHED}
    blocks = [{"type": "text", "text": system}, prompt]
    return {"model": "m", "system": blocks, "tools": tools, "messages": messages}


CACHED = {"cache_control": {"type": "ephemeral"}}


def content(text: str, as_blocks: bool) -> Any:
    return [{"type": "text", "text": text}] if as_blocks else text


def conversation(body: Document) -> list[Any]:
    """The part of a body that grows, without breakpoints: no provider compares those."""
    grown = next(body[name] for name in ("messages", "contents", "input") if name in body)
    text = json.dumps(grown)
    for mark in ('"cache_control": {"type": "ephemeral"}', '{"cachePoint": {"type": "default"}}'):
        text = text.replace(f", {mark}", "")
    found: list[Any] = json.loads(text)
    return found


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_growing_thread_keeps_its_prefix_on_every_provider(name: str) -> None:
    before: list[Any] = []
    fixed: list[Document] = []
    for turns in range(4):
        body = body_for(name, thread(turns, as_blocks=turns % 2 == 0))
        found = conversation(body)
        # Only the last message of a turn may get more content: the first turn ends with a system
        # message, which is text of the user for some providers.
        assert found[: len(before)] == before
        before = found
        rest = {key: value for key, value in body.items() if value is not body.get("messages")}
        fixed.append({key: rest[key] for key in rest if key in ("tools", "toolConfig")})
    assert all(each == fixed[0] for each in fixed)


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "anthropic"])
def test_the_billing_line_reaches_no_other_provider(name: str) -> None:
    assert "x-anthropic-billing-header" not in json.dumps(body_for(name, thread(2, as_blocks=True)))
    assert "x-anthropic-billing-header" in json.dumps(
        body_for("anthropic", thread(2, as_blocks=True))
    )
