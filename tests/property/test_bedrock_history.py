"""Any history becomes a valid Converse request, and a growing history keeps its prefix."""

from __future__ import annotations

import json
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
from antiphon.dialects.bedrock.encode import encode
from antiphon.dialects.bedrock.quirks import BedrockQuirks
from tests.property.test_history import (
    Item,
    any_items,
    is_answered,
    is_clients,
    junk,
    read,
    threads,
)
from tests.support.request_validators.bedrock import problems
from tests.support.request_validators.converse_model import offences

SEES = frozenset({"text", "image", "file", "audio"})
LOOK = ToolDeclaration(name="look")
MARK = b',{"cachePoint":{"type":"default"}}'

Memory = Literal["all", "some", "none"]
memories = st.sampled_from(["all", "some", "none"])
thinkings = st.sampled_from(["adaptive", "budget", "config", "effort", "none"])
quirks = st.builds(
    BedrockQuirks,
    thinking=thinkings,
    display=st.sampled_from([None, "summarized"]),
    sampling=st.sampled_from(["both", "one", "none"]),
    caching=st.booleans(),
)
plans = st.fixed_dictionaries(
    {},
    optional={
        "instructions": st.sampled_from(["Be brief.", " "]),
        "effort": st.sampled_from(["none", "low", "2048", "high"]),
        "declarations": st.just((LOOK,)),
        "tool_choice": st.sampled_from([ToolChoice(), ToolChoice("none")]),
        "parameters": st.fixed_dictionaries(
            {}, optional={"max_output_tokens": st.integers(1, 9000), "temperature": st.just(1.5)}
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
            signed = {"reasoningText": {"text": step.text, "signature": f"s{place}"}}
            blocks = (
                {"reasoningContent": signed},
                {"reasoningContent": {"redactedContent": "eA=="}},
            )
            states = (ReasoningState("bedrock.reasoning", block, "block") for block in blocks)
            found.append(replace(step, states=tuple(states)))
        else:
            found.append(step)
    return found


def rendered(steps: Sequence[Step], how: BedrockQuirks, **fields: Any) -> bytes:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    return encode(plan, stream=True, quirks=how).body


@given(any_items, st.booleans(), memories, quirks, plans)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any], images: bool, memory: Memory, how: BedrockQuirks, fields: dict[str, Any]
) -> None:
    body = rendered(remembered(read(items, SEES, images), memory), how, **fields)
    assert problems(body) == []


@given(any_items, st.booleans(), memories, quirks, plans)
def test_any_request_matches_amazons_service_model(
    items: list[Any], images: bool, memory: Memory, how: BedrockQuirks, fields: dict[str, Any]
) -> None:
    body = rendered(remembered(read(items, SEES, images), memory), how, **fields)
    assert offences(json.loads(body)) == []


@given(any_items, memories)
def test_text_and_calls_can_always_be_separated(items: list[Any], memory: Memory) -> None:
    body = rendered(remembered(read(items), memory), BedrockQuirks(separate_tool_messages=True))
    assert problems(body, separate_tool_messages=True) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(rendered(read(items), BedrockQuirks())) == []


def has_begun(steps: Sequence[Step]) -> bool:
    """Whether there is a message: before that there is nothing to answer or to cache."""
    return any(
        not isinstance(step, MessageStep) or step.role not in ("system", "developer")
        for step in steps
    )


def is_prefix(body: bytes, following: bytes) -> bool:
    """Whether the service finds the one request at the start of the other.

    Markers are no part of what it compares; brackets that are open may be filled.
    """
    return following.replace(MARK, b"").startswith(body.replace(MARK, b"").removesuffix(b"]}]}"))


@given(any_items, any_items, memories, st.booleans())
def test_a_body_that_ends_with_the_client_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any], memory: Memory, caching: bool
) -> None:
    how = BedrockQuirks(thinking="adaptive", caching=caching)
    steps = remembered(read(past), memory)
    assume(is_answered(past) and has_begun(steps) and is_clients(steps[-1]))
    fields = {"declarations": (LOOK,), "effort": "high"}
    following = rendered(remembered(read([*past, *more]), memory), how, **fields)
    assert is_prefix(rendered(steps, how, **fields), following)


@given(threads(), memories, thinkings, st.booleans())
def test_the_body_of_each_turn_is_a_prefix_of_the_next(
    requests: list[list[Item]], memory: Memory, thinking: Any, apart: bool
) -> None:
    how = BedrockQuirks(thinking=thinking, separate_tool_messages=apart)
    histories = [remembered(read(history), memory) for history in accumulate(requests)]
    bodies = [rendered(steps, how, declarations=(LOOK,)) for steps in histories]
    assert all(problems(body, separate_tool_messages=apart) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}]}"))


@given(any_items, memories)
def test_encoding_twice_gives_the_same_bytes(items: list[Any], memory: Memory) -> None:
    steps = remembered(read(items), memory)
    assert rendered(steps, BedrockQuirks()) == rendered(steps, BedrockQuirks())
