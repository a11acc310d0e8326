"""Any Responses stream, whatever it repeats or leaves out, is emitted once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon import replay
from antiphon.core.deltas import Failure
from antiphon.dialects.responses.decode import ResponsesDecoder, decode
from antiphon.framing.sse import Frame
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
reasoning_items = st.builds(
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
outputs = st.lists(messages | refusals | reasoning_items | calls | searches, max_size=5)


def part_events(
    draw: st.DrawFn, kind: str, field: str, text: str, *, cut: bool = True, **index: Any
) -> Iterator[Document]:
    """The events of one part: its deltas, the last of which may be missing, and its end."""
    size = draw(st.integers(1, 4))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    sent = pieces[: draw(st.integers(0, len(pieces)))] if cut else pieces
    for piece in sent:
        yield {"type": f"response.{kind}.delta", "delta": piece, **index}
    if draw(st.booleans()):
        yield {"type": f"response.{kind}.done", field: text, **index}


def item_events(draw: st.DrawFn, item: Document) -> Iterator[Document]:
    """The events of the parts of an item: a part is whole when the next one begins."""
    if item["type"] == "function_call":
        yield from part_events(draw, "function_call_arguments", "arguments", item["arguments"])
    if item["type"] == "web_search_call":
        stages = draw(st.lists(st.sampled_from(["in_progress", "searching", "completed"])))
        yield from ({"type": f"response.web_search_call.{stage}"} for stage in stages)
    for channel in ("summary", "content"):
        parts = item.get(channel, [])[: draw(st.integers(0, 2))]
        for number, part in enumerate(parts):
            kind = _EVENT_NAMES[part["type"]]
            field = "refusal" if kind == "refusal" else "text"
            index = {f"{channel}_index": number}
            cut = number == len(parts) - 1
            yield from part_events(draw, kind, field, part[field], cut=cut, **index)


_EVENT_NAMES = {
    "summary_text": "reasoning_summary_text",
    "reasoning_text": "reasoning_text",
    "output_text": "output_text",
    "refusal": "refusal",
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Document], list[Document]]:
    """Output items, and a stream that contains them more or less completely."""
    items = [item | {"id": f"x_{index}"} for index, item in enumerate(draw(outputs))]
    for index, item in enumerate(items):
        if item["type"] == "function_call":
            item["call_id"] = f"call_{index}"
    ids = draw(st.sampled_from(["constant", "changing", "none"]))
    has_index = True if ids != "constant" else draw(st.booleans())
    events: list[Document] = []
    numbers = count()
    for index, item in enumerate(items):
        blank = {k: v for k, v in item.items() if k in ("type", "id", "call_id", "name")}
        events_of_parts = list(item_events(draw, item)) if draw(st.booleans()) else []
        began = [{"type": "response.output_item.added", "item": blank}] * draw(st.booleans())
        ended = [{"type": "response.output_item.done", "item": item}]
        # What is still unfinished when the next item begins cannot be one item any more. Without
        # ids, an end after it would be its own: vLLM gives it the index of the next item.
        is_begun = bool(events_of_parts) or (ids == "none" and bool(began))
        ended *= draw(st.booleans()) or is_begun
        for event in [*began, *events_of_parts, *ended]:
            name = {"constant": item["id"], "changing": f"y_{next(numbers)}", "none": None}[ids]
            inside = {"item": event["item"] | {"id": name}} if "item" in event else {}
            where = {"output_index": index} if has_index else {}
            events.append({**event, **inside, "item_id": name, **where})
    named = ids == "constant" or draw(st.booleans())
    output = [item if named else item | {"id": f"z_{n}"} for n, item in enumerate(items)]
    response = {"status": "completed", "output": output}
    return items, [*events, {"type": "response.completed", "response": response}]


def sse(events: list[Document]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def content_of(items: list[Document]) -> list[str]:
    """The content of items, independent of their order and their parts."""
    found = [simple for item in items for simple in simplify_item(item)]
    for simple in found:
        simple.pop("id", None)
        for name in ("summary", "content"):
            if name in simple:
                simple[name] = "".join(simple[name])
    return sorted(json.dumps(simple, sort_keys=True) for simple in found)


EMPTY_MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "", "annotations": []}],
}
"""What a completed answer of reasoning alone, or of nothing, gets."""


@given(streams())
def test_every_item_is_emitted_once_and_whole(
    streamed: tuple[list[Document], list[Document]],
) -> None:
    items, events = streamed
    seen = replay(sse(events), dialect="responses")
    check(seen)
    assert seen[-1]["type"] == "response.completed"
    is_empty = all(item["type"] == "reasoning" for item in items)
    expected = [*items, EMPTY_MESSAGE] if is_empty else items
    assert content_of(seen[-1]["response"]["output"]) == content_of(expected)


@given(streams(), st.data())
def test_a_cut_stream_is_decoded_as_far_as_it_was_received(
    streamed: tuple[list[Document], list[Document]], data: st.DataObject
) -> None:
    _, events = streamed
    cut = data.draw(st.integers(0, len(events) - 1))
    seen = replay(b": hi\n\n" + sse(events[:cut]), dialect="responses")
    check(seen)
    assert seen[-1]["type"] == "response.failed"


@given(outputs)
def test_a_whole_body_decodes_like_its_stream(items: list[Document]) -> None:
    for index, item in enumerate(items):
        item["id"] = f"x_{index}"
        if item["type"] == "function_call":
            item["call_id"] = f"call_{index}"
    body = {"object": "response", "status": "completed", "output": items}
    seen = replay(json.dumps(body).encode(), dialect="responses")
    check(seen)
    # A whole response always has a message, unless it has other output.
    empty = {"type": "output_text", "text": ""}
    found = content_of(seen[-1]["response"]["output"])
    assert [each for each in found if json.loads(each) != empty] == content_of(items)


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
    held_back = decoder.close()  # a failure without a reason, which may come after it
    assert all(isinstance(delta, Failure) for delta in held_back)
    assert all(not isinstance(delta, Failure) or delta.fault.code for delta in deltas + held_back)


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
