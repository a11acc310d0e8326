"""The same format on both sides loses nothing: recordings of Anthropic for clients of Messages.

What the provider has sent arrives at the client with the same blocks in the same order and the same
members, streamed and whole; and what the client sends back arrives at the provider as it was, also
from the store.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest

import antiphon
from antiphon.core.client_profile import Profile
from antiphon.core.events import Event
from antiphon.core.history.capsule import Sealer
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.anthropic.render import MessagesRenderer
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.dialect import build, resolve
from antiphon.providers.registry import SPECS
from tests.support import corpus
from tests.support.corpus import Case
from tests.support.machines import machine
from tests.support.plans import make_plan
from tests.support.recordings import answers, every, streams

Document = dict[str, Any]
SDK = Profile(name="anthropic-python")
SEALER = Sealer(["key"], new_nonce=bytes, now=lambda: 0)
MODEL = "claude-sonnet-4-5"
HI: Document = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
GO_ON: Document = {"role": "user", "content": [{"type": "text", "text": "go on"}]}
REQUEST = MESSAGES.parse({"model": "m", "max_tokens": 9, "messages": [HI], "stream": True})

RECORDED = answers(corpus.cases("anthropic"))
pytestmark = pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)


def events_of(case: Case, cuts: Sequence[int] = ()) -> list[Event]:
    """The events of a recording, for a client of the same format."""
    seal = partial(SEALER.seal, "local", "anthropic", MODEL)
    dialect = resolve(case.meta["protocol"]).for_client(REQUEST.client_format)
    translation = Translation(machine((), empty_arguments="{}", seal=seal), Source(dialect))
    if case not in streams([case]):
        return translation.feed_whole(case.data)
    events: list[Event] = []
    for begin, end in pairwise([0, *cuts, len(case.data)]):
        events += translation.feed(case.data[begin:end])
    return events + translation.close()


def response_of(case: Case) -> Response:
    response: Response = events_of(case)[-1].response  # type: ignore[union-attr]
    return response


# --- messages, as a client reads them -------------------------------------------------------------


def message_of(data: bytes) -> Document:
    """A message out of its body, or out of the events of its stream."""
    if data.lstrip()[:1] == b"{":
        whole: Document = json.loads(data)
        return whole
    message: Document = {}
    for line in data.decode().splitlines():
        if line.startswith("data:") and line.removeprefix("data:").strip()[:1] == "{":
            add_event(message, json.loads(line.removeprefix("data:")))
    return message


def add_event(message: Document, event: Document) -> None:
    match event["type"]:
        case "message_start":
            message.update(event["message"], content=[])
        case "content_block_start":
            message["content"].append({**event["content_block"]})
        case "content_block_delta":
            add_delta(message["content"][event["index"]], event["delta"])
        case "content_block_stop":
            block = message["content"][event["index"]]
            if "partial" in block:
                block["input"] = json.loads(block.pop("partial") or "{}")
        case "message_delta":
            message.update(event["delta"])
            message.update({name: event[name] for name in event if name == "context_management"})
            message["usage"] |= event["usage"]


def add_delta(block: Document, delta: Document) -> None:
    match delta:
        case {"type": "text_delta", "text": text}:
            block["text"] += text
        case {"type": "thinking_delta", "thinking": text}:
            block["thinking"] += text
        case {"type": "signature_delta", "signature": text}:
            block["signature"] = text
        case {"type": "input_json_delta", "partial_json": text}:
            block["partial"] = block.get("partial", "") + text
        case {"type": "citations_delta", "citation": citation}:
            block["citations"] = [*(block["citations"] or ()), citation]
        case _:
            block.update({name: delta[name] for name in delta if name != "type"})


def rendered(events: list[Event]) -> bytes:
    renderer = MessagesRenderer()
    return renderer.feed(EventBatch(0, events)) + renderer.close()


def visible(block: Document) -> Document:
    """A block without what only a provider reads of a thought: it is sealed."""
    if block["type"] not in ("thinking", "redacted_thinking"):
        return block
    return {"type": "thinking", "thinking": block.get("thinking", "")}


def visible_blocks(message: Document) -> list[Document]:
    """The blocks without empty ones. State without a thought is one empty thought."""
    blocks = [visible(block) for block in message["content"] if block.get("text") != ""]
    empty = {"type": "thinking", "thinking": ""}
    return [
        block
        for place, block in enumerate(blocks)
        if block != empty or blocks[place + 1 : place + 2] != [empty]
    ]


@every(RECORDED)
def test_a_client_of_the_same_format_gets_the_blocks_of_the_provider(case: Case) -> None:
    events = events_of(case)
    sent = message_of(case.data)
    response: Response = events[-1].response  # type: ignore[union-attr]
    for data in (rendered(events), MESSAGES.whole(response, REQUEST, SDK)):
        found = message_of(data)
        assert visible_blocks(found) == visible_blocks(sent)
        for name in ("stop_reason", "stop_sequence", "container", "context_management"):
            assert found.get(name) == sent.get(name)
        usage = {name: value for name, value in sent["usage"].items() if value is not None}
        assert found["usage"] == found["usage"] | usage


@every(RECORDED)
def test_a_gateway_behind_a_gateway_changes_nothing(case: Case) -> None:
    data = rendered(events_of(case))
    dialect = resolve("anthropic").for_client(REQUEST.client_format)
    behind = Translation(machine((), empty_arguments="{}", seal=seal_nothing), Source(dialect))
    found = message_of(rendered(behind.feed(data) + behind.close()))
    sent = message_of(data)
    assert visible_blocks(found) == visible_blocks(sent)
    assert (found["stop_reason"], found["usage"]) == (sent["stop_reason"], sent["usage"])


def seal_nothing(states: object, text: str) -> str:
    return "sealed"


@every(streams(RECORDED))
def test_the_cuts_of_a_stream_change_nothing(case: Case) -> None:
    places = random.Random(case.id).sample(range(len(case.data)), min(40, len(case.data)))
    found = message_of(rendered(events_of(case, sorted(places))))
    assert found == message_of(rendered(events_of(case)))


@every(streams(RECORDED))
def test_the_package_of_the_vendor_reads_the_blocks_of_the_provider(case: Case) -> None:
    from anthropic.lib.streaming._beta_messages import accumulate_event
    from anthropic.types.beta import BetaRawMessageStreamEvent
    from pydantic import TypeAdapter

    events = events_of(case)
    check = TypeAdapter(BetaRawMessageStreamEvent).validate_python
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for line in rendered(events).decode().splitlines():
        if line.startswith("data: ") and (event := json.loads(line[6:]))["type"] != "ping":
            if event["type"] != "message_delta" or "server_tool_use" not in event["usage"]:
                check(event)  # older recordings have fewer counts than the package wants
            snapshot = accumulate_event(
                event=event,
                current_snapshot=snapshot,
                json_bufs=buffers,
                request_headers={},  # type: ignore[arg-type]
            )
    response: Response = events[-1].response  # type: ignore[union-attr]
    whole = json.loads(MESSAGES.whole(response, REQUEST, SDK))
    read = snapshot.to_dict(mode="json", warnings=False)
    # The package adds a member that is null to a compaction.
    found = [
        {name: block[name] for name in block if block[name] is not None}
        for block in read["content"]
    ]
    assert (found, read["stop_reason"]) == (whole["content"], whole["stop_reason"])


@every(RECORDED)
def test_a_replay_for_this_format_has_the_blocks_of_the_provider(case: Case) -> None:
    request: Document = {"model": "m", "max_tokens": 9, "messages": [HI]}
    frames = antiphon.replay(case.data, dialect="anthropic", request=request, format="messages")
    kinds = [each["content_block"]["type"] for each in frames if "content_block" in each]
    sent = [block["type"] for block in visible_blocks(message_of(case.data))]
    # Without a key nothing can be sealed, so state without a thought is left out.
    assert [each for each in kinds if each != "thinking"] == [
        each for each in sent if each != "thinking"
    ]


# --- the next request -----------------------------------------------------------------------------


def encoded_body(request: Request, history: list[Document]) -> Document:
    """The body of a request to the provider that has sent the recording."""
    can = SPECS["anthropic"].capabilities_of(MODEL)
    plan = make_plan(
        request,
        history,
        provider="anthropic",
        model=MODEL,
        capabilities=can,
        issuer="anthropic",
        unseal=partial(SEALER.open, "local"),
    )
    dialect = build("anthropic", quirks=SPECS["anthropic"].quirks)
    body: Document = json.loads(dialect.encode(plan, stream=False).body)
    return body


def encoded(request: Request, history: list[Document]) -> list[Document]:
    messages: list[Document] = encoded_body(request, history)["messages"]
    return messages


def results_of(content: list[Document]) -> Document:
    """What the client says next: the results of its calls."""
    results = [
        {
            "type": "tool_result",
            "tool_use_id": block["id"],
            "content": [{"type": "text", "text": "ok"}],
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    return {"role": "user", "content": results} if results else GO_ON


def is_sent_back(block: Document) -> bool:
    """The API refuses text without a visible character."""
    return block["type"] != "text" or bool(block["text"].strip())


@every(RECORDED)
def test_what_the_client_sends_back_reaches_the_provider_as_it_was(case: Case) -> None:
    response = response_of(case)
    sent = message_of(case.data)["content"]
    last = results_of(sent)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    content = json.loads(MESSAGES.whole(response, REQUEST, SDK))["content"]
    messages = [HI, {"role": "assistant", "content": content}, last]
    body = {"model": "m", "max_tokens": 2048, "thinking": thinking, "messages": messages}
    expected = [block for block in sent if is_sent_back(block)]
    assert encoded(MESSAGES.parse(body), []) == [
        HI,
        {"role": "assistant", "content": expected},
        last,
    ]


@every(RECORDED)
def test_a_stored_turn_reaches_the_provider_as_it_was(case: Case) -> None:
    output: list[Document] = msgspec.json.decode(msgspec.json.encode(response_of(case).output))
    sent = message_of(case.data)["content"]
    last = results_of(sent)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = MESSAGES.parse({"model": "m", "max_tokens": 9, "messages": [HI]})
    body = {"model": "m", "max_tokens": 2048, "thinking": thinking, "messages": [last]}
    expected = [block for block in sent if is_sent_back(block)]
    assert encoded(MESSAGES.parse(body), [*first.input, *output]) == [
        HI,
        {"role": "assistant", "content": expected},
        last,
    ]


TOOLS: list[Document] = [
    {"type": "code_execution_20250825", "name": "code_execution"},
    {
        "name": "look",
        "description": "Look.",
        "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
        "allowed_callers": ["code_execution_20250825"],
    },
    {"type": "web_search_20260209", "name": "web_search", "max_uses": 3},
    {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}},
    {"type": "memory_20250818", "name": "memory"},
    {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5"},
    {"type": "mcp_toolset", "mcp_server_name": "files"},
    {
        "type": "mcp_toolset",
        "mcp_server_name": "mail",
        "cache_control": {"type": "ephemeral"},
    },
]


def test_tools_that_the_provider_runs_reach_it_as_they_were() -> None:
    servers = [{"type": "url", "name": name, "url": "https://a.test"} for name in ("files", "mail")]
    more = {"mcp_servers": servers, "container": {"id": "c", "skills": []}}
    body = {"model": "m", "max_tokens": 9, "tools": TOOLS, "messages": [HI], **more}
    found = encoded_body(MESSAGES.parse(body), [])
    assert {name: found[name] for name in ("tools", *more)} == {"tools": TOOLS, **more}
    assert "tool_choice" not in found
