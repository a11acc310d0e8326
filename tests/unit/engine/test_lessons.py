"""Lessons: what a provider refused once, it is not sent again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.faults import ProviderFault, classify
from antiphon.core.plan import Outbound
from antiphon.engine.lessons import Lessons, named_parameter


def outbound(**body: Any) -> Outbound:
    return Outbound(path="/x", body=json.dumps({"model": "m", **body, "messages": []}).encode())


def refusal(message: str, param: str | None = None) -> ProviderFault:
    error = {"message": message, "type": "invalid_request_error", "param": param}
    return classify(400, {}, json.dumps({"error": error}).encode())


def after(lessons: Lessons, asked: Outbound) -> dict[str, Any]:
    changed, _ = lessons.applied("p", "m", asked)
    document: dict[str, Any] = json.loads(changed.body)
    return document


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (refusal("Unsupported parameter: 'top_p'"), "top_p"),
        (refusal("bad request", "temperature"), "temperature"),
        (refusal("unknown field", "body.stream_options"), "stream_options"),
        (refusal("Extra inputs are not permitted: strict"), "strict"),
        (refusal("include_usage is not a thing"), "include_usage"),
        (refusal("messages must not be empty"), None),
        (refusal("something else entirely"), None),
        (refusal("the temperature_of_tea is wrong"), None),
    ],
)
def test_the_parameter_a_fault_complains_of_is_found(
    fault: ProviderFault, expected: str | None
) -> None:
    asked = outbound(
        top_p=0.5,
        temperature=1,
        stream_options={"include_usage": True},
        tools=[{"type": "function", "function": {"name": "f", "strict": True}}],
    )
    assert named_parameter(fault, asked) == expected


def test_nothing_changes_before_anything_was_learned() -> None:
    asked = outbound(top_p=0.5)
    assert Lessons().applied("p", "m", asked) == (asked, [])


def test_a_refused_parameter_stays_out_and_the_client_is_told() -> None:
    lessons = Lessons()
    lessons.learn("p", "m", "top_p")
    changed, diagnostics = lessons.applied("p", "m", outbound(top_p=0.5, seed=1))
    assert json.loads(changed.body) == {"model": "m", "seed": 1, "messages": []}
    assert [(each.code, each.param) for each in diagnostics] == [("param.refused", "top_p")]


def test_a_lesson_is_only_for_the_provider_and_model_that_taught_it() -> None:
    lessons = Lessons()
    lessons.learn("p", "m", "top_p")
    asked = outbound(top_p=0.5)
    assert lessons.applied("p", "other", asked) == (asked, [])


def test_what_is_not_asked_for_needs_no_word() -> None:
    lessons = Lessons()
    lessons.learn("p", "m", "top_p")
    lessons.learn("p", "m", "strict")
    assert lessons.applied("p", "m", outbound())[1] == []


def test_messages_stay_last() -> None:
    lessons = Lessons()
    lessons.learn("p", "m", "max_tokens")
    document = after(lessons, outbound(max_tokens=5, tools=[]))
    assert list(document) == ["model", "tools", "max_completion_tokens", "messages"]
    assert document["max_completion_tokens"] == 5


def test_a_parameter_in_a_group_is_found_there() -> None:
    lessons = Lessons()
    lessons.learn("p", "m", "topK")
    assert after(lessons, outbound(generationConfig={"topK": 1, "topP": 1}))[
        "generationConfig"
    ] == {"topP": 1}


def test_strict_is_taken_out_of_every_tool() -> None:
    lessons = Lessons()
    lessons.learn("p", "m", "strict")
    tools = [
        {"type": "function", "function": {"name": "f", "strict": True}},
        {"type": "function", "name": "g", "strict": False},
        {"type": "function", "function": {"name": "h"}},
    ]
    assert "strict" not in json.dumps(after(lessons, outbound(tools=tools)))
