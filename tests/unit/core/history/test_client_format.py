"""Members of items that only some client formats have."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.client_format import (
    RESPONSES,
    FormatSupport,
    read_cache,
    read_extra,
    read_place,
)
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import (
    BlockPlace,
    FilePart,
    ImagePart,
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.items import CacheBreakpoint
from tests.support.tables import table

MESSAGES = FormatSupport(tool_output_files=True, tool_errors=True, client_blocks="messages")
CACHED = {"cache_control": {"type": "ephemeral"}}
MARK = CacheBreakpoint()
ODD = {"extra": {"format": "messages", "members": {"x": 1}}}
PICTURE = "data:image/png;base64,AA=="
PDF = {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0="}


def read(*items: Any, support: FormatSupport = MESSAGES) -> tuple[list[Step], list[str]]:
    steps, diagnostics = read_items(
        items,
        inputs=frozenset({"text", "image", "file"}),
        tool_output_images=True,
        support=support,
        model_name="p/m",
    )
    return list(steps), [f"{each.code}: {each.message}" for each in diagnostics]


@table(
    ("place", "found"),
    [([1, 2], BlockPlace(1, 2)), ([1], None), (["a", 2], None), (None, None), ("12", None)],
)
def test_a_place_is_two_numbers(place: Any, found: BlockPlace | None) -> None:
    assert read_place({"place": place}) == found


@table(
    ("control", "found"),
    [
        ({"type": "ephemeral"}, MARK),
        ({"type": "ephemeral", "ttl": "1h", "scope": "global"}, CacheBreakpoint("1h", "global")),
        ({"type": "ephemeral", "ttl": 5}, MARK),
        ({"type": "eternal"}, None),
        ("ephemeral", None),
        (None, None),
    ],
)
def test_a_breakpoint_is_ephemeral(control: Any, found: CacheBreakpoint | None) -> None:
    assert read_cache({"cache_control": control}) == found


@table(
    ("extra", "found"),
    [
        ({"format": "messages", "members": {"x": 1}}, {"x": 1}),
        ({"format": "messages", "members": {}}, None),
        ({"format": "chat", "members": {"x": 1}}, None),
        ({"members": {"x": 1}}, None),
        (None, None),
    ],
)
def test_members_are_for_a_provider_of_the_same_format(extra: Any, found: Any) -> None:
    assert read_extra({"extra": extra}, MESSAGES) == found
    assert read_extra({"extra": extra}, RESPONSES) is None


# --- items ----------------------------------------------------------------------------------------


def test_parts_keep_breakpoints_and_members() -> None:
    content = [
        {"type": "input_text", "text": "a", **CACHED, **ODD},
        {"type": "input_image", "image_url": PICTURE, **CACHED, **ODD},
        {**PDF, "context": "c", "citations": True, **CACHED, **ODD},
    ]
    item = {"role": "user", "content": content, "place": [0, 1], **ODD}
    file = FilePart(data=PDF["file_data"], context="c", citations=True, cache=MARK, extra={"x": 1})
    parts = (
        TextPart("a", cache=MARK, extra={"x": 1}),
        ImagePart(PICTURE, cache=MARK, extra={"x": 1}),
        file,
    )
    step = MessageStep("user", parts, place=BlockPlace(0, 1), extra={"x": 1})
    assert read(item) == ([step], [])


def test_a_text_in_place_of_media_keeps_the_breakpoint_only() -> None:
    item = {
        "role": "user",
        "content": [{"type": "input_image", **CACHED, **ODD}],
    }
    [step], _ = read(item)
    assert isinstance(step, MessageStep)
    [part] = step.parts
    assert isinstance(part, TextPart)
    assert (part.cache, part.extra) == (MARK, None)


def test_a_refusal_has_no_breakpoint() -> None:
    [step], _ = read(
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no", **CACHED}]}
    )
    assert isinstance(step, MessageStep)
    assert not hasattr(step.parts[0], "cache")


def test_a_call_and_its_result_keep_their_members() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": "1", "is_error": True}
    steps = [
        ToolCallStep("a", "f", "{}", place=BlockPlace(1, 0), cache=MARK, extra={"x": 1}),
        ToolResultStep(
            "a",
            (TextPart("1"),),
            is_error=True,
            place=BlockPlace(2, 0),
            cache=MARK,
            extra={"x": 1},
        ),
    ]
    found = read(
        {**call, **CACHED, **ODD, "place": [1, 0]}, {**result, **CACHED, **ODD, "place": [2, 0]}
    )
    assert found == (steps, [])


@table("mark", [False, None, "yes"])
def test_a_result_without_an_error_needs_no_mark(mark: Any) -> None:
    result = {"type": "function_call_output", "call_id": "a", "output": "1", "is_error": mark}
    for support in (MESSAGES, RESPONSES):
        [step], diagnostics = read(result, support=support)
        assert isinstance(step, ToolResultStep)
        assert step.is_error is (False if support is MESSAGES and mark is False else None)
        assert diagnostics == []


def test_an_error_that_cannot_be_marked_is_reported() -> None:
    result = {"type": "function_call_output", "call_id": "a", "output": "1", "is_error": True}
    [step], [told] = read(result, support=RESPONSES)
    assert isinstance(step, ToolResultStep)
    assert step.is_error is None
    assert told == (
        "history.error.unmarked: `is_error` of a tool result is not supported by this model; its"
        " text is sent."
    )


def test_media_of_an_error_moves_to_a_user_message() -> None:
    """vellum-ai/vellum-assistant#18387: Anthropic refuses an error with anything but text."""
    parts = [
        {"type": "input_text", "text": "no page"},
        {"type": "input_image", "image_url": PICTURE},
        {"type": "tool_reference", "name": "look"},
        {**ODD, "type": "input_text", "text": "odd"},
        {"type": "client_block", "format": "messages", "block": {"type": "search_result"}},
    ]
    result = {"type": "function_call_output", "call_id": "a", "output": parts, "is_error": True}
    [step, moved], told = read(result)
    assert step == ToolResultStep(
        "a",
        (
            TextPart("no page"),
            TextPart("[image: see the next message]"),
            TextPart("Tool found, callable from now on: look"),
            TextPart("odd", extra={"x": 1}),
            TextPart("[search_result]"),
        ),
        is_error=True,
    )
    assert moved == MessageStep("user", (ImagePart(PICTURE),))
    assert [each.partition(":")[0] for each in told] == ["history.image.moved"]
    [unmarked], _ = read(result, support=RESPONSES)
    assert isinstance(unmarked, ToolResultStep)
    assert ImagePart(PICTURE) in unmarked.parts


def test_a_file_stays_in_a_result_where_the_provider_accepts_it() -> None:
    result = {"type": "function_call_output", "call_id": "a", "output": [PDF]}
    file = FilePart(data=PDF["file_data"])
    assert read(result) == ([ToolResultStep("a", (file,))], [])
    [_, moved], _ = read(result, support=RESPONSES)
    assert moved == MessageStep("user", (file,))


def test_a_reference_to_a_tool_is_a_text_with_its_name() -> None:
    result = {
        "type": "function_call_output",
        "call_id": "a",
        "output": [{"type": "tool_reference", "name": "Look"}],
    }
    part = TextPart("Tool found, callable from now on: Look", tool="Look")
    assert read(result) == ([ToolResultStep("a", (part,))], [])


def test_reasoning_keeps_its_place_and_state_that_was_not_sealed() -> None:
    states = [{"scheme": "s", "value": {"a": 1}}, {"value": 2}]
    item = {"type": "reasoning", "summary": [], "states": states, "place": [1, 0]}
    step = ReasoningStep(states=(ReasoningState("s", {"a": 1}, "block"),), place=BlockPlace(1, 0))
    assert read(item) == ([step], [])
    assert read({"type": "reasoning", "place": [1, 0]}) == ([], [])


# --- blocks without a canonical form --------------------------------------------------------------

BLOCK = {"type": "server_tool_use", "id": "s"}
ITEM = {"type": "client_block", "format": "messages", "block": BLOCK, "place": [1, 2]}


def test_a_block_goes_to_a_provider_of_the_same_format_as_it_is() -> None:
    part = TextPart("[server_tool_use]", extra=BLOCK)
    step = MessageStep("assistant", (part,), place=BlockPlace(1, 2))
    assert read({**ITEM, "role": "assistant"}) == ([step], [])
    assert read({**ITEM, "role": "?"})[0] == [MessageStep("user", (part,), place=BlockPlace(1, 2))]


def test_other_providers_get_the_text_of_a_block() -> None:
    step = MessageStep("user", (TextPart("found"),), place=BlockPlace(1, 2))
    assert read({**ITEM, "text": "found"}, support=RESPONSES) == ([step], [])


def test_a_block_without_text_is_reported_unless_it_is_a_hint() -> None:
    steps, told = read({**ITEM, "block": {}}, support=RESPONSES)
    assert steps == []
    assert told == [
        "history.part.ignored: Content block of type 'unknown' is not supported by p/m; ignored."
    ]
    assert read({**ITEM, "hint": True}, support=RESPONSES) == ([], [])


def test_a_block_may_be_part_of_a_message() -> None:
    item = {
        "role": "user",
        "content": [{"type": "client_block", "format": "messages", "block": BLOCK}],
    }
    step = MessageStep("user", (TextPart("[server_tool_use]", extra=BLOCK),))
    assert read(item) == ([step], [])


def test_a_message_of_nothing_but_ignored_blocks_is_ignored() -> None:
    item = {"role": "user", "content": [{"type": "client_block", "hint": True}], "place": [0, 0]}
    steps, told = read(item, support=RESPONSES)
    assert steps == []
    assert told == ["history.item.ignored: Item of type 'message' is ignored: it is empty."]
