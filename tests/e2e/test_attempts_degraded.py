"""Retries after a provider rejected an output format or a forced tool call: one step weaker, within
the same request, and remembered for the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig
from antiphon.engine.rejections import REMEMBERED_S
from tests.support.client_answers import Answer
from tests.support.failing_providers import (
    STREAMED_AND_WHOLE,
    A,
    FailoverGateway,
    error,
    failover_gateway,
    read_attempts,
)
from tests.support.limited_servers import (
    ANSWER,
    FAILED_ASSERTION,
    REJECTED_FORMAT,
    limited_server,
    llama_cpp_python,
    sent_choice,
    sent_format,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import Connection, ReceivedRequest, Script

HEADER = "antiphon-diagnostics"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
SCHEMA = {"text": {"format": {"type": "json_schema", "name": "place", "schema": CITY}}}
JSON_MODE = {"text": {"format": {"type": "json_object"}}}
LOOK = {"type": "function", "name": "look", "parameters": CITY}
GO = {"type": "function", "name": "go", "parameters": CITY}
REQUIRED = {"tools": [LOOK, GO], "tool_choice": "required"}
NAMED = {"tools": [LOOK, GO], "tool_choice": {"type": "function", "name": "go"}}

NO_FORMAT = error(400, "This response_format type is unavailable now")
NO_CHOICE = error(400, "Only 'auto' is supported for this parameter.", param="tool_choice")
UNPROCESSABLE = error(422, "Extra inputs are not permitted: response_format")
NO_ENDPOINT = error(404, "No endpoints found that support the provided 'tool_choice' value.")


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def modes(setup: FailoverGateway) -> list[tuple[str, str]]:
    """Output format and tool choice of each request that the provider received."""
    return [(sent_format(body), sent_choice(body)) for body in setup.sent()]


def codes(answer: Answer) -> str:
    return answer.headers.get(HEADER, "")


def served_by(script: Script) -> list[Script]:
    return [script] * 12


def system_text(body: dict[str, Any]) -> str:
    return "\n".join(each["content"] for each in body["messages"] if each["role"] == "system")


# Output formats


@STREAMED_AND_WHOLE
async def test_llama_cpp_python_gets_a_schema_in_the_form_that_it_accepts(
    tmp_path: Path, stream: bool
) -> None:
    async with failover_gateway(tmp_path, served_by(llama_cpp_python())) as setup:
        first = await setup.post_request(**SCHEMA, stream=stream)
        assert modes(setup) == [("json_schema", "auto"), ("text", "function")]
        second = await setup.post_request(**SCHEMA, stream=stream)
        assert modes(setup)[2:] == [("text", "function")]
        assert setup.clock.slept == []
    for answer in (first, second):
        assert (answer.status, answer.text) == (200, ANSWER)
        assert "format.degraded" in codes(answer)
    assert [fault for *_, fault in read_attempts(setup, first)] == ["api_error", None]


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("refusal", [NO_FORMAT, UNPROCESSABLE, REJECTED_FORMAT])
async def test_a_rejected_format_goes_down_the_strategies_to_instructions(
    tmp_path: Path, refusal: Script, stream: bool
) -> None:
    server = limited_server(["text"], ["auto"], on_format=refusal, on_choice=NO_CHOICE)
    async with failover_gateway(tmp_path, served_by(server)) as setup:
        answer = await setup.post_request(**SCHEMA, stream=stream)
        assert (answer.status, answer.text) == (200, ANSWER)
        assert modes(setup) == [
            ("json_schema", "auto"),
            ("text", "function"),
            ("json_object", "auto"),
            ("text", "auto"),
        ]
        assert all("JSON Schema" in system_text(body) for body in setup.sent()[2:])
        assert "tools" not in setup.sent()[-1]


async def test_json_mode_that_is_rejected_becomes_an_instruction(tmp_path: Path) -> None:
    server = limited_server(["text"], on_format=NO_FORMAT, on_choice=NO_CHOICE)
    async with failover_gateway(tmp_path, served_by(server)) as setup:
        for _ in range(2):
            answer = await setup.post_request(**JSON_MODE, instructions="JSON Schema")
            assert (answer.text, "format.degraded" in codes(answer)) == (ANSWER, True)
        assert [form for form, _ in modes(setup)] == ["json_object", "text", "text"]


async def test_an_answer_in_a_weaker_format_is_validated(tmp_path: Path) -> None:
    server = limited_server(["text"], ["auto"], on_format=NO_FORMAT, on_choice=NO_CHOICE)
    schema = {**CITY, "required": ["city", "country"]}
    form = {"type": "json_schema", "name": "place", "schema": schema, "strict": True}
    async with failover_gateway(tmp_path, served_by(server)) as setup:
        answer = await setup.post_request(text={"format": form})
        assert (answer.response["status"], answer.error["code"]) == ("failed", "server_error")
        assert len(setup.sent()) == 5  # four strategies, and a request for a correction


async def test_a_complaint_about_one_schema_concerns_one_request(tmp_path: Path) -> None:
    refusal = error(400, "Invalid schema for response_format 'place': 'minLength' is not permitted")
    server = limited_server(on_format=NO_FORMAT, on_choice=NO_CHOICE)
    async with failover_gateway(tmp_path, [refusal, *served_by(server)]) as setup:
        await setup.post_request(**SCHEMA)
        await setup.post_request(**SCHEMA)
        assert [form for form, _ in modes(setup)] == ["json_schema", "text", "json_schema"]


async def test_a_format_rejected_inside_a_stream_is_avoided(tmp_path: Path) -> None:
    async def refuse(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        refusal = {"message": "json_schema is not supported", "code": 400}
        await connection.send(b"data: " + json.dumps({"error": refusal}).encode() + b"\n\n")
        await connection.end()

    server = limited_server(["text"], on_format=refuse, on_choice=NO_CHOICE)
    async with failover_gateway(tmp_path, served_by(server)) as setup:
        answer = await setup.post_request(**SCHEMA, stream=True)
        assert answer.text == ANSWER
        assert modes(setup) == [("json_schema", "auto"), ("text", "function")]


# Tool choices


@STREAMED_AND_WHOLE
async def test_llama_cpp_python_is_instructed_to_call_a_tool_that_it_cannot_require(
    tmp_path: Path, stream: bool
) -> None:
    async with failover_gateway(tmp_path, served_by(llama_cpp_python())) as setup:
        first = await setup.post_request(**REQUIRED, stream=stream)
        assert [choice for _, choice in modes(setup)] == ["required", "required", "auto"]
        second = await setup.post_request(**REQUIRED, stream=stream)
        assert [choice for _, choice in modes(setup)[3:]] == ["auto"]
        assert "Call at least one of the tools" in system_text(setup.sent()[-1])
    for answer in (first, second):
        assert (answer.status, answer.text) == (200, "Hello, world")
        assert "tool_choice.degraded" in codes(answer)
        assert answer.response["tool_choice"] == "auto"


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("refusal", [NO_CHOICE, NO_ENDPOINT])
async def test_a_named_tool_that_cannot_be_forced_is_required_and_then_requested(
    tmp_path: Path, refusal: Script, stream: bool
) -> None:
    server = limited_server(choices=["auto"], on_format=NO_FORMAT, on_choice=refusal)
    async with failover_gateway(tmp_path, served_by(server)) as setup:
        first = await setup.post_request(**NAMED, stream=stream)
        assert [choice for _, choice in modes(setup)] == ["function", "required", "auto"]
        second = await setup.post_request(**NAMED, stream=stream)
        assert len(setup.sent()) == 4
        for body in setup.sent()[1:]:
            assert [tool["function"]["name"] for tool in body["tools"]] == ["go"]
        assert "Call the tool 'go'" in system_text(setup.sent()[-1])
    assert first.text == second.text == "Hello, world"
    assert "tool_choice.degraded" in codes(first)


async def test_a_forced_call_that_is_not_rejected_stays_forced(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, served_by(llama_cpp_python())) as setup:
        await setup.post_request(**REQUIRED)
        answer = await setup.post_request(**NAMED)
        assert modes(setup)[-1] == ("text", "function")
        assert [item["type"] for item in answer.response["output"]] == ["function_call"]


# Ordinary faults


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("body", [SCHEMA, REQUIRED])
async def test_an_ordinary_500_is_retried_as_it_is(
    tmp_path: Path, body: dict[str, Any], stream: bool
) -> None:
    broken = error(500, "CUDA error: out of memory")
    async with failover_gateway(tmp_path, [broken] * 3, fallbacks={}) as setup:
        answer = await setup.post_request(**body, stream=stream)
        assert (answer.status, answer.error["code"]) == (503, "server_error")
        assert len(set(modes(setup))) == 1
        await setup.post_request(**body)
        assert len({*modes(setup)[:4]}) == 1


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("body", [SCHEMA, REQUIRED])
async def test_a_500_that_remains_without_the_forced_call_or_schema_teaches_nothing(
    tmp_path: Path, body: dict[str, Any], stream: bool
) -> None:
    async with failover_gateway(tmp_path, [FAILED_ASSERTION] * 3, fallbacks={}) as setup:
        answer = await setup.post_request(**body, stream=stream)
        assert (answer.status, answer.error["code"]) == (503, "server_error")
        assert len(setup.sent()) == 3
        assert modes(setup)[0] == modes(setup)[1] != modes(setup)[2]
        await setup.post_request(**body)
        assert modes(setup)[3] == modes(setup)[0]


async def test_a_500_without_a_reason_is_retried_unchanged_first(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [FAILED_ASSERTION]) as setup:
        answer = await setup.post_request(**REQUIRED)
        assert [choice for _, choice in modes(setup)] == ["required", "required"]
        assert HEADER not in answer.headers


async def test_a_500_without_a_reason_changes_no_plain_request(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [FAILED_ASSERTION] * 3, fallbacks={}) as setup:
        assert (await setup.post_request()).status == 503
        first, *others = setup.sent()
        assert others == [first, first]


# Limits


async def test_a_rejected_mode_does_not_count_for_the_circuit_breaker(tmp_path: Path) -> None:
    policy = AttemptConfig(breaker_threshold=1)
    async with failover_gateway(tmp_path, served_by(llama_cpp_python()), policy=policy) as setup:
        await setup.post_request(**SCHEMA)
        assert {name for name, _ in setup.new_calls} == {"one"}
        await setup.post_request()
        assert {name for name, _ in setup.new_calls} == {"one"}


async def test_a_weaker_request_counts_as_an_attempt(tmp_path: Path) -> None:
    policy = AttemptConfig(max_attempts=1)
    async with failover_gateway(tmp_path, [NO_FORMAT], policy=policy) as setup:
        assert (await setup.post_request(**SCHEMA)).status == 400
        assert setup.new_calls == [A]


async def test_the_last_attempt_goes_to_the_weaker_request_and_the_second_time_it_is_the_first(
    tmp_path: Path,
) -> None:
    """With two attempts, a server that answers a schema with a bare 500 would fail for ever."""
    server = limited_server(["text"], on_format=FAILED_ASSERTION, on_choice=FAILED_ASSERTION)
    policy = AttemptConfig(max_attempts=2)
    async with failover_gateway(tmp_path, served_by(server), policy=policy, fallbacks={}) as setup:
        statuses = [(await setup.post_request(**SCHEMA)).status for _ in range(5)]
        assert statuses == [200] * 5
        last_attempts = [("json_schema", "auto"), ("text", "auto")] * 2
        remembered = [("text", "function")] * 3  # the next strategy without schemas
        assert modes(setup) == [*last_attempts, *remembered]


async def test_what_a_request_without_attempts_left_has_learned_is_kept(tmp_path: Path) -> None:
    server = limited_server(["text"], on_format=FAILED_ASSERTION, on_choice=FAILED_ASSERTION)
    policy = AttemptConfig(max_attempts=1, breaker_threshold=9)
    async with failover_gateway(tmp_path, served_by(server), policy=policy, fallbacks={}) as setup:
        statuses = [(await setup.post_request(**SCHEMA)).status for _ in range(3)]
        assert statuses == [503, 503, 200]


async def test_a_rejected_mode_is_remembered_for_one_model_and_for_an_hour(tmp_path: Path) -> None:
    server = limited_server(["text"], on_format=NO_FORMAT, on_choice=NO_CHOICE)
    async with failover_gateway(tmp_path, served_by(server)) as setup:
        await setup.post_request(**SCHEMA)
        await setup.post_request(**SCHEMA, model="one/other")
        expected = ["json_schema", "text", "json_schema", "text"]
        assert [form for form, _ in modes(setup)] == expected
        setup.clock.now += REMEMBERED_S
        await setup.post_request(**SCHEMA)
        assert [form for form, _ in modes(setup)][4:] == ["json_schema", "text"]
