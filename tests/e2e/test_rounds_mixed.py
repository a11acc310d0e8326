"""Several follow-ups in one answer: search, structured output, patch correction, client calls.

Each is taken care of as if it were alone, streamed or whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import ModelConfig
from tests.support.patches import FILES, patch
from tests.support.rounds import (
    PATCH,
    READ,
    SEARCH,
    TEXT_FORMAT,
    ULM,
    Document,
    call_delta,
    item_types,
    output_text,
    patch_call,
    read_call,
    reasoning_delta,
    round_script,
    rounds_gateway,
    search_call,
    search_statuses,
    streamed_and_whole,
    text_delta,
)
from tests.support.upstream import Script

SOUND = patch(FILES["text"])
BROKEN = SOUND.replace("+one", "one")
TOOLS = [SEARCH, READ, PATCH]

NATIVE = ModelConfig()
BY_TOOL = ModelConfig(formats=["text"])
TOLD = ModelConfig(formats=["text"], tool_choice=["auto", "none"])
every_way = pytest.mark.parametrize(
    "model", [NATIVE, BY_TOOL, TOLD], ids=["asked natively", "by a tool", "told"]
)


def answer_of(model: ModelConfig, text: str) -> Document:
    """The answer in the form that this model uses."""
    return call_delta(("call_a", "answer_trip", text)) if model is BY_TOOL else text_delta(text)


def inputs(response: Document) -> list[str]:
    return [item["input"] for item in response["output"] if item["type"] == "custom_tool_call"]


@every_way
@streamed_and_whole
async def test_a_search_followed_by_structured_output(
    tmp_path: Path, model: ModelConfig, stream: bool
) -> None:
    """Text before the search is not part of the structured answer."""
    rounds = [
        round_script(text_delta("I look it up."), call_delta(search_call())),
        round_script(answer_of(model, '{"town": 1}')),
        round_script(answer_of(model, ULM)),
    ]
    async with rounds_gateway(tmp_path, *rounds, model=model) as setup:
        response = (
            await setup.post_request(stream=stream, tools=[SEARCH], text=TEXT_FORMAT)
        ).response
        assert len(setup.request_bodies) == 3
    assert (response["status"], output_text(response)) == ("completed", ULM)
    assert search_statuses(response) == ["completed"]
    assert response["usage"]["total_tokens"] == 30


@every_way
@streamed_and_whole
async def test_text_before_a_client_call_is_not_checked_against_the_format(
    tmp_path: Path, model: ModelConfig, stream: bool
) -> None:
    rounds = [round_script(text_delta("Not JSON."), call_delta(read_call()))]
    async with rounds_gateway(tmp_path, *rounds, model=model) as setup:
        response = (await setup.post_request(stream=stream, tools=TOOLS, text=TEXT_FORMAT)).response
        assert len(setup.request_bodies) == 1
    assert (response["status"], output_text(response)) == ("completed", "Not JSON.")
    assert sorted(item_types(response)) == ["function_call", "message"]


@every_way
@streamed_and_whole
async def test_a_patch_is_corrected_beside_structured_output(
    tmp_path: Path, model: ModelConfig, stream: bool
) -> None:
    rounds = [
        round_script(text_delta("Patching."), call_delta(patch_call(BROKEN), read_call())),
        round_script(text_delta("Again."), call_delta(patch_call(SOUND, "call_q"))),
    ]
    async with rounds_gateway(tmp_path, *rounds, model=model) as setup:
        response = (await setup.post_request(stream=stream, tools=TOOLS, text=TEXT_FORMAT)).response
        assert len(setup.request_bodies) == 2
    assert response["status"] == "completed"
    assert inputs(response) == [SOUND]
    assert item_types(response).count("function_call") == 1


ORDERS: dict[str, list[Script]] = {
    "search beside the patch": [
        round_script(call_delta(search_call(), patch_call(BROKEN))),
        round_script(call_delta(patch_call(SOUND, "call_q"))),
    ],
    "search before the correction": [
        round_script(call_delta(patch_call(BROKEN))),
        round_script(call_delta(search_call())),
        round_script(call_delta(patch_call(SOUND, "call_q"))),
    ],
    "search, a thought, and the patch": [
        round_script(call_delta(search_call())),
        round_script(reasoning_delta("Hm.")),
        round_script(call_delta(patch_call(BROKEN))),
        round_script(call_delta(patch_call(SOUND, "call_q"))),
    ],
    "a thought before the correction": [
        round_script(call_delta(search_call())),
        round_script(call_delta(patch_call(BROKEN))),
        round_script(reasoning_delta("Hm.")),
        round_script(call_delta(patch_call(SOUND, "call_q"))),
    ],
    "the same id in each round": [
        round_script(call_delta(search_call(call_id="call_0"))),
        round_script(call_delta(patch_call(BROKEN, "call_0"))),
        round_script(call_delta(patch_call(SOUND, "call_0"))),
    ],
}


@streamed_and_whole
@pytest.mark.parametrize("rounds", ORDERS.values(), ids=ORDERS)
async def test_searches_and_corrections_come_in_any_order(
    tmp_path: Path, rounds: list[Script], stream: bool
) -> None:
    async with rounds_gateway(tmp_path, *rounds) as setup:
        body: Document = {"tools": TOOLS, "parallel_tool_calls": False}
        answer = (await setup.post_request(stream=stream, **body)).response
        assert len(setup.request_bodies) == len(rounds)
        [call] = [item for item in answer["output"] if item["type"] == "custom_tool_call"]
        result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
        later = {"previous_response_id": answer["id"], "input": [result]}
        assert (await setup.post_request(stream=stream, **body, **later)).status == 200
    assert answer["status"] == "completed"
    assert call["input"] == SOUND
    assert search_statuses(answer) == ["completed"]
    assert answer["usage"]["total_tokens"] == 10 * len(rounds)


@streamed_and_whole
async def test_searches_are_counted_over_all_rounds(tmp_path: Path, stream: bool) -> None:
    """A patch that is corrected between two of them makes no difference."""
    rounds = [
        round_script(
            call_delta(search_call("rain", "c1"), search_call("sun", "c2"), patch_call(BROKEN))
        ),
        round_script(call_delta(search_call("moon", "c3"))),
        round_script(call_delta(patch_call(SOUND, "call_q"))),
    ]
    async with rounds_gateway(tmp_path, *rounds) as setup:
        answer = await setup.post_request(stream=stream, tools=TOOLS, max_tool_calls=1)
        [told] = setup.log_of("response.diagnostics")
    assert search_statuses(answer.response) == ["completed"]
    assert inputs(answer.response) == [SOUND]
    assert "search.limited:tools" in told["diagnostics"]


@streamed_and_whole
async def test_without_parallel_calls_all_rounds_have_one_call(
    tmp_path: Path, stream: bool
) -> None:
    """The patch call beside the first call is left out, and so is its correction."""
    rounds = [
        round_script(call_delta(read_call(), patch_call(BROKEN))),
        round_script(call_delta(patch_call(patch(FILES["gone"]), "call_q"), read_call("call_t"))),
    ]
    async with rounds_gateway(tmp_path, *rounds) as setup:
        answer = await setup.post_request(stream=stream, tools=TOOLS, parallel_tool_calls=False)
    assert answer.response["status"] == "completed"
    assert item_types(answer.response) == ["function_call"]
