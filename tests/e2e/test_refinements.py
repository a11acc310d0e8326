"""Where the gateway refines the founding design: call ids, filters, names, times, models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.checked_gateway import Document, configured, text
from tests.support.client_answers import post_request
from tests.support.upstream import DONE, HELLO, HELLO_WORLD, chunk, send_frames, usage

OBJECT: Document = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: Document = {"type": "function", "name": "get_weather", "parameters": OBJECT}


def call_without_id(index: int, city: str) -> bytes:
    function = {"name": "get_weather", "arguments": f'{{"city":"{city}"}}'}
    return chunk({"tool_calls": [{"index": index, "function": function}]})


async def test_calls_without_an_id_get_ids_that_lead_their_results_back(tmp_path: Path) -> None:
    calls = (call_without_id(0, "Ulm"), call_without_id(1, "Bonn"))
    script = send_frames((*calls, chunk({}, "tool_calls"), usage(), DONE))
    async with configured(tmp_path, script) as setup:
        answer = await setup.whole(input="Weather?", tools=[WEATHER])
        made = [item for item in answer["output"] if item["type"] == "function_call"]
        ids = [call["call_id"] for call in made]
        assert len(set(ids)) == 2
        assert all(id.startswith("call_") for id in ids)
        results = [
            {
                "type": "function_call_output",
                "call_id": call["call_id"],
                "output": call["arguments"],
            }
            for call in made
        ]
        await setup.whole(input=results, tools=[WEATHER], previous_response_id=answer["id"])
        messages = setup.last_body["messages"]
        [sent] = [each["tool_calls"] for each in messages if each.get("tool_calls")]
        by_id = {call["id"]: call["function"]["arguments"] for call in sent}
        outputs = {
            each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"
        }
        assert outputs == by_id
        assert len(outputs) == 2


@pytest.mark.parametrize("reason", ["content_filter", "sensitive", "SAFETY"])
async def test_an_answer_that_a_filter_ends_is_incomplete_and_keeps_its_text(
    tmp_path: Path, reason: str
) -> None:
    script = send_frames((*HELLO, chunk({}, reason), usage(), DONE))
    async with configured(tmp_path, script) as setup:
        answer = await setup.whole(input="Hello?")
        assert answer["status"] == "incomplete"
        assert answer["incomplete_details"] == {"reason": "content_filter"}
        assert (answer["error"], answer["completed_at"]) == (None, None)
        assert text(answer) == "Hello"
        assert len(setup.upstream.requests) == 1


async def test_two_tools_of_one_name_are_a_400_and_nothing_is_sent(tmp_path: Path) -> None:
    other = {**WEATHER, "parameters": {"type": "object"}}
    async with configured(tmp_path, send_frames(HELLO_WORLD)) as setup:
        for stream in (False, True):
            body: dict[str, Any] = {"model": "m", "input": "?", "tools": [WEATHER, other]}
            answer = await post_request(setup.gateway, {**body, "stream": stream})
            assert answer.status == 400
            assert answer.error["type"] == "invalid_request_error"
            assert answer.error["param"].startswith("tools")
            assert "get_weather" in answer.error["message"]
        assert setup.upstream.requests == []


@pytest.mark.parametrize("finish", ["stop", "length", None])
async def test_only_a_completed_response_says_when_it_was_completed(
    tmp_path: Path, finish: str | None
) -> None:
    script = send_frames((*HELLO, chunk({}, finish), usage(), DONE))
    async with configured(tmp_path, script) as setup:
        events = await setup.stream(input="Hello?")
        assert [event["response"]["completed_at"] for event in events[:2]] == [None, None]
        response = events[-1]["response"]
        assert (response["completed_at"] is not None) is (response["status"] == "completed")
        assert (response["status"] == "completed") is (finish == "stop")


async def test_every_event_names_the_model_as_the_request_did(tmp_path: Path) -> None:
    frames = [frame.replace(b'"choices"', b'"model":"m-2026-01-01","choices"') for frame in HELLO]
    script = send_frames((*frames, chunk({}, "stop"), usage(), DONE))
    async with configured(tmp_path, script) as setup:
        for name in ("m", "up/m"):
            events = await setup.stream(input="Hello?", model=name)
            named = {event["response"]["model"] for event in events if "response" in event}
            assert named == {name}
