"""Any history is encoded as a valid Responses request, and a longer history only appends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.history.steps import AudioPart, MessageStep, ReasoningStep, Step
from antiphon.core.plan.plan import Plan
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks
from tests.property.test_history import any_items, is_answered, is_clients, junk, read, threads
from tests.support.dialect_samples.responses_history import IN_PLAIN, encrypted_state
from tests.support.request_validators.responses import problems

INPUTS = frozenset({"text", "image", "file", "file_url"})
replays = st.sampled_from(["never", "tool_turns", "always"])
quirks = st.sampled_from([PLAIN, IN_PLAIN])


def known(items: Sequence[Any], images: bool = True) -> list[Step]:
    """The steps of a history, with encrypted state in every reasoning step."""
    steps = read(items, INPUTS, images)
    return [
        structs.replace(step, states=(encrypted_state(f"rs_{number}"),))
        if isinstance(step, ReasoningStep)
        else step
        for number, step in enumerate(steps)
    ]


def encode_body(
    steps: Sequence[Step], replay: ReplayReasoning = "always", quirks: ResponsesQuirks = PLAIN
) -> bytes:
    plan = Plan(
        provider="p",
        model="m",
        instructions="Be brief.",
        history=tuple(steps),
        replay_reasoning=replay,
        developer_role=True,
    )
    return encode(plan, stream=True, quirks=quirks).body


@given(any_items, st.booleans(), replays, quirks)
def test_any_history_is_encoded_as_a_valid_request(
    items: list[Any], images: bool, replay: ReplayReasoning, quirks: ResponsesQuirks
) -> None:
    body = encode_body(known(items, images), replay, quirks)
    assert problems(body, plain_reasoning=quirks.plain_reasoning) == []


@given(st.lists(junk, max_size=4), quirks)
def test_any_list_of_items_is_encoded_as_a_valid_request(
    items: list[Any], quirks: ResponsesQuirks
) -> None:
    body = encode_body(read(items, INPUTS), quirks=quirks)
    assert problems(body, plain_reasoning=quirks.plain_reasoning) == []


@given(any_items, any_items)
def test_a_body_that_ends_with_a_client_message_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any]
) -> None:
    steps = known(past)
    assume(is_answered(past))
    assume(steps and is_clients(steps[-1]))
    body = encode_body(steps)
    assert encode_body(known([*past, *more])).startswith(body.removesuffix(b"]}"))


@given(threads(), replays, quirks)
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Any]], replay: ReplayReasoning, quirks: ResponsesQuirks
) -> None:
    bodies = [encode_body(known(history), replay, quirks) for history in accumulate(requests)]
    for body, following in pairwise(bodies):
        assert problems(body, plain_reasoning=quirks.plain_reasoning) == []
        assert following.startswith(body.removesuffix(b"]}"))


@given(any_items)
def test_encoding_twice_gives_the_same_bytes(items: list[Any]) -> None:
    assert encode_body(known(items)) == encode_body(known(items))


@given(any_items)
def test_audio_is_not_sent_to_servers_without_audio_input(items: list[Any]) -> None:
    parts = [part for step in known(items) if isinstance(step, MessageStep) for part in step.parts]
    assert not any(isinstance(part, AudioPart) for part in parts)
