"""Leaving out a parameter of an encoded request, in every dialect's own fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.plan.plan import Outbound
from antiphon.dialects.dialect import DIALECTS, resolve
from tests.support.tables import table

CHAT = resolve("chat")


def outbound(**body: Any) -> Outbound:
    return Outbound(path="/x", body=json.dumps({"model": "m", **body, "messages": []}).encode())


def without(name: str, request: Outbound, dialect: str = "chat", **options: Any) -> dict[str, Any]:
    changed = resolve(dialect).without(request, name, **options)
    assert changed is not None
    document: dict[str, Any] = json.loads(changed.body)
    return document


def test_a_parameter_is_left_out() -> None:
    assert without("top_p", outbound(top_p=0.5, seed=1)) == {
        "model": "m",
        "seed": 1,
        "messages": [],
    }


@pytest.mark.parametrize("name", ["top_p", "strict"])
def test_a_parameter_that_is_absent_gives_none(name: str) -> None:
    assert CHAT.without(outbound(tools=[{"function": {"name": "f"}}]), name) is None


def test_a_renamed_parameter_keeps_its_value_and_messages_stay_last() -> None:
    document = without("max_tokens", outbound(max_tokens=5, tools=[]))
    assert list(document) == ["model", "tools", "max_completion_tokens", "messages"]
    assert document["max_completion_tokens"] == 5


def test_a_parameter_is_left_out_under_its_newer_name_too_if_the_value_was_rejected() -> None:
    document = without("max_tokens", outbound(max_tokens=10**9), rename=False)
    assert document == {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("dialect", "group"),
    [
        ("gemini", "generationConfig"),
        ("ollama", "options"),
        ("bedrock", "inferenceConfig"),
        ("chat", "stream_options"),
        ("responses", "reasoning"),
    ],
)
def test_a_parameter_in_a_group_is_found_there(dialect: str, group: str) -> None:
    request = outbound(**{group: {"topK": 1, "topP": 1}})
    assert "topK" in resolve(dialect).removable_parameters(request)
    assert without("topK", request, dialect)[group] == {"topP": 1}


def test_strict_is_removed_from_every_tool() -> None:
    tools = [
        {"type": "function", "function": {"name": "f", "strict": True}},
        {"type": "function", "name": "g", "strict": False},
        {"type": "function", "function": {"name": "h"}},
    ]
    request = outbound(tools=tools)
    assert CHAT.removable_parameters(request) == ["strict"]
    assert "strict" not in json.dumps(without("strict", request))


def test_the_conversation_keeps_its_bytes() -> None:
    request = Outbound(
        path="/x", body=b'{"top_p":1,"messages":[{"n": 1.50, "big":12345678901234567890}]}'
    )
    changed = CHAT.without(request, "top_p")
    assert changed is not None
    assert changed.body == b'{"messages":[{"n": 1.50, "big":12345678901234567890}]}'


@table(
    ("dialect", "conversation"),
    [
        (name, {"gemini": "contents", "responses": "input"}.get(name, "messages"))
        for name in DIALECTS
    ],
)
def test_the_conversation_cannot_be_left_out(dialect: str, conversation: str) -> None:
    request = Outbound(path="/x", body=json.dumps({conversation: []}).encode())
    assert resolve(dialect).removable_parameters(request) == []
