"""Complaints about other gateways that serve Messages and Chat Completions: none applies here.

`@row(7)` is the number of the row in docs/format-complaints.md. Rows that other tests show name
them in their last column.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ModelConfig
from tests.support.checked_gateway import CheckedGateway, configured
from tests.support.format_judges import see_chat, see_messages
from tests.support.known_defects import row, rows_of
from tests.support.upstream import DONE, HELLO, HELLO_WORLD, Script, chunk, frame, send_frames
from tests.support.upstream import send_json as answer_json

PAGE = Path(__file__).parents[2] / "docs" / "format-complaints.md"
Document = dict[str, Any]
PIXEL = "iVBORw0KGgo="
SCHEMA: Document = {"type": "object", "properties": {"path": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
TOOLS = [{"name": "read", "input_schema": SCHEMA}]


@asynccontextmanager
async def gateway(
    tmp_path: Path, script: Script | None = None, **provider: Any
) -> AsyncIterator[CheckedGateway]:
    async with configured(tmp_path, script or send_frames(HELLO_WORLD), **provider) as setup:
        yield setup


async def post(setup: CheckedGateway, path: str, body: Document) -> tuple[int, Any, bytes]:
    url = f"{setup.gateway.base_url}/{path}"
    async with setup.gateway.client.post(url, json={"model": "m", "stream": True, **body}) as reply:
        return reply.status, reply.headers, await reply.read()


async def ask_chat(setup: CheckedGateway, *messages: Document, **more: Any) -> Document:
    """Send messages; return the request that the provider got."""
    status, _, data = await post(setup, "chat/completions", {"messages": [*messages], **more})
    assert status == 200, data
    return setup.upstream.requests[-1].body


async def ask(setup: CheckedGateway, *messages: Document, **more: Any) -> Document:
    """The same for a client of Messages."""
    body = {"messages": [*messages], "max_tokens": 100, **more}
    status, _, data = await post(setup, "messages", body)
    assert status == 200, data
    return setup.upstream.requests[-1].body


def user(content: Any) -> Document:
    return {"role": "user", "content": content}


def test_every_complaint_has_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.*?) \|$", PAGE.read_text("utf-8"), re.M)
    assert [int(number) for number, *_ in rows] == list(range(1, 26))
    module = vars(sys.modules[__name__])
    here = {number for test in module.values() for number in rows_of(test)}
    named = {int(number) for number, *_, shown in rows if "::" in shown}
    assert here | named == set(range(1, 26))
    for *_, shown in rows:
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown):
            assert f"def {name}(" in (PAGE.parents[1] / path).read_text("utf-8"), (path, name)


@row(3)
async def test_system_messages_keep_their_position(tmp_path: Path) -> None:
    thread = [user("a"), {"role": "system", "content": "now be brief"}, user("b")]
    async with gateway(tmp_path) as setup:
        for sent in (await ask_chat(setup, *thread), await ask(setup, *thread)):
            texts = [message["content"] for message in sent["messages"]]
            assert [str(text) for text in texts][-3:] == ["a", "now be brief", "b"]


@row(5, 15)
async def test_the_billing_line_reaches_no_other_provider_and_the_session_is_the_cache_key(
    tmp_path: Path,
) -> None:
    line = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=abc;"}
    system = [line, {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    metadata = {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s-1"}'}
    async with gateway(tmp_path) as setup:
        sent = await ask(setup, user("hi"), system=system, metadata=metadata)
        first = await ask_chat(setup, user("hi"), prompt_cache_key="s-1")
    assert "billing" not in str(sent)
    assert sent["messages"][0]["content"] == "Be kind."
    assert first.get("prompt_cache_key", "s-1") == "s-1"


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 5,
    "total_tokens": 105,
    "prompt_tokens_details": {"cached_tokens": 80},
}


@row(13, 14)
async def test_cached_tokens_are_reported_once_in_the_way_of_each_format(tmp_path: Path) -> None:
    frames = (*HELLO, chunk({}, "stop"), frame({"choices": [], "usage": USAGE}), DONE)
    async with gateway(tmp_path, send_frames(frames)) as setup:
        options = {"messages": [user("hi")], "stream_options": {"include_usage": True}}
        _, _, chat = await post(setup, "chat/completions", options)
        _, _, messages = await post(setup, "messages", {"messages": [user("hi")], "max_tokens": 9})
    assert b'"prompt_tokens":100,' in chat
    assert b'"cached_tokens":80,' in chat
    start, end = messages.index(b"message_start"), messages.index(b"message_delta")
    assert re.search(rb'"input_tokens":[1-9]', messages[start:end])
    assert b'"input_tokens":20,' in messages[end:]
    assert b'"cache_read_input_tokens":80' in messages[end:]


@row(10, 16)
async def test_an_overflow_has_the_words_that_clients_of_each_format_know(tmp_path: Path) -> None:
    message = "This model's maximum context length is 8192 tokens. Your messages have 9000 tokens."
    script = answer_json(400, {"error": {"message": message, "code": "context_length_exceeded"}})
    async with gateway(tmp_path, script) as setup:
        chat = await post(setup, "chat/completions", {"messages": [user("hi")]})
        messages = await post(setup, "messages", {"messages": [user("hi")], "max_tokens": 9})
    assert (chat[0], messages[0]) == (400, 400)
    assert b"context_length_exceeded" in chat[2]
    assert b"maximum context length is 8192 tokens" in chat[2]
    assert b"prompt is too long: 9000 tokens > 8192 maximum" in messages[2]


@row(18)
async def test_unknown_members_are_no_reason_to_refuse(tmp_path: Path) -> None:
    unknown: Document = {"some_beta": {"a": 1}, "safeguard_hint": "x"}
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    async with gateway(tmp_path) as setup:
        assert await ask_chat(setup, user("hi"), **unknown)
        thinking = {"type": "adaptive", "display": "updates"}
        assert await ask(setup, user("hi"), **unknown, context_management=edits, thinking=thinking)


@row(19)
async def test_disabled_thinking_beside_an_effort_is_accepted(tmp_path: Path) -> None:
    off = {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}
    async with gateway(tmp_path) as setup:
        assert await ask(setup, user("hi"), **off)
        reasoning = {"enabled": False}
        assert await ask_chat(setup, user("hi"), reasoning_effort="high", reasoning=reasoning)


@row(20)
async def test_images_in_tool_results_reach_the_model(tmp_path: Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "image", "source": source}],
    }
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.png"}}
    async with gateway(tmp_path, models={"m": ModelConfig(inputs=["text", "image"])}) as setup:
        sent = await ask(
            setup,
            user("look"),
            {"role": "assistant", "content": [use]},
            user([result]),
            tools=TOOLS,
        )
    assert PIXEL in str(sent["messages"])


def chat_call(id: str, arguments: str) -> Document:
    return {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}


@row(21, 22)
async def test_results_follow_their_calls_even_if_ids_repeat_and_texts_lie_between(
    tmp_path: Path,
) -> None:
    thread = [
        user("a"),
        {"role": "assistant", "content": None, "tool_calls": [chat_call("call_0", "{}")]},
        user("wait"),
        {"role": "tool", "tool_call_id": "call_0", "content": "one"},
        {"role": "assistant", "content": "ok", "tool_calls": [chat_call("call_0", "{}")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "two"},
    ]
    async with gateway(tmp_path) as setup:
        sent = await ask_chat(setup, *thread, tools=CHAT_TOOLS)
    messages = sent["messages"]
    calls = [index for index, each in enumerate(messages) if each.get("tool_calls")]
    assert [messages[index + 1]["content"] for index in calls] == ["one", "two"]
    assert all(messages[index + 1]["role"] == "tool" for index in calls)


CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "read", "arguments": ""}}


@row(4, 24, 25)
async def test_a_call_without_arguments_is_an_object_and_ends_as_a_call(tmp_path: Path) -> None:
    frames = (chunk({"tool_calls": [CALL]}), chunk({}, "stop"), DONE)
    async with gateway(tmp_path, send_frames(frames)) as setup:
        said = {"messages": [user("hi")]}
        _, _, chat = await post(setup, "chat/completions", {**said, "tools": CHAT_TOOLS})
        _, _, messages = await post(setup, "messages", {**said, "tools": TOOLS, "max_tokens": 100})
    for seen in (see_chat(200, chat), see_messages(200, messages)):
        assert seen.end == "calls"
        assert seen.calls == (("read", "{}"),)


@row(25)
@pytest.mark.parametrize("content", ["", None, []])
async def test_an_empty_tool_result_is_served(tmp_path: Path, content: Any) -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [chat_call("call_a", "")]}
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content or ""}
    async with gateway(tmp_path) as setup:
        tool = {"role": "tool", "tool_call_id": "call_a", "content": content}
        assert await ask_chat(setup, user("a"), call, tool, tools=CHAT_TOOLS)
        own = {"role": "assistant", "content": [use]}
        assert await ask(setup, user("a"), own, user([result]), tools=TOOLS)
