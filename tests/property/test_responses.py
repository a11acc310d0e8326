"""However a Responses server tells an answer, and whatever it leaves out, it arrives once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon import replay
from antiphon.core.stream.deltas import Failure
from antiphon.dialects.responses.decode import ResponsesDecoder, decode
from antiphon.wire.sse import Frame
from tests.property.test_history import junk
from tests.support.reference_readers.responses import simplify_item
from tests.support.stream_validator import TERMINALS, check

Document = dict[str, Any]

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)

messages = st.builds(
    lambda text: {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    },
    texts,
)
refusals = st.builds(
    lambda text: {"type": "message", "content": [{"type": "refusal", "refusal": text}]}, texts
)
thoughts = st.builds(
    lambda summary, content: {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
        "content": [{"type": "reasoning_text", "text": text} for text in content],
    },
    st.lists(texts, max_size=2),
    st.lists(texts, max_size=2),
)
calls = st.builds(
    lambda name: {"type": "function_call", "name": name, "arguments": f'{{"a": "{name}"}}'},
    st.sampled_from(["look", "listen"]),
)
searches = st.just({"type": "web_search_call", "status": "completed", "action": {"type": "search"}})
answers = st.lists(messages | refusals | thoughts | calls | searches, max_size=5)


def part_events(
    draw: st.DrawFn, kind: str, field: str, text: str, *, cut: bool = True, **place: Any
) -> Iterator[Document]:
    """The events of one part: its deltas, the last of which may be missing, and its end."""
    size = draw(st.integers(1, 4))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    kept = pieces[: draw(st.integers(0, len(pieces)))] if cut else pieces
    for piece in kept:
        yield {"type": f"response.{kind}.delta", "delta": piece, **place}
    if draw(st.booleans()):
        yield {"type": f"response.{kind}.done", field: text, **place}


def item_events(draw: st.DrawFn, item: Document) -> Iterator[Document]:
    """The events of the parts of an item: a part is whole when the next one begins."""
    if item["type"] == "function_call":
        yield from part_events(draw, "function_call_arguments", "arguments", item["arguments"])
    for channel in ("summary", "content"):
        told = item.get(channel, [])[: draw(st.integers(0, 2))]
        for number, part in enumerate(told):
            kind = _KINDS[part["type"]]
            field = "refusal" if kind == "refusal" else "text"
            place = {f"{channel}_index": number}
            cut = number == len(told) - 1
            yield from part_events(draw, kind, field, part[field], cut=cut, **place)


_KINDS = {
    "summary_text": "reasoning_summary_text",
    "reasoning_text": "reasoning_text",
    "output_text": "output_text",
    "refusal": "refusal",
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Document], list[Document]]:
    """The items of an answer, and a stream that tells them more or less completely."""
    items = [item | {"id": f"x_{place}"} for place, item in enumerate(draw(answers))]
    for place, item in enumerate(items):
        if item["type"] == "function_call":
            item["call_id"] = f"call_{place}"
    ids = draw(st.sampled_from(["kept", "changing", "none"]))
    places = True if ids != "kept" else draw(st.booleans())
    events: list[Document] = []
    fresh = count()
    for place, item in enumerate(items):
        blank = {k: v for k, v in item.items() if k in ("type", "id", "call_id", "name")}
        told = list(item_events(draw, item)) if draw(st.booleans()) else []
        began = [{"type": "response.output_item.added", "item": blank}] * draw(st.booleans())
        ended = [{"type": "response.output_item.done", "item": item}]
        # What is still unfinished when the next item begins cannot be one item any more.
        ended *= draw(st.booleans()) or bool(told)
        for event in [*began, *told, *ended]:
            name = {"kept": item["id"], "changing": f"y_{next(fresh)}", "none": None}[ids]
            inside = {"item": event["item"] | {"id": name}} if "item" in event else {}
            where = {"output_index": place} if places else {}
            events.append({**event, **inside, "item_id": name, **where})
    named = ids == "kept" or draw(st.booleans())
    output = [item if named else item | {"id": f"z_{n}"} for n, item in enumerate(items)]
    response = {"status": "completed", "output": output}
    return items, [*events, {"type": "response.completed", "response": response}]


def sse(events: list[Document]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def essence(items: list[Document]) -> list[str]:
    """What the items say, whatever their order and their parts."""
    said = [simple for item in items for simple in simplify_item(item)]
    for simple in said:
        simple.pop("id", None)
        for name in ("summary", "content"):
            if name in simple:
                simple[name] = "".join(simple[name])
    return sorted(json.dumps(simple, sort_keys=True) for simple in said)


@given(streams())
def test_every_item_is_emitted_once_and_whole(told: tuple[list[Document], list[Document]]) -> None:
    items, events = told
    seen = replay(sse(events), dialect="responses")
    check(seen)
    assert seen[-1]["type"] == "response.completed"
    assert essence(seen[-1]["response"]["output"]) == essence(items)


@given(streams(), st.data())
def test_a_cut_stream_is_decoded_as_far_as_it_was_received(
    told: tuple[list[Document], list[Document]], data: st.DataObject
) -> None:
    _, events = told
    cut = data.draw(st.integers(0, len(events) - 1))
    seen = replay(b": hi\n\n" + sse(events[:cut]), dialect="responses")
    check(seen)
    assert seen[-1]["type"] == "response.failed"


@given(answers)
def test_a_whole_body_decodes_like_its_stream(items: list[Document]) -> None:
    for place, item in enumerate(items):
        item["id"] = f"x_{place}"
        if item["type"] == "function_call":
            item["call_id"] = f"call_{place}"
    body = {"object": "response", "status": "completed", "output": items}
    seen = replay(json.dumps(body).encode(), dialect="responses")
    check(seen)
    # A whole answer always has a message, if there is nothing else that answers.
    empty = {"type": "output_text", "text": ""}
    found = essence(seen[-1]["response"]["output"])
    assert [each for each in found if json.loads(each) != empty] == essence(items)


names = st.sampled_from(
    """
    type delta item_id output_index content_index summary_index logprobs text refusal arguments
    input annotation item error response id object model status usage output call_id name content
    summary encrypted_content code message
    """.split()
)
kinds = st.sampled_from(
    """
    response.created response.output_text.delta response.refusal.delta response.reasoning_text.delta
    response.reasoning_summary_text.delta response.function_call_arguments.delta
    response.custom_tool_call_input.done response.output_text.annotation.added
    response.output_item.added response.output_item.done response.completed response.incomplete
    response.failed error message reasoning function_call custom_tool_call compaction completed
    """.split()
)
odd = st.recursive(
    kinds | junk,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
frames = st.dictionaries(names, odd, max_size=6) | odd


@given(st.lists(st.tuples(kinds, frames), max_size=6))
def test_decoding_never_raises(sent: list[tuple[str, Any]]) -> None:
    decoder = ResponsesDecoder()
    deltas = [
        delta
        for kind, frame in sent
        for delta in decoder.feed(Frame(json.dumps(frame).encode(), kind))
    ]
    assert decoder.close() == []
    assert all(not isinstance(delta, Failure) or delta.fault.code for delta in deltas)


@given(st.lists(st.tuples(kinds, frames), max_size=6))
def test_there_is_exactly_one_finish(sent: list[tuple[str, Any]]) -> None:
    data = b"".join(
        b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(frame).encode())
        for kind, frame in sent
    )
    seen = [event["type"] for event in replay(b": hi\n\n" + data, dialect="responses")]
    assert seen[0] == "response.created"
    assert [kind for kind in seen if kind in TERMINALS] == seen[-1:]


@given(frames)
def test_any_document_is_a_response_or_a_failure(body: Any) -> None:
    assert decode(json.dumps(body).encode())


@given(st.binary(max_size=40))
def test_any_bytes_are_a_response_or_a_failure(body: bytes) -> None:
    assert decode(body)
