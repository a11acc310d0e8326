"""Several reasons for another round in one answer: a search, a form, a patch, a client's own call.

Each is taken care of as if it were alone, streamed or whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import ModelConfig
from tests.support.patches import FILES, patch
from tests.support.rounds import (
    FORM,
    PATCH,
    READ,
    SEARCH,
    ULM,
    Document,
    both_ways,
    calls,
    found,
    patched,
    read,
    round_of,
    said,
    search,
    shape,
    stage,
    thought,
    words,
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
    """The answer as this model has to give it."""
    return calls(("call_a", "answer_trip", text)) if model is BY_TOOL else said(text)


def inputs(response: Document) -> list[str]:
    return [item["input"] for item in response["output"] if item["type"] == "custom_tool_call"]


@every_way
@both_ways
async def test_a_search_and_then_an_answer_in_its_form(
    tmp_path: Path, model: ModelConfig, stream: bool
) -> None:
    """What is said before the search is no part of the answer."""
    rounds = [
        round_of(said("I look it up."), calls(search())),
        round_of(answer_of(model, '{"town": 1}')),
        round_of(answer_of(model, ULM)),
    ]
    async with stage(tmp_path, *rounds, model=model) as scene:
        response = (await scene.ask(stream=stream, tools=[SEARCH], text=FORM)).response
        assert len(scene.asked) == 3
    assert (response["status"], words(response)) == ("completed", ULM)
    assert found(response) == ["completed"]
    assert response["usage"]["total_tokens"] == 30


@every_way
@both_ways
async def test_text_before_a_call_of_the_client_is_told_as_it_is(
    tmp_path: Path, model: ModelConfig, stream: bool
) -> None:
    rounds = [round_of(said("Not JSON."), calls(read()))]
    async with stage(tmp_path, *rounds, model=model) as scene:
        response = (await scene.ask(stream=stream, tools=TOOLS, text=FORM)).response
        assert len(scene.asked) == 1
    assert (response["status"], words(response)) == ("completed", "Not JSON.")
    assert sorted(shape(response)) == ["function_call", "message"]


@every_way
@both_ways
async def test_a_patch_is_corrected_where_a_form_is_asked_for(
    tmp_path: Path, model: ModelConfig, stream: bool
) -> None:
    rounds = [
        round_of(said("Patching."), calls(patched(BROKEN), read())),
        round_of(said("Again."), calls(patched(SOUND, "call_q"))),
    ]
    async with stage(tmp_path, *rounds, model=model) as scene:
        response = (await scene.ask(stream=stream, tools=TOOLS, text=FORM)).response
        assert len(scene.asked) == 2
    assert response["status"] == "completed"
    assert inputs(response) == [SOUND]
    assert shape(response).count("function_call") == 1


ORDERS: dict[str, list[Script]] = {
    "search beside the patch": [
        round_of(calls(search(), patched(BROKEN))),
        round_of(calls(patched(SOUND, "call_q"))),
    ],
    "search before the correction": [
        round_of(calls(patched(BROKEN))),
        round_of(calls(search())),
        round_of(calls(patched(SOUND, "call_q"))),
    ],
    "search, a thought, and the patch": [
        round_of(calls(search())),
        round_of(thought("Hm.")),
        round_of(calls(patched(BROKEN))),
        round_of(calls(patched(SOUND, "call_q"))),
    ],
    "a thought before the correction": [
        round_of(calls(search())),
        round_of(calls(patched(BROKEN))),
        round_of(thought("Hm.")),
        round_of(calls(patched(SOUND, "call_q"))),
    ],
    "the same id in each round": [
        round_of(calls(search(call_id="call_0"))),
        round_of(calls(patched(BROKEN, "call_0"))),
        round_of(calls(patched(SOUND, "call_0"))),
    ],
}


@both_ways
@pytest.mark.parametrize("rounds", ORDERS.values(), ids=ORDERS)
async def test_searches_and_corrections_come_in_any_order(
    tmp_path: Path, rounds: list[Script], stream: bool
) -> None:
    async with stage(tmp_path, *rounds) as scene:
        body: Document = {"tools": TOOLS, "parallel_tool_calls": False}
        answer = (await scene.ask(stream=stream, **body)).response
        assert len(scene.asked) == len(rounds)
        [call] = [item for item in answer["output"] if item["type"] == "custom_tool_call"]
        result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
        later = {"previous_response_id": answer["id"], "input": [result]}
        assert (await scene.ask(stream=stream, **body, **later)).status == 200
    assert answer["status"] == "completed"
    assert call["input"] == SOUND
    assert found(answer) == ["completed"]
    assert answer["usage"]["total_tokens"] == 10 * len(rounds)


@both_ways
async def test_searches_are_counted_over_all_rounds(tmp_path: Path, stream: bool) -> None:
    """A patch that is corrected between two of them makes no difference."""
    rounds = [
        round_of(calls(search("rain", "c1"), search("sun", "c2"), patched(BROKEN))),
        round_of(calls(search("moon", "c3"))),
        round_of(calls(patched(SOUND, "call_q"))),
    ]
    async with stage(tmp_path, *rounds) as scene:
        answer = await scene.ask(stream=stream, tools=TOOLS, max_tool_calls=1)
        [told] = scene.log_of("response.diagnostics")
    assert found(answer.response) == ["completed"]
    assert inputs(answer.response) == [SOUND]
    assert "search.limited:tools" in told["diagnostics"]


@both_ways
async def test_a_client_that_wants_one_call_gets_one_over_all_rounds(
    tmp_path: Path, stream: bool
) -> None:
    """The patch beside the first call is left out, and so is what becomes of it."""
    rounds = [
        round_of(calls(read(), patched(BROKEN))),
        round_of(calls(patched(patch(FILES["gone"]), "call_q"), read("call_t"))),
    ]
    async with stage(tmp_path, *rounds) as scene:
        answer = await scene.ask(stream=stream, tools=TOOLS, parallel_tool_calls=False)
    assert answer.response["status"] == "completed"
    assert shape(answer.response) == ["function_call"]
