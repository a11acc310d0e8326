"""Identification of output items: ids change, indices repeat, start and end events are missing."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import (
    Delta,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningState,
    Start,
    Text,
    ToolCall,
    ToolEnd,
)
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
from tests.support.machines import Document

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}


def content_deltas(*events: Document) -> list[Delta]:
    return [delta for delta in feed(*events) if not isinstance(delta, Start | Finish)]


def test_two_items_of_one_kind_are_kept_apart() -> None:
    deltas = feed(text("a", 0, "msg_1"), text("b", 1, "msg_2"), text("c", 1, "msg_2"))
    assert deltas == [Text("a"), ItemEnd(), Text("b"), Text("c")]


def test_an_item_may_be_added_after_its_first_delta() -> None:
    deltas = content_deltas(text("a"), added(0, type="message", id="msg_1"), text("b"))
    assert deltas == [Text("a"), Text("b")]


def test_an_id_that_changes_with_every_event_does_not_start_another_item() -> None:
    deltas = content_deltas(
        added(0, type="message", id="x1"),
        text("a", 0, "x2"),
        text("b", 0, "x3"),
        done(0, **message("ab", id="x4")),
        ended(output=[message("ab", id="x5")]),
    )
    assert deltas == [Text("a"), Text("b")]


def test_a_changed_call_id_is_emitted_as_first_received() -> None:
    deltas = content_deltas(
        added(0, **CALL),
        done(0, **CALL | {"id": "fc_2", "call_id": "call_2", "arguments": "{}"}),
    )
    assert deltas == [ToolCall(0, "call_1", "look"), ToolCall(0, arguments="{}"), ToolEnd(0)]


def test_a_constant_output_index_does_not_identify_items() -> None:
    deltas = content_deltas(
        added(0, type="message", id="a"),
        text("a", 0, "a"),
        done(0, **message("a", id="a")),
        text("b", 0, "b"),
        done(0, **message("b", id="b")),
        done(0, **message("c", id="c")),
        ended(output=[message(name, id=name) for name in "abc"]),
    )
    assert deltas == [Text("a"), ItemEnd(), Text("b"), ItemEnd(), Text("c")]


def test_a_constant_item_id_does_not_identify_items() -> None:
    calls = [CALL | {"call_id": f"call_{n}", "arguments": "{}"} for n in (1, 2)]
    deltas = content_deltas(
        *(e for n in (0, 1) for e in (added(n, **calls[n]), done(n, **calls[n])))
    )
    assert [delta.call_id for delta in deltas if isinstance(delta, ToolCall)] == [
        "call_1",
        None,
        "call_2",
        None,
    ]


def test_events_without_id_and_index_belong_to_the_last_item_of_their_kind() -> None:
    deltas = content_deltas(
        event("reasoning_text.delta", delta="hm"),
        event("output_text.delta", delta="a"),
        event("output_text.delta", delta="b"),
        event("output_text.done", text="ab"),
        event("reasoning_text.done", text="hm"),
        ended(output=[reasoning(content=[{"text": "hm"}]), message("ab")]),
    )
    assert deltas == [Reasoning("hm"), ItemEnd(), Text("a"), Text("b")]


def test_an_output_index_may_be_shared_by_items_of_two_kinds() -> None:
    deltas = content_deltas(
        text("a", 0, "x"), event("reasoning_text.delta", output_index=0, delta="hm")
    )
    assert deltas == [Text("a"), ItemEnd(), Reasoning("hm")]


def test_an_item_id_may_be_shared_by_items_of_two_kinds() -> None:
    deltas = content_deltas(
        event("reasoning_text.delta", item_id="x", delta="hm"), text("a", 1, "x"), text("b", 1, "x")
    )
    assert deltas == [Reasoning("hm"), ItemEnd(), Text("a"), Text("b")]


def test_arguments_may_come_before_the_name_of_the_call() -> None:
    deltas = content_deltas(
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta="{}"),
        done(0, **CALL, arguments="{}"),
    )
    assert deltas == [ToolCall(0, arguments="{}"), ToolCall(0, "call_1", "look"), ToolEnd(0)]


def test_reasoning_that_ends_after_the_message_is_emitted_once() -> None:
    thought = reasoning(id="rs_1", content=[{"text": "hm"}], encrypted_content="x")
    deltas = content_deltas(
        event("reasoning_text.delta", item_id="rs_1", output_index=0, delta="hm"),
        text("a", 1),
        done(1, **message("a", id="msg_1")),
        done(0, **thought),
        ended(output=[thought | {"id": "rs_2"}, message("a", id="msg_1")]),
    )
    assert deltas[:3] == [Reasoning("hm"), ItemEnd(), Text("a")]
    assert [type(delta) for delta in deltas[3:]] == [ItemEnd, ReasoningState]


def test_items_only_in_the_terminal_event_are_emitted_with_it() -> None:
    search = {"type": "web_search_call", "id": "ws_1"}
    deltas = content_deltas(
        text("a", 0, "msg_1"),
        ended(output=[message("a", id="msg_1"), search, CALL | {"arguments": "{}"}, message("b")]),
    )
    assert deltas == [
        Text("a"),
        RawItem(search),
        ToolCall(2, "call_1", "look"),
        ToolCall(2, arguments="{}"),
        ToolEnd(2),
        ItemEnd(),
        Text("b"),
    ]


@pytest.mark.parametrize("prefix", ["", "fc_"], ids=["llama.cpp", "Ollama"])
def test_the_call_id_may_be_the_only_id_of_a_call(prefix: str) -> None:
    """can1357/oh-my-pi#2016 and #2719: parallel calls, whose items have neither id nor index."""
    calls = [{"type": "function_call", "call_id": each, "name": "look"} for each in "ab"]
    whole = [call | {"arguments": "{}"} for call in calls]
    deltas = content_deltas(
        *(event("output_item.added", item=call | {"arguments": ""}) for call in calls),
        *(event("function_call_arguments.delta", item_id=prefix + n, delta="{}") for n in "ab"),
        *(event("output_item.done", item=call) for call in whole),
        ended(output=whole),
    )
    assert deltas == [
        *(ToolCall(0, "a", "look"), ToolCall(1, "b", "look")),
        *(ToolCall(0, arguments="{}"), ToolCall(1, arguments="{}")),
        *(ToolEnd(0), ToolEnd(1)),
    ]


def test_an_output_that_was_made_anew_is_compared_by_what_it_says() -> None:
    """vllm-project/vllm#56285 and #47916: other ids, and no message without text."""
    calls = [CALL | {"id": f"u{n}", "call_id": f"c{n}", "arguments": str(n)} for n in (0, 1)]
    thought = reasoning(id="rs", content=[{"text": "hm"}])
    deltas = content_deltas(
        done(0, **message("\n", id="m1")),
        done(1, **thought),
        *(done(2 + n, **calls[n]) for n in (0, 1)),
        done(4, **message("b", id="m2")),
        ended(
            output=[
                thought | {"id": "rs_1"},
                *(call | {"id": call["arguments"], "call_id": "new"} for call in calls),
                message("b", id="msg_1"),
                CALL | {"name": "other", "arguments": "1"},
            ]
        ),
    )
    assert [delta.call_id for delta in deltas if isinstance(delta, ToolCall) and delta.name] == [
        *("c0", "c1", "call_1"),
    ]
    assert [delta for delta in deltas if isinstance(delta, Text | Reasoning)] == [
        *(Text("\n"), Reasoning("hm"), Text("b")),
    ]


def test_calls_may_share_their_call_id() -> None:
    call = {"type": "function_call", "call_id": "look", "name": "look", "arguments": "{}"}
    deltas = content_deltas(
        *(each for n in (0, 1) for each in (added(n, **call), done(n, **call))),
        ended(output=[call, call]),
    )
    assert [delta for delta in deltas if isinstance(delta, ToolEnd)] == [ToolEnd(0), ToolEnd(1)]


def test_a_part_whose_index_grows_with_every_delta_is_emitted_once() -> None:
    """vllm-project/vllm#35184 and #29947: the end has the next index, and the whole text."""
    deltas = content_deltas(
        *(event("reasoning_text.delta", item_id="rs", content_index=n, delta="hm") for n in (0, 1)),
        event("reasoning_text.done", item_id="rs", content_index=2, text="hmhm"),
        done(0, **reasoning(id="rs", content=[{"text": "hmhm!"}])),
        *(text("ab"[n], 1) | {"content_index": n} for n in (0, 1)),
        event("output_text.done", item_id="msg_1", output_index=1, content_index=2, text="ab"),
        done(1, **message("abc", id="msg_1")),
    )
    assert deltas == [
        *(Reasoning("hm"), Reasoning("hm"), Reasoning("!")),
        *(ItemEnd(), Text("a"), Text("b"), Text("c")),
    ]


def test_the_end_of_an_item_without_id_may_have_the_index_of_the_next_one() -> None:
    """vllm-project/vllm#23927: gpt-oss."""
    deltas = content_deltas(
        added(0, **reasoning(id="")),
        event("reasoning_text.delta", item_id="", output_index=0, content_index=0, delta="hm"),
        event("reasoning_text.done", item_id="", output_index=1, content_index=0, text="hm"),
        done(1, **reasoning(id="", content=[{"text": "hm"}])),
        added(1, type="message", id="", content=[]),
        text("a", 1, ""),
        event("output_text.done", item_id="", output_index=2, content_index=0, text="a"),
        done(2, **message("a", id="")),
        ended(output=[reasoning(id="rs_1", content=[{"text": "hm"}]), message("a", id="msg_1")]),
    )
    assert deltas == [Reasoning("hm"), ItemEnd(), Text("a")]


def test_each_part_of_raw_reasoning_is_kept_apart() -> None:
    place = {"item_id": "rs_1", "output_index": 0}
    deltas = content_deltas(
        event("reasoning_text.delta", **place, content_index=0, delta="a"),
        event("reasoning_text.done", **place, content_index=0, text="a"),
        event("reasoning_text.delta", **place, content_index=1, delta="b"),
        done(0, **reasoning(id="rs_1", content=[{"text": "a"}, {"text": "b"}, {"text": "c"}])),
    )
    assert deltas == [Reasoning("a"), Reasoning("b", part=1), Reasoning("c", part=2)]


def test_a_part_of_raw_reasoning_that_has_no_end_is_not_sent_again_with_the_next_one() -> None:
    place = {"item_id": "rs_1", "output_index": 0}
    deltas = content_deltas(
        event("reasoning_text.delta", **place, content_index=0, delta="a"),
        event("reasoning_text.delta", **place, content_index=1, delta="b"),
        event("reasoning_text.done", **place, content_index=1, text="b"),
        done(0, **reasoning(id="rs_1", content=[{"text": "a"}, {"text": "b"}])),
    )
    assert deltas == [Reasoning("a"), Reasoning("b")]


def test_a_call_is_found_in_the_output_by_its_call_id_before_one_that_says_the_same() -> None:
    same = {"type": "function_call", "name": "look", "arguments": "{}"}
    deltas = content_deltas(
        done(2, **same, id="y", call_id="call_2"),
        ended(output=[{**same, "id": f"z_{n}", "call_id": f"call_{n}"} for n in (1, 2)]),
    )
    found = [delta.call_id for delta in deltas if isinstance(delta, ToolCall) and delta.call_id]
    assert found == ["call_2", "call_1"]


@pytest.mark.parametrize("output", [None, [], "x", [None, 5]])
def test_a_terminal_event_without_items_adds_nothing(output: object) -> None:
    assert content_deltas(text("a"), ended(output=output)) == [Text("a")]
