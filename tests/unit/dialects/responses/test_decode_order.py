"""Which item an event is about: ids change, places repeat, beginnings and ends are missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.stream.deltas import (
    Delta,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningState,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.dialects.responses.decode import decode
from antiphon.dialects.responses.dialect import ResponsesDialect
from antiphon.dialects.responses.quirks import ResponsesQuirks
from tests.support.dialect_samples.responses import (
    added,
    done,
    ended,
    event,
    feed,
    message,
    reasoning,
    text,
)
from tests.support.machines import Document, documents, machine
from tests.support.stream_validator import check

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}


def words(*events: Document) -> list[Delta]:
    return [delta for delta in feed(*events) if not isinstance(delta, Start | Finish)]


def test_two_items_of_a_kind_are_kept_apart() -> None:
    told = feed(text("a", 0, "msg_1"), text("b", 1, "msg_2"), text("c", 1, "msg_2"))
    assert told == [Text("a"), ItemEnd(), Text("b"), Text("c")]


def test_an_id_that_changes_with_every_event_is_no_other_item() -> None:
    told = words(
        added(0, type="message", id="x1"),
        text("a", 0, "x2"),
        text("b", 0, "x3"),
        done(0, **message("ab", id="x4")),
        ended(output=[message("ab", id="x5")]),
    )
    assert told == [Text("a"), Text("b")]


def test_a_call_id_that_changes_is_told_as_it_was_first() -> None:
    told = words(
        added(0, **CALL),
        done(0, **CALL | {"id": "fc_2", "call_id": "call_2", "arguments": "{}"}),
    )
    assert told == [ToolCall(0, "call_1", "look"), ToolCall(0, arguments="{}"), ToolEnd(0)]


def test_a_place_that_never_changes_is_no_place() -> None:
    told = words(
        added(0, type="message", id="a"),
        text("a", 0, "a"),
        done(0, **message("a", id="a")),
        text("b", 0, "b"),
        done(0, **message("b", id="b")),
        done(0, **message("c", id="c")),
        ended(output=[message(name, id=name) for name in "abc"]),
    )
    assert told == [Text("a"), ItemEnd(), Text("b"), ItemEnd(), Text("c")]


def test_an_id_that_never_changes_is_no_id() -> None:
    calls = [CALL | {"call_id": f"call_{n}", "arguments": "{}"} for n in (1, 2)]
    told = words(*(e for n in (0, 1) for e in (added(n, **calls[n]), done(n, **calls[n]))))
    assert [delta.call_id for delta in told if isinstance(delta, ToolCall)] == [
        "call_1",
        None,
        "call_2",
        None,
    ]


def test_events_that_name_no_item_are_about_the_last_of_their_kind() -> None:
    told = words(
        event("reasoning_text.delta", delta="hm"),
        event("output_text.delta", delta="a"),
        event("output_text.delta", delta="b"),
        event("output_text.done", text="ab"),
        event("reasoning_text.done", text="hm"),
        ended(output=[reasoning(content=[{"text": "hm"}]), message("ab")]),
    )
    assert told == [Reasoning("hm"), ItemEnd(), Text("a"), Text("b")]


def test_a_place_may_be_taken_by_an_item_of_another_kind() -> None:
    told = words(text("a", 0, "x"), event("reasoning_text.delta", output_index=0, delta="hm"))
    assert told == [Text("a"), ItemEnd(), Reasoning("hm")]


def test_an_id_may_be_shared_by_items_of_two_kinds() -> None:
    told = words(
        event("reasoning_text.delta", item_id="x", delta="hm"), text("a", 1, "x"), text("b", 1, "x")
    )
    assert told == [Reasoning("hm"), ItemEnd(), Text("a"), Text("b")]


def test_arguments_may_come_before_anybody_says_whose_they_are() -> None:
    told = words(
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta="{}"),
        done(0, **CALL, arguments="{}"),
    )
    assert told == [ToolCall(0, arguments="{}"), ToolCall(0, "call_1", "look"), ToolEnd(0)]


def test_reasoning_that_ends_after_the_answer_is_not_told_twice() -> None:
    thought = reasoning(id="rs_1", content=[{"text": "hm"}], encrypted_content="x")
    told = words(
        event("reasoning_text.delta", item_id="rs_1", output_index=0, delta="hm"),
        text("a", 1),
        done(1, **message("a", id="msg_1")),
        done(0, **thought),
        ended(output=[thought | {"id": "rs_2"}, message("a", id="msg_1")]),
    )
    assert told[:3] == [Reasoning("hm"), ItemEnd(), Text("a")]
    assert [type(delta) for delta in told[3:]] == [ItemEnd, ReasoningState]


def test_items_that_only_the_last_event_knows_are_told_with_it() -> None:
    search = {"type": "web_search_call", "id": "ws_1"}
    told = words(
        text("a", 0, "msg_1"),
        ended(output=[message("a", id="msg_1"), search, CALL | {"arguments": "{}"}, message("b")]),
    )
    assert told == [
        Text("a"),
        RawItem(search),
        ToolCall(2, "call_1", "look"),
        ToolCall(2, arguments="{}"),
        ToolEnd(2),
        ItemEnd(),
        Text("b"),
    ]


@pytest.mark.parametrize("output", [None, [], "x", [None, 5]])
def test_a_last_event_without_items_takes_nothing_back(output: object) -> None:
    assert words(text("a"), ended(output=output)) == [Text("a")]


# Whole answers


def body(**fields: Any) -> bytes:
    return json.dumps({"object": "response", "id": "resp_1", "model": "m", **fields}).encode()


def test_a_whole_answer_is_told_in_the_order_of_its_items() -> None:
    output = [reasoning(content=[{"text": "hm"}]), CALL | {"arguments": "{}"}, message("a")]
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    assert decode(body(status="completed", output=output, usage=usage)) == [
        Start("m", "resp_1"),
        Reasoning("hm"),
        ToolCall(1, "call_1", "look"),
        ToolCall(1, arguments="{}"),
        ToolEnd(1),
        ItemEnd(),
        Text("a"),
        Usage(1, 2, total_tokens=3),
        Finish("completed"),
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "completed"),
        ({"object": None}, "completed"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
        ),
    ],
)
def test_a_whole_answer_says_how_it_ended(fields: Document, reason: str) -> None:
    assert decode(body(output=[message("a")], **fields))[-1] == Finish(reason)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (body(status="queued", output=[]), "protocol"),
        (body(status="in_progress", output=[]), "protocol"),
        (body(status="failed", output=[], error={"code": "server_error"}), "provider_overloaded"),
        (body(object="list", data=[]), "protocol"),
        (body(object="response.compaction", output=[]), "protocol"),
        (b'{"error":{"code":"insufficient_quota","message":"No credit."}}', "billing"),
        (b"[]", "unknown"),
        (b"<html>", "unknown"),
        (b'{"output":', "unknown"),
    ],
)
def test_a_body_that_is_no_answer_is_a_failure(sent: bytes, kind: str) -> None:
    last = decode(sent)[-1]
    assert isinstance(last, Failure)
    assert last.fault.type == kind


def test_a_body_with_half_a_character_is_mended() -> None:
    sent = b'{"output":[{"type":"message","content":"a\\ud83d"}]}'
    assert Text("a\N{REPLACEMENT CHARACTER}") in decode(sent)


# The dialect


def test_the_dialect_knows_its_providers_own_tools() -> None:
    dialect = ResponsesDialect(ResponsesQuirks(server_tools=frozenset({"look"})))
    item = CALL | {"arguments": "{}"}
    assert not any(isinstance(d, ToolCall) for d in dialect.decode(body(output=[item])))
    [frame] = dialect.framer().feed(b"data: " + json.dumps(done(0, **item)).encode() + b"\n\n")
    assert not any(isinstance(d, ToolCall) for d in dialect.decoder().feed(frame))


def test_the_dialect_classifies_and_describes_errors() -> None:
    dialect = ResponsesDialect()
    fault = dialect.classify(401, {}, b'{"detail":"Could not parse sk-1"}')
    assert fault.type == "auth"
    assert "sk-1" not in dialect.describe(fault)


def test_reasoning_items_are_sealed_each_on_its_own() -> None:
    subject = machine(seal=lambda states, raw: f"{raw}{[state.value['id'] for state in states]}")
    events = subject.start()
    for delta in decode(
        body(
            output=[
                reasoning(id="rs_1", summary=[{"text": "a"}], encrypted_content="x"),
                reasoning(id="rs_2", content=[{"text": "b"}], encrypted_content="y"),
                reasoning(id="rs_3", encrypted_content="z"),
                message("c"),
            ]
        )
    ):
        events += subject.feed(delta)
    told = documents(events + subject.finish())
    check(told)
    output = told[-1]["response"]["output"]
    assert [item.get("encrypted_content") for item in output] == [
        "['rs_1']",
        "b['rs_2']",
        "['rs_3']",
        None,
    ]
