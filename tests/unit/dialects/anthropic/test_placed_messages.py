"""History of a client of the same format: its messages, its blocks and their order are kept."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    AudioPart,
    BlockPlace,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    ReasoningStep,
    RefusalPart,
    Role,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.items import CacheBreakpoint
from antiphon.core.plan.plan import Plan
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from tests.support.tables import table

QUIRKS = AnthropicQuirks(thinking="adaptive", caching="off")
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}
SYSTEM_ROLE = {"betas": ("effort-2025-11-24", "mid-conversation-tool-changes-2026-07-01")}


def messages(*history: Step, quirks: AnthropicQuirks = QUIRKS, **fields: Any) -> list[Any]:
    plan = Plan(provider="p", model="m", history=history, **fields)
    found: list[Any] = json.loads(encode(plan, stream=False, quirks=quirks).body)["messages"]
    return found


def said(role: Role, at: BlockPlace | None, *parts: str | Part) -> MessageStep:
    whole = (TextPart(part) if isinstance(part, str) else part for part in parts)
    return MessageStep(role, tuple(whole), place=at)


def called(call_id: str, at: BlockPlace | None) -> ToolCallStep:
    return ToolCallStep(call_id, "f", "{}", place=at)


def returned(call_id: str, at: BlockPlace | None, **fields: Any) -> ToolResultStep:
    return ToolResultStep(call_id, (TextPart("ok"),), place=at, **fields)


def thought(at: BlockPlace | None, *blocks: dict[str, Any]) -> ReasoningStep:
    states = (ReasoningState("anthropic.thinking", block, "block") for block in blocks)
    return ReasoningStep(states=tuple(states), place=at)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def result(call_id: str, **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text("ok")], **members}


HI = said("user", BlockPlace(0, 0), "hi")


def test_messages_of_one_role_stay_apart() -> None:
    assert messages(HI, said("user", BlockPlace(1, 0), "and", "more")) == [
        {"role": "user", "content": [text("hi")]},
        {"role": "user", "content": [text("and"), text("more")]},
    ]


def test_blocks_of_an_answer_keep_their_order() -> None:
    history = (
        HI,
        thought(BlockPlace(1, 0), SIGNED),
        called("a", BlockPlace(1, 1)),
        said("assistant", BlockPlace(1, 2), "wait"),
        called("b", BlockPlace(1, 3)),
        returned("a", BlockPlace(2, 1)),
        returned("b", BlockPlace(2, 0)),
        said("user", BlockPlace(2, 2), "go on"),
    )
    assert messages(*history)[1:] == [
        {"role": "assistant", "content": [SIGNED, use("a"), text("wait"), use("b")]},
        {"role": "user", "content": [result("b"), result("a"), text("go on")]},
    ]


def test_results_come_first_whatever_the_client_sent() -> None:
    history = (
        HI,
        called("a", BlockPlace(1, 0)),
        returned("a", BlockPlace(2, 1)),
        said("user", BlockPlace(2, 0), "so"),
    )
    assert messages(*history)[2]["content"] == [result("a"), text("so")]


def test_a_step_without_a_place_follows_the_one_before_it() -> None:
    moved = MessageStep("user", (ImagePart("https://x.test/1.png"),))
    content = messages(HI, said("user", BlockPlace(0, 2), "b"), moved)[0]["content"]
    assert [block["type"] for block in content] == ["text", "text", "image"]
    [first] = messages(moved, said("user", BlockPlace(0, 0), "a"))
    assert [block["type"] for block in first["content"]] == ["image", "text"]


def test_an_answer_does_not_end_with_reasoning() -> None:
    history = (HI, said("assistant", BlockPlace(1, 0), "a"), thought(BlockPlace(1, 1), SIGNED))
    found = messages(*history, said("user", BlockPlace(2, 0), "b"))
    assert found[1] == {"role": "assistant", "content": [text("a")]}
    [_, only] = messages(HI, thought(BlockPlace(1, 0), SIGNED), said("user", BlockPlace(2, 0), "b"))
    assert only["role"] == "user"


def test_a_system_message_keeps_its_position_and_its_role_where_a_beta_allows_it() -> None:
    history = (
        said("system", BlockPlace(-1, 0), "first"),
        HI,
        MessageStep(
            "system", (TextPart("now"),), place=BlockPlace(1, 0), extra={"output_config": {}}
        ),
        said("assistant", BlockPlace(2, 0), "yes"),
        said("user", BlockPlace(3, 0), "go"),
    )
    system = {"role": "system", "content": [text("now")], "output_config": {}}
    assert messages(*history, parameters=SYSTEM_ROLE)[1] == system
    assert messages(*history)[0] == {
        "role": "user",
        "content": [text("hi"), text("<system>\nnow\n</system>")],
    }


def test_a_last_answer_is_a_prefill_only_where_the_client_wants_one() -> None:
    history = (HI, said("assistant", BlockPlace(1, 0), "{"))
    assert messages(*history)[-1] == {"role": "user", "content": [text("Continue.")]}
    assert messages(*history, parameters={"prefill": True})[-1]["role"] == "assistant"


def test_a_history_that_begins_with_an_answer_gets_a_user_message() -> None:
    found = messages(said("assistant", BlockPlace(0, 0), "a"), said("user", BlockPlace(1, 0), "b"))
    assert found[0] == {"role": "user", "content": [text("[no text]")]}
    assert messages(said("user", BlockPlace(0, 0), " ")) == found[:1]


def test_results_keep_their_marks() -> None:
    mark = CacheBreakpoint()
    history = [HI]
    calls = [called(each, BlockPlace(1, index)) for index, each in enumerate("abc")]
    results = [
        returned("a", BlockPlace(2, 0), is_error=True),
        returned("b", BlockPlace(2, 1), is_error=False, cache=mark, extra={"x": 1}),
        ToolResultStep("c", (TextPart(" "),), place=BlockPlace(2, 2)),
    ]
    cache = {"cache_control": {"type": "ephemeral"}}
    empty = {"type": "tool_result", "tool_use_id": "c", "content": [text("[no output]")]}
    assert messages(*history, *calls, *results)[2]["content"] == [
        result("a", is_error=True),
        result("b", is_error=False, x=1, **cache),
        empty,
    ]


def test_a_call_keeps_its_members() -> None:
    call = ToolCallStep(
        "a", "f", "{}", place=BlockPlace(1, 0), cache=CacheBreakpoint("5m"), extra={"x": 1}
    )
    cache = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
    found = messages(HI, call, returned("a", BlockPlace(2, 0)))
    assert found[1]["content"] == [{**use("a"), "x": 1, **cache}]


@table(
    ("part", "block"),
    [
        (RefusalPart("no"), text("no")),
        (AudioPart("AA==", "wav"), text("[audio omitted: this model takes no audio]")),
        (TextPart("found", tool="Look"), {"type": "tool_reference", "tool_name": "Look"}),
        (TextPart("x", extra={"type": "search_result", "a": 1}), {"type": "search_result", "a": 1}),
        (
            FilePart(url="https://x.test/a.pdf", cache=CacheBreakpoint()),
            {
                "type": "document",
                "source": {"type": "url", "url": "https://x.test/a.pdf"},
                "cache_control": {"type": "ephemeral"},
            },
        ),
    ],
)
def test_every_part_is_a_block(part: Part, block: dict[str, Any]) -> None:
    assert messages(said("user", BlockPlace(0, 0), part))[0]["content"] == [block]


def test_results_of_a_turn_without_thinking_disable_a_budget() -> None:
    quirks = AnthropicQuirks(thinking="budget", caching="off")
    plan = Plan(
        provider="p",
        model="m",
        history=(
            HI,
            called("a", BlockPlace(1, 0)),
            returned("a", BlockPlace(2, 0)),
            thought(BlockPlace(3, 0), SIGNED),
            called("b", BlockPlace(3, 1)),
            returned("b", BlockPlace(4, 0)),
        ),
        effort="2048",
    )
    sent = json.loads(encode(plan, stream=False, quirks=quirks).body)
    assert sent["thinking"] == {"type": "disabled"}


SERVER_USE = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}


def test_a_turn_that_the_provider_has_paused_goes_back_as_it_was() -> None:
    paused = said("assistant", BlockPlace(1, 0), TextPart("[x]", extra=SERVER_USE))
    assert messages(HI, paused)[-1] == {"role": "assistant", "content": [SERVER_USE]}


def test_blocks_of_the_format_are_kept_without_a_place() -> None:
    stored = (
        MessageStep("user", (TextPart("hi"),)),
        MessageStep("assistant", (TextPart("[x]", extra=SERVER_USE),)),
        MessageStep("assistant", (TextPart("a", extra={"citations": []}),)),
        MessageStep("user", (TextPart("go on"),)),
    )
    assert messages(*stored)[1]["content"] == [SERVER_USE, {**text("a"), "citations": []}]


@table(("fields", "kept"), [({}, 4), ({"cache_control": {"type": "ephemeral"}}, 3)])
def test_the_last_four_breakpoints_of_a_thread_are_kept(fields: dict[str, Any], kept: int) -> None:
    """tghamm/Anthropic.SDK#50: "A maximum of 4 blocks with cache_control may be provided". Each
    turn of a thread that the gateway has stored brings its own."""
    mark = CacheBreakpoint()
    marked = TextPart("ok", cache=mark)
    history: list[Step] = [
        said("system", BlockPlace(-1, 0), marked),
        said("user", BlockPlace(0, 0), marked),
        said("user", BlockPlace(1, 0), marked),
        called("toolu_1", BlockPlace(2, 0)),
        ToolResultStep("toolu_1", (marked,), place=BlockPlace(3, 0), cache=mark),
        said("user", BlockPlace(3, 1), marked),
    ]
    plan = Plan(
        provider="p",
        model="m",
        history=tuple(history),
        parameters={"prompt_caching": "client", **fields},
    )
    sent = json.loads(encode(plan, stream=False, quirks=QUIRKS).body)
    assert "cache_control" in sent["system"][0]
    assert json.dumps(sent["messages"]).count("cache_control") == kept - 1
    assert "cache_control" not in sent["messages"][0]["content"][0]
    assert "cache_control" in sent["messages"][-1]["content"][0]
    assert "cache_control" in sent["messages"][-1]["content"][-1]
