"""Provider state of calls: collected from a response, and put back into a history."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.call_state import (
    MAX_CHARS_IN_ID,
    CallState,
    calls_without_state,
    collect_states,
    find_states,
    pack,
    restore_states,
    unknown_calls,
    unpack,
)
from antiphon.core.history.capsule import Capsule, Unopened
from antiphon.core.items import FunctionCall, Item, Message, OutputText, ReasoningItem

Document = dict[str, Any]


def thought(state: str) -> ReasoningItem:
    return ReasoningItem(id=f"rs_{state}", status="completed", encrypted_content=state)


def call(name: str) -> FunctionCall:
    return FunctionCall(id=f"fc_{name}", call_id=name, name="f", status="completed")


TEXT = Message(id="msg_1", status="completed", content=(OutputText(text="One moment."),))
PLAIN = ReasoningItem(id="rs_0", status="completed")


def kept(state: str) -> Document:
    return {"type": "reasoning", "summary": [], "encrypted_content": state}


def sent(item: Item) -> Document:
    """An item of a response as a client returns it that echoes nothing but texts and calls."""
    if isinstance(item, FunctionCall):
        return {"type": "function_call", "id": item.id, "call_id": item.call_id, "name": "f"}
    return {"type": "message", "role": "assistant", "content": "One moment."}


USER = {"type": "message", "role": "user", "content": "hi"}
OUTPUT: list[Item] = [
    PLAIN,
    thought("a"),
    TEXT,
    thought("b"),
    call("1"),
    call("2"),
    thought("c"),
    call("3"),
]


def test_each_call_has_the_reasoning_before_it_and_the_last_one_what_follows() -> None:
    assert collect_states([*OUTPUT, thought("d")]) == {
        "fc_1": CallState([kept("a")], [kept("b")]),
        "fc_3": CallState(before=[kept("c")], after=[kept("d")]),
    }


def test_a_response_without_calls_or_without_state_has_nothing_to_keep() -> None:
    assert collect_states([thought("a"), TEXT, TEXT]) == {}
    assert collect_states([PLAIN, TEXT, call("1"), {"type": "web_search_call"}]) == {}


def test_restored_state_stands_where_it_was() -> None:
    output: list[Item] = [*OUTPUT, thought("d")]
    returned = [sent(item) for item in output if isinstance(item, Message | FunctionCall)]
    plain = {"type": "reasoning", "summary": [], "content": [{"text": "hm"}]}
    items: list[Document] = [USER, plain, *returned, USER]
    assert calls_without_state(items) == ["fc_1", "fc_2", "fc_3"]
    text, *calls = returned
    assert restore_states(items, collect_states(output)) == (
        USER,
        kept("a"),
        text,
        kept("b"),
        calls[0],
        calls[1],
        kept("c"),
        calls[2],
        kept("d"),
        USER,
    )


def test_a_turn_without_known_state_stays_as_it_is() -> None:
    foreign = {"type": "function_call", "call_id": "x", "name": "f"}
    plain = {"type": "reasoning", "summary": [], "content": [{"text": "hm"}]}
    text = sent(TEXT)
    items: list[Document] = [USER, plain, text, foreign, sent(call("9")), text, USER]
    states = {"fc_1": CallState([kept("a")])}
    assert calls_without_state(items) == ["fc_9"]
    assert restore_states(items, states) == tuple(items)


def test_text_behind_the_last_call_is_kept() -> None:
    foreign = {"type": "function_call", "call_id": "x", "name": "f"}
    items = [foreign, sent(call("1")), sent(TEXT)]
    restored = restore_states(items, {"fc_1": CallState(before=[kept("a")])})
    assert restored == (foreign, kept("a"), *items[1:])


def test_what_the_client_itself_returns_is_not_looked_up() -> None:
    sealed = {"type": "reasoning", "encrypted_content": "ap2.x"}
    states = {"type": "reasoning", "states": [{"scheme": "s", "value": "v"}]}
    items = [sealed, sent(call("1")), USER, states, sent(call("1"))]
    assert calls_without_state(items) == []
    assert restore_states(items, {"fc_1": CallState([kept("a")])}) == tuple(items)


def test_state_that_the_client_returns_in_front_of_everything_is_put_back_where_it_was() -> None:
    """A list beside a message does not say that its state belongs to the call after the text."""
    first, second = ({"type": "reasoning", "encrypted_content": f"ap2.{name}"} for name in "xy")
    own = {"fc_1": CallState(before=[kept("a")])}
    items: list[Document] = [first, sent(TEXT), sent(call("1"))]
    assert calls_without_state(items) == ["fc_1"]
    assert restore_states(items, own) == (sent(TEXT), kept("a"), sent(call("1")))
    assert restore_states(items, {}) == tuple(items)
    assert calls_without_state([first, second, sent(call("1")), sent(call("2"))]) == [
        "fc_1",
        "fc_2",
    ]
    assert calls_without_state([sent(TEXT), first, sent(call("1"))]) == []


def test_state_is_packed_for_a_capsule_and_read_from_it() -> None:
    state = CallState([kept("a")], [kept("b")], [kept("c")])
    other = ReasoningState("other", "x")
    capsule = Capsule(issuer="i", model="m", sealed_at=0, states=(other, *pack(state)))
    assert unpack(capsule) == state
    assert unpack(Capsule(issuer="i", model="m", sealed_at=0)) is None
    assert unpack(Unopened.EXPIRED) is None


def test_an_id_carries_short_state_that_precedes_its_call() -> None:
    assert CallState(before=[kept("a" * MAX_CHARS_IN_ID)]).fits_in_id()
    assert not CallState([kept("a")], [kept("b" * MAX_CHARS_IN_ID)]).fits_in_id()
    assert not CallState(after=[kept("a")]).fits_in_id()


# --- calls of stored responses --------------------------------------------------------------------


def stored(name: str, call_id: str, **members: Any) -> Document:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": call_id, "name": "f", **members}


def returned(call_id: str, arguments: str, **members: Any) -> Document:
    fields = {"call_id": call_id, "name": "f", "arguments": arguments, **members}
    return {"type": "function_call", **fields}


WEATHER = '{"city":"Ulm"}'
STORED: list[Document] = [
    {**kept("a"), "id": "rs_1", "status": "completed"},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
    kept("b"),
    stored("1", "call_0", arguments=WEATHER),
    {"type": "web_search_call", "id": "ws_1"},
    stored("2", "call_1", arguments="not JSON"),
    {"type": "reasoning", "id": "rs_2", "summary": []},
]


def test_calls_that_do_not_name_their_item_are_unknown() -> None:
    items = [USER, returned("call_0", "{}"), returned("call_1", "{}", id="fc_1"), USER]
    assert unknown_calls(items) == ["call_0"]
    assert calls_without_state(items) == ["fc_1"]
    assert unknown_calls([kept("a"), *items[1:]]) == []


def test_a_call_finds_its_state_in_the_stored_response_that_made_it() -> None:
    items = [USER, sent(TEXT), returned("call_0", '{"city": "Ulm"}'), returned("call_1", "other")]
    states = find_states(items, {"call_0": STORED, "call_1": STORED})
    assert states == {"call_0": CallState([kept("a")], [kept("b")])}
    assert restore_states(items, states) == (USER, kept("a"), items[1], kept("b"), *items[2:])


def test_a_call_with_the_id_of_another_one_gets_no_state() -> None:
    for other in (
        returned("call_0", '{"city":"Bonn"}'),
        returned("call_0", "{"),
        {**returned("call_0", WEATHER), "name": "g"},
    ):
        assert find_states([other], {"call_0": STORED}) == {}


def test_the_input_of_a_freeform_tool_is_an_argument_in_other_formats() -> None:
    made = {"type": "custom_tool_call", "call_id": "c", "name": "note", "input": "hi"}
    other = {**returned("c", '{"input": "hi"}'), "name": "note"}
    expected = {"c": CallState(before=[kept("a")])}
    assert find_states([made], {"c": [kept("a"), other]}) == expected
    assert find_states([other], {"c": [kept("a"), made]}) == expected
