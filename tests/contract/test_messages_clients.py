"""Messages for clients: every recording through our renderer and back.

Our own dialect of the same format reads what our renderer wrote, and must find the same response.
The vendor's package reads it, too; and a client that sends the response back loses nothing of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from antiphon.core.client_profile import Profile
from antiphon.core.events import Event
from antiphon.core.history.capsule import Sealer
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.anthropic.message_ids import unwrap_call_id
from antiphon.dialects.anthropic.render import MessagesRenderer
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.dialect import resolve
from tests.support import corpus
from tests.support.corpus import Case
from tests.support.machines import machine
from tests.support.recordings import answers, every, streams

Document = dict[str, Any]
SDK = Profile(name="anthropic-python")
SEALER = Sealer(["key"], new_nonce=bytes, now=lambda: 0)
REQUEST = MESSAGES.parse(
    {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True}
)


def events_of(
    data: bytes, protocol: str, *, is_whole: bool, cuts: Iterable[int] = ()
) -> list[Event]:
    seal = partial(SEALER.seal, "local", "p", "m")
    translation = Translation(
        machine(tools=(), empty_arguments="{}", seal=seal), Source(resolve(protocol))
    )
    if is_whole:
        return translation.feed_whole(data)
    events = [event for chunk in _split(data, cuts) for event in translation.feed(chunk)]
    return events + translation.close()


def _split(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    offsets = [0, *sorted({*cuts}), len(data)]
    return (data[a:b] for a, b in pairwise(offsets) if a < b)


def rendered(events: list[Event]) -> bytes:
    renderer = MessagesRenderer()
    return renderer.feed(EventBatch(0, events)) + renderer.close()


def final(events: list[Event]) -> Response:
    response: Response = events[-1].response  # type: ignore[union-attr]
    return response


def content_of(response: Response) -> Document:
    """What both formats can say of a response."""
    document = msgspec.to_builtins(response)
    parts = [
        part for item in document["output"] if item["type"] == "message" for part in item["content"]
    ]
    usage = document["usage"] or {}
    usage.pop("estimated", None)
    usage.pop("total_tokens", None)  # the format has none
    if usage:  # cached tokens are a part of the input, whatever a provider counts
        cached = usage["input_tokens_details"]["cached_tokens"]
        usage["input_tokens"] = max(usage["input_tokens"], cached)
    return {
        "status": document["status"],
        "incomplete": document["incomplete_details"],
        "text": "".join(part.get("text", "") for part in parts),
        "refusal": "".join(part.get("refusal", "") for part in parts),
        "citations": [
            (each["url"], each["start_index"], each["end_index"])
            for part in parts
            for each in part.get("annotations", ())
            if each["type"] == "url_citation"
        ],
        "reasoning": [
            text["text"]
            for item in document["output"]
            if item["type"] == "reasoning"
            for text in (*item["summary"], *(item.get("content") or ()))
        ],
        "calls": [call for item in document["output"] for call in call_of(item)],
        "usage": {} if document["status"] == "failed" else usage,
    }


def call_of(item: Document) -> Iterator[tuple[str, ...]]:
    """The call in an item; one with freeform input is a function in this format."""
    if item["type"] in ("function_call", "custom_tool_call"):
        free = msgspec.json.encode({"input": item.get("input")}).decode()
        arguments = item.get("arguments", free).strip()
        yield unwrap_call_id(item["call_id"]), item["name"], arguments, item["status"]


RECORDED = answers(corpus.cases())
recorded = pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)


@recorded
@every(RECORDED)
def test_what_our_renderer_writes_our_dialect_reads(case: Case) -> None:
    is_whole = case not in streams([case])
    events = events_of(case.data, case.meta["protocol"], is_whole=is_whole)
    expected = content_of(final(events))
    data = rendered(events)
    cuts = random.Random(case.id).sample(range(len(data)), min(20, len(data)))
    for chosen in ((), cuts):
        read = events_of(data, "anthropic", is_whole=False, cuts=chosen)
        assert content_of(final(read)) == expected
    if final(events).status in ("completed", "incomplete"):
        whole = events_of(MESSAGES.whole(final(events), REQUEST, SDK), "anthropic", is_whole=True)
        # A call that was cut off has no place in a whole message.
        kept = [call for call in expected["calls"] if call[-1] == "completed"]
        assert content_of(final(whole)) == {**expected, "calls": kept}


# --- a client sends the response back -------------------------------------------------------------


@recorded
@every(RECORDED)
def test_a_client_that_sends_a_response_back_loses_nothing_of_it(case: Case) -> None:
    is_whole = case not in streams([case])
    response = final(events_of(case.data, case.meta["protocol"], is_whole=is_whole))
    if response.status not in ("completed", "incomplete"):
        return
    content = json.loads(MESSAGES.whole(response, REQUEST, SDK))["content"]
    echoed = MESSAGES.parse(
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": content},
                {"role": "user", "content": "go on"},
            ],
        }
    )
    assert sent_back(list(echoed.input[1:-1])) == sent_back(msgspec.to_builtins(response.output))


def sent_back(items: list[Document]) -> Document:
    """What the next turn needs of the items of a response."""
    return {
        "sealed": [
            item["encrypted_content"]
            for item in items
            if item["type"] == "reasoning" and "encrypted_content" in item
        ],
        "calls": [
            (call[0], call[1], json.loads(call[2]))
            for item in items
            for call in call_of({"status": "completed", **item})
            if call[3] == "completed"
        ],
        "text": "".join(
            part.get("text", "")
            for item in items
            if item["type"] == "message"
            for part in item["content"]
        ),
    }


# --- the vendor's package -------------------------------------------------------------------------


def frames(data: bytes) -> list[Document]:
    """The events of a stream; each has its type in both places."""
    found = []
    for frame in data.decode().split("\n\n")[:-1]:
        name, document = frame.split("\n")
        found.append(json.loads(document.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def check_beta(events: list[Event]) -> None:
    """The beta types of the package accept the stream and the whole message."""
    from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
    from pydantic import TypeAdapter

    check = TypeAdapter(BetaRawMessageStreamEvent).validate_python
    read = [check(event) for event in frames(rendered(events)) if event["type"] != "ping"]
    whole = BetaMessage.model_validate_json(MESSAGES.whole(final(events), REQUEST, SDK))
    blocks = [each.content_block.type for each in read if each.type == "content_block_start"]
    assert blocks == [block.type for block in whole.content]


@recorded
@every([case for case in RECORDED if case in streams([case])])
def test_the_package_of_the_vendor_accepts_every_stream(case: Case) -> None:
    events = events_of(case.data, case.meta["protocol"], is_whole=False)
    response = final(events)
    kinds = {item["type"] for item in response.output if isinstance(item, dict)}
    if kinds & {"compaction", "mcp_call"}:
        check_beta(events)  # only clients of a beta ask for compactions and MCP servers
        return

    from anthropic.lib.streaming._messages import accumulate_event
    from anthropic.types import Message, RawMessageStreamEvent
    from pydantic import TypeAdapter

    check = TypeAdapter(RawMessageStreamEvent).validate_python
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in frames(rendered(events)):
        if event["type"] not in ("ping", "error"):
            check(event)
            snapshot = accumulate_event(
                event=event,  # type: ignore[arg-type]
                current_snapshot=snapshot,
                json_bufs=buffers,
            )
    if response.status in ("completed", "incomplete"):
        whole = Message.model_validate_json(MESSAGES.whole(response, REQUEST, SDK))
        read = snapshot.to_dict(mode="json", warnings=False)
        expected = whole.to_dict(mode="json", warnings=False)
        unfinished = response.status == "incomplete"
        assert read["content"] == expected["content"] or unfinished
        assert (read["stop_reason"], read["usage"]) == (expected["stop_reason"], expected["usage"])
