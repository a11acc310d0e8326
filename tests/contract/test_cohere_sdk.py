"""The vendor's own package reads recordings as we do, and accepts our requests."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import cohere.types as native
import pytest
from cohere.v2.client import V2Client
from cohere.v2.types.v2chat_response import V2ChatResponse
from hypothesis import given
from pydantic import BaseModel, TypeAdapter

from antiphon import replay
from antiphon.core.history.steps import Step
from tests.property.test_cohere_history import (
    StatePresence,
    add_states,
    encode_body,
    plans,
    quirks,
    state_presences,
)
from tests.property.test_history import SEES, any_items, read
from tests.support.corpus import ABSENT, Case, cases
from tests.support.request_validators.cohere import problems

Document = dict[str, Any]

WHOLE = [
    case
    for case in cases("cohere")
    if case.meta["http_status"] < 400 and case.meta["wire"] == "json"
]
PARAMETERS = inspect.signature(V2Client.chat).parameters.keys() | {"stream"}
MESSAGES: dict[str, TypeAdapter[Any]] = {
    "system": TypeAdapter(native.SystemChatMessageV2),
    "user": TypeAdapter(native.UserChatMessageV2),
    "assistant": TypeAdapter(native.AssistantChatMessageV2),
    "tool": TypeAdapter(native.ToolChatMessageV2),
}
FIELDS: dict[str, TypeAdapter[Any]] = {
    "tools": TypeAdapter(list[native.ToolV2]),
    "thinking": TypeAdapter(native.Thinking),
    "response_format": TypeAdapter(native.JsonObjectResponseFormatV2),
}


def unknown_keys(value: Any) -> Iterator[str]:
    """Keys unknown to the package, at any depth: its types keep them as extras."""
    if isinstance(value, BaseModel):
        yield from value.model_extra or ()
        for name in type(value).model_fields:
            yield from unknown_keys(getattr(value, name))
    for each in value if isinstance(value, list) else ():
        yield from unknown_keys(each)


@given(any_items, state_presences, quirks, plans)
def test_the_package_accepts_every_request_we_send(
    items: list[Any], presence: StatePresence, how: Any, fields: Document
) -> None:
    steps: list[Step] = add_states(read(items, SEES), presence)
    body = encode_body(steps, how, **fields)
    assert problems(body) == []
    sent = json.loads(body)
    assert sent.keys() <= PARAMETERS
    known = [MESSAGES[each["role"]].validate_python(each) for each in sent["messages"]]
    known += [FIELDS[name].validate_python(sent[name]) for name in FIELDS.keys() & sent.keys()]
    assert [*unknown_keys(known)] == []


def test_a_key_that_the_package_does_not_know_is_found() -> None:
    odd = {"role": "user", "content": [{"type": "text", "text": "a", "color": "red"}]}
    assert [*unknown_keys(MESSAGES["user"].validate_python(odd))] == ["color"]


@pytest.mark.skipif(not WHOLE, reason=ABSENT)
@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.id)
def test_the_package_reads_a_recording_as_we_do(case: Case) -> None:
    response = replay(case.data, dialect="cohere")[-1]["response"]
    known = TypeAdapter(V2ChatResponse).validate_json(case.data)
    texts = {
        kind: "".join(
            part["text"]
            for item in response["output"]
            if item["type"] == kind
            for part in item["content"]
        )
        for kind in ("message", "reasoning")
    }
    blocks = known.message.content or []
    assert texts["message"] == "".join(getattr(block, "text", "") for block in blocks)
    thought = "".join(getattr(block, "thinking", "") for block in blocks)
    assert texts["reasoning"] == thought + (known.message.tool_plan or "")
    calls = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
    assert calls == [call.id for call in known.message.tool_calls or ()]
    assert known.usage is not None
    assert known.usage.tokens is not None
    assert response["usage"]["input_tokens"] == known.usage.tokens.input_tokens
