"""Chat Completions for clients: every recording through our renderer and back, and real requests.

Our own dialect of the same format reads what our renderer wrote, and must find the same response.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from antiphon.core.client_profile import Profile
from antiphon.core.events import Event
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.dialect import resolve
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.registry import SPECS
from tests.support import captured_requests, corpus
from tests.support.corpus import Case
from tests.support.machines import machine
from tests.support.recordings import answers, every, streams

Document = dict[str, Any]
SDK = Profile(name="openai-python")
"""A client that gets refusals as refusals."""
REQUEST = CHAT.parse(
    {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
)


def events_of(
    data: bytes, protocol: str, *, is_whole: bool, cuts: Iterable[int] = ()
) -> list[Event]:
    translation = Translation(machine(tools=(), empty_arguments="{}"), Source(resolve(protocol)))
    if is_whole:
        return translation.feed_whole(data)
    events = [event for chunk in _split(data, cuts) for event in translation.feed(chunk)]
    return events + translation.close()


def _split(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    offsets = [0, *sorted({*cuts}), len(data)]
    return (data[a:b] for a, b in pairwise(offsets) if a < b)


def content_of(response: Response) -> Document:
    """What both formats can say of a response."""
    document = msgspec.to_builtins(response)
    parts = [
        part for item in document["output"] if item["type"] == "message" for part in item["content"]
    ]
    usage = document["usage"] or {}
    usage.pop("estimated", None)
    if document["status"] == "failed":  # a stream that fails ends with its error
        usage = {}
    return {
        "status": document["status"],
        "incomplete": document["incomplete_details"],
        "text": "".join(part.get("text", "") for part in parts),
        "refusal": "".join(part.get("refusal", "") for part in parts),
        "annotations": [
            each["url"] for part in parts for each in part.get("annotations", ()) if "url" in each
        ],
        "reasoning": "".join(
            text["text"]
            for item in document["output"]
            if item["type"] == "reasoning"
            for text in (item.get("content") or item["summary"])
        ).replace("\n\n", ""),
        "calls": [
            (item["name"], item["arguments"])
            for item in document["output"]
            if item["type"] == "function_call"
        ],
        "usage": usage,
    }


RECORDED = answers(corpus.cases())


@pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)
@every(RECORDED)
def test_what_our_renderer_writes_our_dialect_reads(case: Case) -> None:
    is_whole = case not in streams([case])
    events = events_of(case.data, case.meta["protocol"], is_whole=is_whole)
    response = events[-1].response  # type: ignore[union-attr]
    renderer = CHAT.renderer(REQUEST, SDK)
    data = renderer.feed(EventBatch(0, events)) + renderer.close()
    cuts = random.Random(case.id).sample(range(len(data)), min(20, len(data)))
    for read in (
        events_of(data, "chat", is_whole=False),
        events_of(data, "chat", is_whole=False, cuts=cuts),
    ):
        assert content_of(read[-1].response) == content_of(response)  # type: ignore[union-attr]
    if response.status != "failed":
        whole = events_of(CHAT.whole(response, REQUEST, SDK), "chat", is_whole=True)
        assert content_of(whole[-1].response) == content_of(response)  # type: ignore[union-attr]


# --- requests of real clients ---------------------------------------------------------------------

CAPTURED = captured_requests.chat_bodies()
SERVER = SPECS["chat"]
"""A server of the same format, about which nothing else is known."""
KEPT = {"model", "stream", "temperature", "top_p", "stop", "response_format", "reasoning_effort"}


def sent_upstream(body: Document) -> Document:
    request = CHAT.parse(body)
    target = ModelTarget("chat", body["model"], SERVER.capabilities)
    plan = Planner(request, PlanInputs()).plan(target)
    encoded = make_dialect(SERVER).encode(plan, stream=request.stream)
    document: Document = msgspec.json.decode(encoded.body)
    return document


@pytest.mark.skipif(not CAPTURED, reason=captured_requests.ABSENT)
@pytest.mark.parametrize("name", CAPTURED)
def test_a_request_of_a_real_client_reaches_a_server_of_its_format_as_it_was(name: str) -> None:
    """Apart from what is listed in `normalize`: the same thing in another form, or policy."""
    body = CAPTURED[name]
    assert normalize(sent_upstream(body)) == normalize(body)


def normalize(body: Document) -> Document:
    kept = {
        member: value for member, value in body.items() if member in KEPT and value is not False
    }
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return {
        **kept,
        "max_tokens": limit,
        "tool_choice": body.get("tool_choice", "auto") if body.get("tools") else "auto",
        "tools": [_without_defaults(tool) for tool in body.get("tools", ())],
        "messages": [_normalize_message(message) for message in body["messages"]],
    }


def _without_defaults(tool: Document) -> Document:
    """A function without parameters has an empty schema upstream: some servers require it."""
    schema = tool["function"].get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**tool["function"], "parameters": schema}}


def _normalize_message(message: Document) -> Document:
    """Text alone is a string. Roles, texts, calls and their ids stay; reasoning is sent to servers
    that are known to take it, and members that no version of the API has are not sent."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    calls = [
        {name: call[name] for name in ("id", "type", "function")}
        for call in message.get("tool_calls") or ()
    ]
    role = "system" if message["role"] == "developer" else message["role"]
    fields = {"role": role, "content": content or None, "calls": calls}
    return {**fields, "tool_call_id": message.get("tool_call_id")}
