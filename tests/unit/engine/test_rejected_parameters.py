"""Rejected parameters: recognised in a fault, remembered by provider and model, left out."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound
from antiphon.dialects.dialect import resolve
from antiphon.engine.rejections import RejectedParameters, is_about_value, named_parameter
from tests.support.tables import table

CHAT = resolve("chat")


def outbound(**body: Any) -> Outbound:
    return Outbound(path="/x", body=json.dumps({"model": "m", **body, "messages": []}).encode())


def refusal(message: str, param: str | None = None) -> ProviderFault:
    error = {"message": message, "type": "invalid_request_error", "param": param}
    return classify(400, {}, json.dumps({"error": error}).encode())


@table(
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
def test_the_parameter_that_a_fault_names_is_found(
    fault: ProviderFault, expected: str | None
) -> None:
    request = outbound(
        top_p=0.5,
        temperature=1,
        stream_options={"include_usage": True},
        tools=[{"type": "function", "function": {"name": "f", "strict": True}}],
    )
    assert named_parameter(CHAT, fault, request) == expected


def test_nothing_changes_before_anything_was_learned() -> None:
    request = outbound(top_p=0.5)
    assert RejectedParameters().apply(CHAT, "p", "m", request) == (request, [])


def test_a_rejected_parameter_is_left_out_with_a_diagnostic() -> None:
    rejected = RejectedParameters()
    rejected.learn("p", "m", "top_p")
    changed, diagnostics = rejected.apply(CHAT, "p", "m", outbound(top_p=0.5, seed=1))
    assert json.loads(changed.body) == {"model": "m", "seed": 1, "messages": []}
    assert [(each.code, each.param) for each in diagnostics] == [("param.refused", "top_p")]


def test_a_rejection_applies_only_to_its_provider_and_model() -> None:
    rejected = RejectedParameters()
    rejected.learn("p", "m", "top_p")
    request = outbound(top_p=0.5)
    assert rejected.apply(CHAT, "p", "other", request) == (request, [])


def test_a_rejected_parameter_that_is_absent_gives_no_diagnostic() -> None:
    rejected = RejectedParameters()
    rejected.learn("p", "m", "top_p")
    rejected.learn("p", "m", "strict")
    assert rejected.apply(CHAT, "p", "m", outbound())[1] == []


@table(
    ("message", "expected"),
    [
        ('messages: roles must alternate between "user" and "assistant"', None),
        ("Please include a message of the user", None),
        ("Unsupported parameter: 'user'", "user"),
        ("Unrecognized request argument supplied: user", "user"),
        ("The `user` field is not known", "user"),
    ],
)
def test_a_name_that_is_also_a_word_counts_only_if_it_is_called_a_parameter(
    message: str, expected: str | None
) -> None:
    assert named_parameter(CHAT, refusal(message), outbound(user="u", include=[])) == expected


@table(
    ("message", "expected"),
    [
        ("temperature must be between 0 and 1", True),
        ("max_tokens is too large: 99999. This model supports at most 8192 tokens", True),
        ("Unsupported parameter: 'max_tokens' is not supported with this model", False),
        ("top_p: Extra inputs are not permitted", False),
        ("Unsupported value: 'temperature' does not support 0.5 with this model", False),
    ],
)
def test_a_fault_about_a_value_is_recognised_by_its_message(message: str, expected: bool) -> None:
    assert is_about_value(refusal(message)) is expected


def test_a_rejected_value_is_left_out_of_one_request_and_under_every_name() -> None:
    rejected = RejectedParameters()
    changed, diagnostics = rejected.apply(
        CHAT, "p", "m", outbound(max_tokens=10**9), ["max_tokens"]
    )
    assert json.loads(changed.body) == {"model": "m", "messages": []}
    assert [each.param for each in diagnostics] == ["max_tokens"]
    request = outbound(max_tokens=5)
    assert rejected.apply(CHAT, "p", "m", request) == (request, [])
