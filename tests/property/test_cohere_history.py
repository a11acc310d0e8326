"""Any history is encoded as a valid Cohere request, and a longer history only appends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import ReasoningStep, Step
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
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

StatePresence = Literal["all", "some", "none"]
state_presences = st.sampled_from(["all", "some", "none"])
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


def add_states(steps: Sequence[Step], presence: StatePresence) -> list[Step]:
    """Add reasoning state to all, some or none of the reasoning steps."""
    found: list[Step] = []
    for index, step in enumerate(steps):
        if isinstance(step, ReasoningStep) and (
            presence == "all" or (presence == "some" and index % 2)
        ):
            schemes = [THINKING, TOOL_PLAN] if index % 3 else [TOOL_PLAN]
            states = (ReasoningState(scheme, f"thought {index}", "block") for scheme in schemes)
            found.append(replace(step, states=tuple(states)))
        else:
            found.append(step)
    return found


def encode_body(
    steps: Sequence[Step], given_quirks: CohereQuirks | None = None, **fields: Any
) -> bytes:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    return encode(plan, stream=True, quirks=given_quirks or CohereQuirks()).body


@given(any_items, st.sampled_from([SEES, READS]), st.booleans(), state_presences, quirks, plans)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any],
    inputs: frozenset[str],
    images: bool,
    presence: StatePresence,
    given_quirks: CohereQuirks,
    fields: dict[str, Any],
) -> None:
    steps = add_states(read(items, inputs, images), presence)
    assert problems(encode_body(steps, given_quirks, **fields)) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(encode_body(read(items))) == []


@given(any_items, any_items, state_presences)
def test_a_body_that_ends_with_a_user_message_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any], presence: StatePresence
) -> None:
    """A history of instructions alone gets a user message that asks to continue."""
    assume(is_answered(past))
    asked = [*past, {"role": "user", "content": "hi"}]
    body = encode_body(add_states(read(asked), presence))
    following = encode_body(add_states(read([*asked, *more]), presence))
    assert following.startswith(body.removesuffix(b"]}"))


@given(threads(), state_presences, plans)
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Item]], presence: StatePresence, fields: dict[str, Any]
) -> None:
    histories = [add_states(read(history), presence) for history in accumulate(requests)]
    bodies = [encode_body(steps, **fields) for steps in histories]
    assert all(problems(body) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}"))


@given(any_items, state_presences)
def test_encoding_twice_gives_the_same_bytes(items: list[Any], presence: StatePresence) -> None:
    steps = add_states(read(items), presence)
    assert encode_body(steps) == encode_body(steps)
