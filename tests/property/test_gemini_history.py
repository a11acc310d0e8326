"""Any history becomes a good Gemini request, and a history that grows keeps its past."""

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

Memory = Literal["all", "some", "none"]
memories = st.sampled_from(["all", "some", "none"])
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


def remembered(steps: Sequence[Step], memory: Memory) -> list[Step]:
    """The steps with the state that was sealed into thoughts: into all, into some, or lost."""
    found: list[Step] = []
    for place, step in enumerate(steps):
        if isinstance(step, Thought) and (memory == "all" or (memory == "some" and place % 2)):
            on_text = {"signature": "c2ln", "start": place % 3, "end": place % 4}
            states = (
                ReasoningState("gemini.thought_signature", on_text, "text"),
                ReasoningState("gemini.part", {"part": CODE, "start": place % 5}, "turn"),
                ReasoningState("gemini.thought_signature", "dG9v", "tool"),
            )
            found.append(replace(step, states=states))
        else:
            found.append(step)
    return found


def rendered(steps: Sequence[Step], how: GeminiQuirks, **fields: Any) -> bytes:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    return encode(plan, stream=True, quirks=how).body


@given(any_items, st.booleans(), memories, quirks, plans)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any], images: bool, memory: Memory, how: GeminiQuirks, fields: dict[str, Any]
) -> None:
    steps = remembered(read(items, SEES, images), memory)
    assert problems(rendered(steps, how, **fields), signed=how.sentinel) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(rendered(read(items), GeminiQuirks())) == []


def told(role: str) -> Item:
    return {"role": role, "content": "Go on."}


@given(any_items, st.sampled_from(["user", "developer"]), any_items, memories, quirks)
def test_a_body_that_ends_with_a_client_message_is_a_prefix_of_the_next(
    items: list[Any], role: str, more: list[Any], memory: Memory, how: GeminiQuirks
) -> None:
    past = [told("developer"), told("user"), *items, told(role)]
    assume(is_answered(past))
    body = rendered(remembered(read(past), memory), how, declarations=(LOOK,))
    following = rendered(remembered(read([*past, *more]), memory), how, declarations=(LOOK,))
    assert following.startswith(body.removesuffix(b"]}]}"))


@given(threads(), memories, quirks)
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Item]], memory: Memory, how: GeminiQuirks
) -> None:
    histories = [remembered(read(history), memory) for history in accumulate(requests)]
    bodies = [rendered(steps, how, instructions="Be brief.") for steps in histories]
    assert all(problems(body, signed=how.sentinel) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}]}"))


@given(any_items, memories)
def test_encoding_twice_gives_the_same_bytes(items: list[Any], memory: Memory) -> None:
    steps = remembered(read(items), memory)
    assert rendered(steps, GeminiQuirks()) == rendered(steps, GeminiQuirks())
