"""Any history becomes a good Cohere request, and a history that grows keeps its past."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.core.history.steps import Step, Thought
from antiphon.core.plan.plan import Plan, ToolChoice, ToolDeclaration
from antiphon.core.stream.deltas import ReasoningState
from antiphon.core.structured_output.contract import OutputContract
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN
from tests.property.test_history import (
    READS,
    SEES,
    Item,
    any_items,
    is_answered,
    junk,
    read,
    threads,
)
from tests.support.request_validators.cohere import problems

Memory = Literal["all", "some", "none"]
memories = st.sampled_from(["all", "some", "none"])
LOOK = ToolDeclaration(name="look", parameters={"required": ["a"]}, strict=True)
FORM = OutputContract(requested="json_schema", asked="json_schema", name="form", schema={})

quirks = st.builds(CohereQuirks, tool_results=st.sampled_from(["text", "documents"]))
plans = st.fixed_dictionaries(
    {},
    optional={
        "instructions": st.sampled_from(["Be brief.", " "]),
        "effort": st.sampled_from(["disabled", "low", "enabled"]),
        "declarations": st.sampled_from([(LOOK,), (LOOK, ToolDeclaration(name="listen"))]),
        "tool_choice": st.sampled_from(
            [
                ToolChoice(),
                ToolChoice("none"),
                ToolChoice("required"),
                ToolChoice("function", "look"),
            ]
        ),
        "contract": st.just(FORM),
        "replay_reasoning": st.sampled_from(["never", "tool_turns", "always"]),
        "parameters": st.dictionaries(
            st.sampled_from(["temperature", "top_p", "frequency_penalty", "max_output_tokens"]),
            st.integers(-2, 9000) | st.floats(-2, 2),
        ),
    },
)


def remembered(steps: Sequence[Step], memory: Memory) -> list[Step]:
    """The steps with the state that was sealed into thoughts: into all, into some, or lost."""
    found: list[Step] = []
    for place, step in enumerate(steps):
        if isinstance(step, Thought) and (memory == "all" or (memory == "some" and place % 2)):
            schemes = [THINKING, TOOL_PLAN] if place % 3 else [TOOL_PLAN]
            states = (ReasoningState(scheme, f"thought {place}", "block") for scheme in schemes)
            found.append(replace(step, states=tuple(states)))
        else:
            found.append(step)
    return found


def rendered(steps: Sequence[Step], how: CohereQuirks | None = None, **fields: Any) -> bytes:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    return encode(plan, stream=True, quirks=how or CohereQuirks()).body


@given(any_items, st.sampled_from([SEES, READS]), st.booleans(), memories, quirks, plans)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any],
    inputs: frozenset[str],
    images: bool,
    memory: Memory,
    how: CohereQuirks,
    fields: dict[str, Any],
) -> None:
    steps = remembered(read(items, inputs, images), memory)
    assert problems(rendered(steps, how, **fields)) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(rendered(read(items))) == []


@given(any_items, any_items, memories)
def test_a_body_that_ends_with_a_user_message_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any], memory: Memory
) -> None:
    """An instruction alone is no question: whoever has only that is told to go on."""
    assume(is_answered(past))
    asked = [*past, {"role": "user", "content": "hi"}]
    body = rendered(remembered(read(asked), memory))
    following = rendered(remembered(read([*asked, *more]), memory))
    assert following.startswith(body.removesuffix(b"]}"))


@given(threads(), memories, plans)
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Item]], memory: Memory, fields: dict[str, Any]
) -> None:
    histories = [remembered(read(history), memory) for history in accumulate(requests)]
    bodies = [rendered(steps, **fields) for steps in histories]
    assert all(problems(body) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}"))


@given(any_items, memories)
def test_encoding_twice_gives_the_same_bytes(items: list[Any], memory: Memory) -> None:
    steps = remembered(read(items), memory)
    assert rendered(steps) == rendered(steps)
