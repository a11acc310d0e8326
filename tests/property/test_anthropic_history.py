"""Any history becomes a valid Anthropic request, and a growing history keeps its prefix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import MessageStep, ReasoningStep, Step
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from tests.property.test_history import (
    Item,
    any_items,
    is_answered,
    is_clients,
    junk,
    read,
    threads,
)
from tests.support.request_validators.anthropic import problems

SEES = frozenset({"text", "image", "file"})
MARK = re.compile(rb',?"cache_control":\{"type":"ephemeral"\}')
LOOK = ToolDeclaration(name="look")

Memory = Literal["all", "some", "none"]
memories = st.sampled_from(["all", "some", "none"])
cachings = st.sampled_from(["automatic", "breakpoints", "off"])
quirks = st.builds(
    AnthropicQuirks,
    thinking=st.sampled_from(["adaptive", "budget", "none"]),
    display=st.sampled_from([None, "summarized"]),
    caching=cachings,
)
plans = st.fixed_dictionaries(
    {},
    optional={
        "instructions": st.sampled_from(["Be brief.", " "]),
        "effort": st.sampled_from(["none", "low", "2048", "max"]),
        "declarations": st.just((LOOK,)),
        "tool_choice": st.sampled_from([ToolChoice(), ToolChoice("none"), ToolChoice("required")]),
        "parameters": st.fixed_dictionaries(
            {}, optional={"max_output_tokens": st.integers(1, 9000), "top_p": st.just(0.5)}
        ),
    },
)


def remembered(steps: Sequence[Step], memory: Memory) -> list[Step]:
    """Add reasoning state to all, some or none of the reasoning steps."""
    found: list[Step] = []
    for place, step in enumerate(steps):
        if isinstance(step, ReasoningStep) and (
            memory == "all" or (memory == "some" and place % 2)
        ):
            thinking = {"type": "thinking", "thinking": step.text, "signature": f"s{place}"}
            redacted = {"type": "redacted_thinking", "data": "d"}
            states = (
                ReasoningState("anthropic.thinking", thinking, "block"),
                ReasoningState("anthropic.redacted_thinking", redacted, "block"),
            )
            found.append(replace(step, states=states))
        else:
            found.append(step)
    return found


def rendered(steps: Sequence[Step], how: AnthropicQuirks, **fields: Any) -> bytes:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    return encode(plan, stream=True, quirks=how).body


def is_prefix(body: bytes, following: bytes) -> bool:
    """Whether the provider finds the one request at the start of the other.

    Markers are no part of what it compares; brackets that are open may be filled.
    """
    return MARK.sub(b"", following).startswith(MARK.sub(b"", body).removesuffix(b"]}]}"))


@given(any_items, st.booleans(), memories, quirks, plans)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any], images: bool, memory: Memory, how: AnthropicQuirks, fields: dict[str, Any]
) -> None:
    steps = remembered(read(items, SEES, images), memory)
    assert problems(rendered(steps, how, **fields)) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(rendered(read(items), AnthropicQuirks())) == []


def has_begun(steps: Sequence[Step]) -> bool:
    """Whether there is a message: before that there is nothing to answer or to cache."""
    return any(
        not isinstance(step, MessageStep) or step.role not in ("system", "developer")
        for step in steps
    )


@given(any_items, any_items, memories, cachings)
def test_a_body_that_ends_with_the_client_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any], memory: Memory, caching: Any
) -> None:
    how = AnthropicQuirks(thinking="adaptive", caching=caching)
    steps = remembered(read(past), memory)
    assume(is_answered(past) and has_begun(steps) and is_clients(steps[-1]))
    fields = {"declarations": (LOOK,), "effort": "high"}
    following = rendered(remembered(read([*past, *more]), memory), how, **fields)
    assert is_prefix(rendered(steps, how, **fields), following)


@given(threads(), memories, st.sampled_from(["adaptive", "budget"]))
def test_the_body_of_each_turn_is_a_byte_prefix_of_the_next(
    requests: list[list[Item]], memory: Memory, thinking: Any
) -> None:
    """The provider follows the thread itself, so no marker moves."""
    how = AnthropicQuirks(thinking=thinking)
    histories = [remembered(read(history), memory) for history in accumulate(requests)]
    bodies = [rendered(steps, how, declarations=(LOOK,)) for steps in histories]
    assert all(problems(body) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}]}"))


@given(any_items, memories)
def test_encoding_twice_gives_the_same_bytes(items: list[Any], memory: Memory) -> None:
    steps = remembered(read(items), memory)
    assert rendered(steps, AnthropicQuirks()) == rendered(steps, AnthropicQuirks())
