"""The official `openai` client in strict validation mode, end to end on a real port."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem
from openai.types.responses.tool_param import ToolParam
from pydantic import BaseModel

from tests.support.gateways import running, settings
from tests.support.openai_client import echo_client, openai_client, scripted_client
from tests.support.upstream import DONE, HELLO_WORLD, chunk, send_frames, usage

WEATHER: ToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


class Person(BaseModel):
    name: str
    age: int


# Create


async def test_a_whole_answer(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        answer = await client.responses.create(model="echo/echo", input="Good morning", user="u")
        assert answer.output_text == "Good morning"
        assert (answer.status, answer.model, answer.object) == (
            "completed",
            "echo/echo",
            "response",
        )
        assert answer.usage is not None
        assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
        assert answer._request_id is not None
        assert answer._request_id.startswith("req_")


async def test_a_request_with_every_setting_is_repeated_in_the_response(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        answer = await client.responses.create(
            model="echo/echo",
            input=[{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}],
            instructions="Be brief.",
            max_output_tokens=100,
            metadata={"a": "b"},
            parallel_tool_calls=False,
            reasoning={"effort": "low", "summary": "auto"},
            service_tier="auto",
            temperature=0.5,
            text={"verbosity": "low"},
            tool_choice="none",
            tools=[WEATHER],
            top_p=0.9,
            truncation="disabled",
        )
        assert (answer.instructions, answer.max_output_tokens) == ("Be brief.", 100)
        assert (answer.metadata, answer.temperature, answer.top_p) == ({"a": "b"}, 0.5, 0.9)
        assert (answer.parallel_tool_calls, answer.tool_choice) == (False, "none")
        assert answer.reasoning is not None
        assert answer.reasoning.effort == "low"
        assert answer.text is not None
        assert answer.text.verbosity == "medium"  # echo has no verbosity
        assert [tool.type for tool in answer.tools] == ["function"]


async def test_an_answer_that_is_too_long_is_incomplete(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        answer = await client.responses.create(
            model="echo/echo", input="one two three four", max_output_tokens=2
        )
        assert (answer.status, answer.output_text) == ("incomplete", "one two")
        assert answer.incomplete_details is not None
        assert answer.incomplete_details.reason == "max_output_tokens"


# Stream


async def test_a_stream_of_events(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        stream = await client.responses.create(
            model="echo/echo", input="one two three", stream=True
        )
        events = [event async for event in stream]
        numbers = [event.sequence_number for event in events]
        assert numbers == list(range(len(events)))
        deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
        assert "".join(deltas) == "one two three"
        assert len(deltas) == 3
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.output_text == "one two three"


async def test_the_stream_helper_ends_at_the_same_response(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        async with client.responses.stream(model="echo/reasoner", input="Think of it") as stream:
            seen = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert final.output_text == "Think of it"
        assert [item.type for item in final.output] == ["reasoning", "message"]
        assert seen[0] == "response.created"
        assert seen[-1] == "response.completed"


async def test_the_stream_helper_snapshots_text_and_arguments(tmp_path: Path) -> None:
    async with (
        echo_client(tmp_path) as client,
        client.responses.stream(
            model="echo/echo", input="weather in Paris", tools=[WEATHER]
        ) as stream,
    ):
        snapshots = [
            event.snapshot
            async for event in stream
            if event.type == "response.function_call_arguments.delta"
        ]
        final = await stream.get_final_response()
        (call,) = final.output
        assert call.type == "function_call"
        assert len(snapshots) > 0
        assert snapshots[-1] == call.arguments
        assert json.loads(call.arguments).keys() == {"city"}


# Parse


async def test_parse_gives_a_model_of_the_clients_own(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        answer = await client.responses.parse(model="echo/echo", input="Ada", text_format=Person)
        assert isinstance(answer.output_parsed, Person)
        assert answer.output_parsed == Person.model_validate_json(answer.output_text)


async def test_the_stream_helper_parses_too(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        async with client.responses.stream(
            model="echo/echo", input="Ada", text_format=Person
        ) as stream:
            final = await stream.get_final_response()
        assert isinstance(final.output_parsed, Person)
        assert final.output_parsed == Person.model_validate_json(final.output_text)


async def test_an_answer_that_violates_the_schema_is_a_failed_response(tmp_path: Path) -> None:
    contents = '{"name": "Ada", "age": "old"}'
    frames = (chunk({"content": contents}), chunk({}, "stop"), usage(), DONE)
    async with scripted_client(tmp_path, send_frames(frames)) as (client, _):
        answer = await client.responses.create(
            model="m",
            input="Ada",
            text={
                "format": {
                    "type": "json_schema",
                    "name": "person",
                    "schema": {**Person.model_json_schema(), "additionalProperties": False},
                    "strict": True,
                }
            },
        )
        assert answer.status == "failed"
        assert answer.error is not None
        assert (answer.error.code, "at age" in answer.error.message) == ("server_error", True)


# Tools


@pytest.mark.parametrize("stored", [True, False], ids=["by id", "by resending"])
async def test_a_tool_call_and_its_output_lead_to_an_answer(tmp_path: Path, stored: bool) -> None:
    async with echo_client(tmp_path) as client:
        question: Any = {"role": "user", "content": "What is the weather in Paris?"}
        first = await client.responses.create(
            model="echo/echo", input=[question], tools=[WEATHER], store=stored
        )
        (call,) = first.output
        assert isinstance(call, ResponseFunctionToolCall)
        assert call.name == "get_weather"
        assert json.loads(call.arguments).keys() == {"city"}
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        echoed = [question, call.model_dump(exclude_none=True), output]
        rest: Any = (
            {"previous_response_id": first.id, "input": [output]} if stored else {"input": echoed}
        )
        second = await client.responses.create(
            model="echo/echo", tools=[WEATHER], store=stored, **rest
        )
        assert second.output_text == "sunny"
        assert second.previous_response_id == (first.id if stored else None)


async def test_several_calls_of_several_kinds_in_one_turn(tmp_path: Path) -> None:
    def call(index: int, name: str, arguments: str) -> bytes:
        function = {"name": name, "arguments": arguments}
        return chunk({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})

    frames = (
        call(0, "get_weather", '{"city":"Paris"}'),
        call(1, "note", '{"input":"free form"}'),
        call(2, "shell", '{"commands":["ls"]}'),
        chunk({}, "tool_calls"),
        usage(),
        DONE,
    )
    async with scripted_client(tmp_path, send_frames(frames)) as (client, _):
        answer = await client.responses.create(
            model="m",
            input="Do all of it.",
            tools=[WEATHER, {"type": "custom", "name": "note"}, {"type": "shell"}],
        )
        assert [item.type for item in answer.output] == [
            "function_call",
            "custom_tool_call",
            "shell_call",
        ]


async def test_a_choice_of_a_tool_is_obeyed(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        answer = await client.responses.create(
            model="echo/echo",
            input="Nothing to do with it",
            tools=[WEATHER],
            tool_choice={"type": "function", "name": "get_weather"},
        )
        assert [item.type for item in answer.output] == ["function_call"]


# Chains


async def test_a_second_turn_has_the_first_in_its_history(tmp_path: Path) -> None:
    async with scripted_client(tmp_path, send_frames(HELLO_WORLD)) as (client, setup):
        first = await client.responses.create(model="m", input="My name is Ada.")
        second = await client.responses.create(
            model="m", input="Who am I?", previous_response_id=first.id
        )
        assert second.previous_response_id == first.id
        contents = [message["content"] for message in setup.last_body["messages"]]
        assert contents == ["My name is Ada.", "Hello, world", "Who am I?"]


async def test_a_response_can_be_continued_at_once_when_it_completes(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        previous: str | None = None
        for number in range(5):
            stream = await client.responses.create(
                model="echo/echo",
                input=f"turn {number}",
                stream=True,
                previous_response_id=previous,
            )
            async for event in stream:
                if event.type == "response.completed":
                    previous = event.response.id
                    break  # at once, before the stream itself has ended
            await stream.close()
        last = await client.responses.create(
            model="echo/echo", input="last", previous_response_id=previous
        )
        assert last.output_text == "last"


@pytest.mark.parametrize("unknown", ["resp_unknown", "not stored"])
async def test_an_unknown_previous_response_id_is_a_400(tmp_path: Path, unknown: str) -> None:
    async with echo_client(tmp_path) as client:
        if unknown == "not stored":
            loose = await client.responses.create(model="echo/echo", input="x", store=False)
            unknown = loose.id
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(
                model="echo/echo", input="x", previous_response_id=unknown
            )
        assert caught.value.code == "previous_response_not_found"
        assert caught.value.param == "previous_response_id"


# Reasoning and refusals


async def test_reasoning_is_an_item_that_can_be_sent_back(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        first = await client.responses.create(
            model="echo/reasoner",
            input="Hello",
            store=False,
            include=["reasoning.encrypted_content"],
        )
        thought, message = first.output
        assert isinstance(thought, ResponseReasoningItem)
        assert thought.content is not None
        assert thought.content[0].text == "The user said: Hello"
        assert first.usage is not None
        assert first.usage.output_tokens_details.reasoning_tokens == 4
        history: Any = [
            {"role": "user", "content": "Hello"},
            thought.model_dump(exclude_none=True),
            message.model_dump(exclude_none=True),
            {"role": "user", "content": "Again"},
        ]
        second = await client.responses.create(model="echo/reasoner", input=history, store=False)
        assert second.output_text == "Again"


async def test_reasoning_streams_under_the_names_the_client_knows(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        stream = await client.responses.create(model="echo/reasoner", input="Hello", stream=True)
        actual = [e.delta async for e in stream if e.type == "response.reasoning_text.delta"]
        assert "".join(actual) == "The user said: Hello"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_refusal_is_a_refusal_part(tmp_path: Path, streamed: bool) -> None:
    async with echo_client(tmp_path) as client:
        if streamed:
            async with client.responses.stream(model="echo/refuser", input="Do it") as stream:
                answer: Any = await stream.get_final_response()
        else:
            answer = await client.responses.create(model="echo/refuser", input="Do it")
        (message,) = answer.output
        assert message.content[0].type == "refusal"
        assert message.content[0].refusal == "I would rather not."
        assert answer.output_text == ""


# Compaction


async def test_a_compacted_thread_is_the_input_of_the_next(tmp_path: Path) -> None:
    """A user's message in the output is the API's own shape, which its strict types reject."""
    async with (
        running(settings(tmp_path)) as gateway,
        openai_client(gateway, strict=False) as client,
    ):
        compacted = await client.responses.compact(
            model="echo/echo",
            input=[
                {"role": "user", "content": "Which port?"},
                {"role": "assistant", "content": "It is 8123."},
            ],
        )
        assert compacted.object == "response.compaction"
        assert [item.type for item in compacted.output] == ["message", "compaction"]
        assert compacted.usage.total_tokens > 0
        items: Any = [item.to_dict(warnings=False) for item in compacted.output]
        answer = await client.responses.create(model="echo/echo", input=items)
        assert "It is 8123." in answer.output_text


async def test_a_compaction_is_valid_in_strict_mode(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        items: Any = [{"role": "assistant", "content": "It is 8123."}]
        compacted = await client.responses.compact(model="echo/echo", input=items)
        [item] = compacted.output
        assert item.type == "compaction"
        assert item.id.startswith("cmp_")
        turn = await client.responses.create(
            model="echo/echo", input=[*items, {"type": "compaction_trigger"}]
        )
        assert [item.type for item in turn.output] == ["compaction"]


# Models


async def test_the_models_are_listed_for_the_client_and_for_codex(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        listed = [model async for model in client.models.list()]
        assert "echo/echo" in {model.id for model in listed}
        assert {model.owned_by for model in listed} == {"echo"}
        raw = await client.models.with_raw_response.list()
        document = json.loads(raw.content)
        assert [each["slug"] for each in document["models"]] == [model.id for model in listed]
