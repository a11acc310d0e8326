"""Any history is encoded as a valid Ollama request, and a longer history only appends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.history.steps import Step
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.ollama.encode import encode
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
from tests.support.request_validators.ollama import problems

replays = st.sampled_from(["never", "tool_turns", "always"])
schemas = st.dictionaries(
    st.sampled_from(["type", "properties", "required", "anyOf", "enum", "description", "$defs"]),
    junk | st.dictionaries(st.text(max_size=3), junk, max_size=2) | st.lists(junk, max_size=2),
    max_size=4,
)
choices = st.sampled_from([ToolChoice(), ToolChoice("none"), ToolChoice("function", "look")])


def encode_body(steps: Sequence[Step], replay: ReplayReasoning = "always", **fields: Any) -> bytes:
    plan = Plan(
        provider="p",
        model="m",
        instructions="Be brief.",
        history=tuple(steps),
        replay_reasoning=replay,
        **fields,
    )
    return encode(plan, stream=True).body


@given(any_items, st.sampled_from([SEES, READS]), st.booleans())
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any], inputs: frozenset[str], images: bool
) -> None:
    assert problems(encode_body(read(items, inputs, images))) == []


@given(st.lists(junk, max_size=4))
def test_any_list_of_items_is_encoded_as_a_valid_request(items: list[Any]) -> None:
    assert problems(encode_body(read(items))) == []


@given(schemas, choices)
def test_any_schema_is_corrected_to_a_readable_one(
    schema: dict[str, Any], choice: ToolChoice
) -> None:
    tools = (ToolDeclaration(name="look", parameters=schema), ToolDeclaration(name="listen"))
    assert problems(encode_body([], declarations=tools, tool_choice=choice)) == []


@given(any_items, any_items, st.sampled_from(["developer", "user"]))
def test_a_body_that_ends_with_a_client_message_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any], role: str
) -> None:
    assume(is_answered(past))
    items_so_far = [*past, {"role": role, "content": "hi"}]
    body = encode_body(read(items_so_far))
    assert encode_body(read([*items_so_far, *more])).startswith(body.removesuffix(b"]}"))


@given(threads(), replays)
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Item]], replay: ReplayReasoning
) -> None:
    bodies = [encode_body(read(history), replay) for history in accumulate(requests)]
    assert all(problems(body) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}"))


@given(any_items)
def test_encoding_twice_gives_the_same_bytes(items: list[Any]) -> None:
    assert encode_body(read(items)) == encode_body(read(items))
