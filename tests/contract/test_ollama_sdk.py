"""The vendor's own package reads recordings as we do, and accepts our requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from ollama import ChatResponse, GenerateResponse, Message, Tool
from ollama._types import ChatRequest, Options

from antiphon import replay
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.dialects.ollama.encode import encode
from tests.property.test_history import READS, any_items, read
from tests.property.test_ollama_history import encode_body, replays, schemas
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import every

Document = dict[str, Any]

ANSWERS = [case for case in cases("ollama") if case.meta["http_status"] < 400]
NEWER = {"id", "tool_call_id"}  # of the server than of the package, which drops them


def without(keys: set[str], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without(keys, each) for key, each in value.items() if key not in keys}
    return [without(keys, each) for each in value] if isinstance(value, list) else value


@given(any_items, replays)
def test_the_package_accepts_every_message_we_send(items: list[Any], replay_reasoning: Any) -> None:
    sent = json.loads(encode_body(read(items, READS), replay_reasoning))["messages"]
    for message in sent:
        known = Message(**message).model_dump(exclude_none=True)
        assert known == without(NEWER, message)


@given(schemas)
def test_the_package_reads_every_tool_we_declare(schema: Document) -> None:
    tool = ToolDeclaration(name="look", description="Look.", parameters=schema)
    [sent] = json.loads(encode_body([], declarations=(tool,)))["tools"]
    known = Tool(**sent)
    assert known.function is not None
    assert known.function.parameters is not None
    assert (known.function.name, known.function.parameters.type) == ("look", "object")


def test_the_package_accepts_every_setting() -> None:
    plan = Plan(
        provider="p",
        model="m",
        effort="high",
        parameters={"max_output_tokens": 9, "temperature": 0.5, "top_p": 1, "top_logprobs": 2},
        include_logprobs=True,
        contract=OutputContract(requested="json_schema", asked="json_schema", schema={"a": 1}),
    )
    sent = json.loads(encode(plan, stream=True).body)
    known = ChatRequest(**sent).model_dump(exclude_none=True)
    assert known == sent
    assert Options(**sent["options"]).model_dump(exclude_none=True) == sent["options"]


@pytest.mark.skipif(not ANSWERS, reason=ABSENT)
@every(ANSWERS)
def test_the_package_reads_a_recording_as_we_do(case: Case) -> None:
    output = replay(case.data, dialect="ollama")[-1]["response"]["output"]
    text = "".join(
        part["text"] for item in output if item["type"] == "message" for part in item["content"]
    )
    calls = [
        (item["name"], json.loads(item["arguments"]))
        for item in output
        if item["type"] == "function_call"
    ]
    lines = [json.loads(line) for line in case.data.splitlines()]
    if case.meta["operation"] == "generate":
        assert text == "".join(GenerateResponse(**line).response or "" for line in lines)
        return
    messages = [ChatResponse(**line).message for line in lines]
    assert text == "".join(message.content or "" for message in messages)
    assert calls == [
        (call.function.name, call.function.arguments)
        for message in messages
        for call in message.tool_calls or ()
    ]
