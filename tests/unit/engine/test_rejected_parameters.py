"""Lessons: what a provider refused once, it is not sent again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound
from antiphon.engine.rejected_parameters import RejectedParameters, is_about_value, named_parameter


def outbound(**body: Any) -> Outbound:
    return Outbound(path="/x", body=json.dumps({"model": "m", **body, "messages": []}).encode())


def refusal(message: str, param: str | None = None) -> ProviderFault:
    error = {"message": message, "type": "invalid_request_error", "param": param}
    return classify(400, {}, json.dumps({"error": error}).encode())


def after(lessons: RejectedParameters, asked: Outbound) -> dict[str, Any]:
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
    assert RejectedParameters().applied("p", "m", asked) == (asked, [])


def test_a_refused_parameter_stays_out_and_the_client_is_told() -> None:
    lessons = RejectedParameters()
    lessons.learn("p", "m", "top_p")
    changed, diagnostics = lessons.applied("p", "m", outbound(top_p=0.5, seed=1))
    assert json.loads(changed.body) == {"model": "m", "seed": 1, "messages": []}
    assert [(each.code, each.param) for each in diagnostics] == [("param.refused", "top_p")]


def test_a_lesson_is_only_for_the_provider_and_model_that_taught_it() -> None:
    lessons = RejectedParameters()
    lessons.learn("p", "m", "top_p")
    asked = outbound(top_p=0.5)
    assert lessons.applied("p", "other", asked) == (asked, [])


def test_what_is_not_asked_for_needs_no_word() -> None:
    lessons = RejectedParameters()
    lessons.learn("p", "m", "top_p")
    lessons.learn("p", "m", "strict")
    assert lessons.applied("p", "m", outbound())[1] == []


def test_messages_stay_last() -> None:
    lessons = RejectedParameters()
    lessons.learn("p", "m", "max_tokens")
    document = after(lessons, outbound(max_tokens=5, tools=[]))
    assert list(document) == ["model", "tools", "max_completion_tokens", "messages"]
    assert document["max_completion_tokens"] == 5


def test_a_parameter_in_a_group_is_found_there() -> None:
    lessons = RejectedParameters()
    lessons.learn("p", "m", "topK")
    assert after(lessons, outbound(generationConfig={"topK": 1, "topP": 1}))[
        "generationConfig"
    ] == {"topP": 1}


def test_strict_is_taken_out_of_every_tool() -> None:
    lessons = RejectedParameters()
    lessons.learn("p", "m", "strict")
    tools = [
        {"type": "function", "function": {"name": "f", "strict": True}},
        {"type": "function", "name": "g", "strict": False},
        {"type": "function", "function": {"name": "h"}},
    ]
    assert "strict" not in json.dumps(after(lessons, outbound(tools=tools)))


def test_what_was_said_is_not_touched_to_the_byte() -> None:
    asked = Outbound(
        path="/x", body=b'{"top_p":1,"messages":[{"n": 1.50, "big":12345678901234567890}]}'
    )
    lessons = RejectedParameters()
    lessons.learn("p", "m", "top_p")
    changed, _ = lessons.applied("p", "m", asked)
    assert changed.body == b'{"messages":[{"n": 1.50, "big":12345678901234567890}]}'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('messages: roles must alternate between "user" and "assistant"', None),
        ("Please include a message of the user", None),
        ("Unsupported parameter: 'user'", "user"),
        ("Unrecognized request argument supplied: user", "user"),
        ("The `user` field is not known", "user"),
    ],
)
def test_a_name_that_is_a_word_counts_only_as_a_parameter(
    message: str, expected: str | None
) -> None:
    assert named_parameter(refusal(message), outbound(user="u", include=[])) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("temperature must be between 0 and 1", True),
        ("max_tokens is too large: 99999. This model supports at most 8192 tokens", True),
        ("Unsupported parameter: 'max_tokens' is not supported with this model", False),
        ("top_p: Extra inputs are not permitted", False),
        ("Unsupported value: 'temperature' does not support 0.5 with this model", False),
    ],
)
def test_a_complaint_about_a_value_is_known_by_its_words(message: str, expected: bool) -> None:
    assert is_about_value(refusal(message)) is expected


def test_a_refused_value_is_left_out_without_a_lesson_and_under_every_name() -> None:
    lessons = RejectedParameters()
    changed, told = lessons.applied("p", "m", outbound(max_tokens=10**9), ["max_tokens"])
    assert json.loads(changed.body) == {"model": "m", "messages": []}
    assert [each.param for each in told] == ["max_tokens"]
    asked = outbound(max_tokens=5)
    assert lessons.applied("p", "m", asked) == (asked, [])
