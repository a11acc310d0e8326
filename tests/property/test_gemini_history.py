"""Any history is encoded as a valid Gemini request, and a longer history only appends."""

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
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.quirks import GeminiQuirks
from tests.property.test_history import (
    SEES,
    Item,
    any_items,
    is_answered,
    junk,
    read,
    threads,
)
from tests.support.request_validators.gemini import problems

LOOK = ToolDeclaration(
    name="look", parameters={"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
)
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}

StatePresence = Literal["all", "some", "none"]
state_presences = st.sampled_from(["all", "some", "none"])
quirks = st.builds(
    GeminiQuirks,
    json_schema=st.booleans(),
    effort=st.sampled_from([None, "level"]),
    include_thoughts=st.booleans(),
    sentinel=st.booleans(),
    call_ids=st.booleans(),
    media_in_answers=st.booleans(),
    links=st.booleans(),
    system_instruction=st.booleans(),
    stream_arguments=st.booleans(),
)
plans = st.fixed_dictionaries(
    {},
    optional={
        "instructions": st.sampled_from(["Be brief.", " "]),
        "effort": st.sampled_from(["low", "high"]),
        "declarations": st.just((LOOK,)),
        "native_tools": st.just(({"type": "web_search"},)),
        "tool_choice": st.sampled_from([ToolChoice(), ToolChoice("none"), ToolChoice("required")]),
        "parameters": st.fixed_dictionaries(
            {}, optional={"max_output_tokens": st.integers(1, 9000), "top_p": st.just(0.5)}
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
            on_text = {"signature": "c2ln", "start": index % 3, "end": index % 4}
            states = (
                ReasoningState("gemini.thought_signature", on_text, "text"),
                ReasoningState("gemini.part", {"part": CODE, "start": index % 5}, "turn"),
                ReasoningState("gemini.thought_signature", "dG9v", "tool"),
            )
            found.append(replace(step, states=states))
        else:
            found.append(step)
    return found


def encode_body(steps: Sequence[Step], given_quirks: GeminiQuirks, **fields: Any) -> bytes:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    return encode(plan, stream=True, quirks=given_quirks).body


@given(any_items, st.booleans(), state_presences, quirks, plans)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any],
    images: bool,
    presence: StatePresence,
    given_quirks: GeminiQuirks,
    fields: dict[str, Any],
) -> None:
    steps = add_states(read(items, SEES, images), presence)
    assert problems(encode_body(steps, given_quirks, **fields), signed=given_quirks.sentinel) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(encode_body(read(items), GeminiQuirks())) == []


def message_item(role: str) -> Item:
    return {"role": role, "content": "Go on."}


@given(any_items, st.sampled_from(["user", "developer"]), any_items, state_presences, quirks)
def test_a_body_that_ends_with_a_client_message_is_a_prefix_of_the_next(
    items: list[Any],
    role: str,
    more: list[Any],
    presence: StatePresence,
    given_quirks: GeminiQuirks,
) -> None:
    past = [message_item("developer"), message_item("user"), *items, message_item(role)]
    assume(is_answered(past))
    body = encode_body(add_states(read(past), presence), given_quirks, declarations=(LOOK,))
    following = encode_body(
        add_states(read([*past, *more]), presence), given_quirks, declarations=(LOOK,)
    )
    assert following.startswith(body.removesuffix(b"]}]}"))


@given(threads(), state_presences, quirks)
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Item]], presence: StatePresence, given_quirks: GeminiQuirks
) -> None:
    histories = [add_states(read(history), presence) for history in accumulate(requests)]
    bodies = [encode_body(steps, given_quirks, instructions="Be brief.") for steps in histories]
    assert all(problems(body, signed=given_quirks.sentinel) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}]}"))


@given(any_items, state_presences)
def test_encoding_twice_gives_the_same_bytes(items: list[Any], presence: StatePresence) -> None:
    steps = add_states(read(items), presence)
    assert encode_body(steps, GeminiQuirks()) == encode_body(steps, GeminiQuirks())
