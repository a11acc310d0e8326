"""The table of parameters: every field of the API has a row, and its rule is applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.parameters import (
    KNOWN,
    PARAMETERS,
    Rule,
    decide_include,
    decide_parameters,
)
from antiphon.errors import InvalidRequest
from antiphon.wire.request import Request

NOTHING = frozenset[str]()


def request(**fields: Any) -> Request:
    return Request.parse(msgspec.json.encode({"model": "m", "input": "hello", **fields}))


def decided(
    takes: frozenset[str] = NOTHING, not_applicable: frozenset[str] = NOTHING, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    parameters, diagnostics = decide_parameters(
        request(**fields), Capabilities(parameters=takes), not_applicable=not_applicable
    )
    return parameters, [f"{each.code} {each.param}" for each in diagnostics]


# --- the table ------------------------------------------------------------------------------------

FIELDS = """
    model input instructions previous_response_id conversation store background stream
    stream_options include max_output_tokens max_tool_calls temperature top_p top_logprobs
    presence_penalty frequency_penalty text reasoning tools tool_choice parallel_tool_calls
    truncation context_management metadata safety_identifier prompt_cache_key prompt_cache_options
    prompt_cache_retention service_tier prompt moderation access_programs image user
""".split()


def test_every_field_of_the_api_has_a_row() -> None:
    assert set(FIELDS) <= KNOWN


def test_no_field_has_two_rows_and_every_rejected_field_has_a_reason() -> None:
    paths = [row.path for row in PARAMETERS]
    assert len(set(paths)) == len(paths)
    assert all(bool(row.reason) is (row.rule is Rule.REJECT) for row in PARAMETERS)


def test_every_field_that_a_request_is_read_for_is_in_the_table() -> None:
    unread = {"raw", "is_large", "unknown", "text_format", "verbosity", "effort", "summary"}
    assert {field.name for field in msgspec.structs.fields(Request)} - unread <= KNOWN


# --- forwarded ------------------------------------------------------------------------------------

TAKEN: list[tuple[str, dict[str, Any], Any]] = [
    ("max_output_tokens", {"max_output_tokens": 100}, 100),
    ("temperature", {"temperature": 0.3}, 0.3),
    ("top_p", {"top_p": 0.5}, 0.5),
    ("presence_penalty", {"presence_penalty": 0.5}, 0.5),
    ("frequency_penalty", {"frequency_penalty": -1}, -1),
    ("top_logprobs", {"top_logprobs": 3}, 3),
    ("text.verbosity", {"text": {"verbosity": "low"}}, "low"),
    ("reasoning.summary", {"reasoning": {"summary": "detailed"}}, "detailed"),
    ("reasoning.generate_summary", {"reasoning": {"generate_summary": "concise"}}, "concise"),
    ("reasoning.context", {"reasoning": {"context": "all_turns"}}, "all_turns"),
    ("reasoning.mode", {"reasoning": {"mode": "pro"}}, "pro"),
    ("max_tool_calls", {"max_tool_calls": 3}, 3),
    ("truncation", {"truncation": "auto"}, "auto"),
    ("service_tier", {"service_tier": "priority"}, "priority"),
    ("access_programs", {"access_programs": {"cyber": "standard"}}, {"cyber": "standard"}),
    ("multi_agent", {"multi_agent": {"enabled": True}}, {"enabled": True}),
]


def test_every_forwarded_field_is_tested_here() -> None:
    assert [path for path, _, _ in TAKEN] == [
        row.path for row in PARAMETERS if row.rule is Rule.FORWARD
    ]


@pytest.mark.parametrize(("path", "fields", "value"), TAKEN)
def test_a_supported_parameter_is_sent(path: str, fields: dict[str, Any], value: Any) -> None:
    name = path.rpartition(".")[2]
    assert decided(frozenset({name}), **fields) == ({name: value}, [])


@pytest.mark.parametrize(("path", "fields", "value"), TAKEN)
def test_an_unsupported_parameter_is_ignored_with_a_diagnostic(
    path: str, fields: dict[str, Any], value: Any
) -> None:
    assert decided(**fields) == ({}, [f"param.ignored {path}"])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 1, "top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0},
        {"parallel_tool_calls": True, "top_logprobs": 0, "truncation": "disabled"},
        {"text": {"verbosity": "medium"}, "reasoning": {"summary": "auto", "context": "auto"}},
        {"text": None, "reasoning": None, "temperature": None, "service_tier": None},
        {"service_tier": "auto", "reasoning": {"mode": "standard", "effort": "low"}},
        {"service_tier": "default", "store": False, "stream": True, "background": False},
    ],
)
def test_a_default_value_makes_no_diagnostic(fields: dict[str, Any]) -> None:
    assert decided(**fields) == ({}, [])


def test_a_default_value_is_still_sent_to_a_provider_that_supports_the_parameter() -> None:
    assert decided(frozenset({"temperature"}), temperature=1) == ({"temperature": 1}, [])


def test_a_parameter_that_does_not_apply_is_neither_sent_nor_reported() -> None:
    not_applicable = frozenset({"parallel_tool_calls"})
    assert decided(not_applicable, not_applicable, parallel_tool_calls=False) == ({}, [])
    assert decided(NOTHING, not_applicable, parallel_tool_calls=False) == ({}, [])


# --- echoed, rejected, unknown --------------------------------------------------------------------

REPEATED: dict[str, Any] = {
    "parallel_tool_calls": False,
    "metadata": {"a": "b"},
    "client_metadata": {"session_id": "1"},
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
    "image": {"context_compression": "disabled"},
}


def test_every_echoed_field_is_tested_here() -> None:
    assert list(REPEATED) == [row.path for row in PARAMETERS if row.rule is Rule.ECHO]


@pytest.mark.parametrize("name", REPEATED)
def test_an_echoed_field_is_sent_where_supported_and_never_reported(name: str) -> None:
    given = {name: REPEATED[name]}
    assert decided(frozenset({name}), **given) == (given, [])
    assert decided(**given) == ({}, [])


REFUSED: dict[str, Any] = {
    "prompt": {"id": "pmpt_1"},
    "moderation": {"model": "omni"},
}


def test_every_rejected_field_is_tested_here() -> None:
    assert list(REFUSED) == [row.path for row in PARAMETERS if row.rule is Rule.REJECT]


@pytest.mark.parametrize("name", REFUSED)
def test_a_rejected_field_is_an_error(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decided(**{name: REFUSED[name]})
    error = caught.value
    assert (error.param, error.wire_code, error.status) == (name, "unsupported_parameter", 400)


@pytest.mark.parametrize("name", REFUSED)
def test_null_in_a_rejected_field_is_accepted(name: str) -> None:
    nothing: dict[str, Any] = {name: None}
    assert decided(**nothing) == ({}, [])


def test_an_empty_value_of_a_rejected_field_is_accepted() -> None:
    bare = Request(raw={"model": "m", "moderation": {}}, model="m")
    assert decide_parameters(bare, Capabilities()) == ({}, [])


def test_every_unknown_field_is_named_once() -> None:
    assert decided(frobnicate=1, zap=None, warp={"a": 1}) == (
        {},
        ["param.unknown frobnicate", "param.unknown warp"],
    )


def test_a_field_with_a_row_is_never_unknown() -> None:
    early = Request(raw={"model": "m"}, model="m", unknown=("multi_agent", "frobnicate"))
    _, [diagnostic] = decide_parameters(early, Capabilities())
    assert diagnostic.param == "frobnicate"


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "told"), [(10, 10), (50, 50), (51, 50)])
def test_max_output_tokens_is_clamped_to_the_models_maximum(asked: int, told: int) -> None:
    can = Capabilities(max_output_tokens=50)
    parameters, diagnostics = decide_parameters(request(max_output_tokens=asked), can)
    assert parameters == {"max_output_tokens": told}
    assert [each.code for each in diagnostics] == ["param.degraded"] * (asked != told)


def test_max_output_tokens_is_not_clamped_without_a_known_maximum() -> None:
    assert decide_parameters(request(max_output_tokens=10**9), Capabilities())[1] == []


@pytest.mark.parametrize(("asked", "told"), [(0, 0.01), (0.01, 0.01), (0.5, 0.5), (2, 1)])
def test_a_value_out_of_range_is_clamped_with_a_diagnostic(asked: float, told: float) -> None:
    can = Capabilities(ranges={"temperature": (0.01, 1), "top_p": (0, 0)})
    parameters, diagnostics = decide_parameters(request(temperature=asked), can)
    assert parameters == {"temperature": told}
    assert [f"{each.code} {each.param}" for each in diagnostics] == [
        "param.degraded temperature"
    ] * (asked != told)


def test_of_two_conflicting_parameters_one_is_ignored_with_a_diagnostic() -> None:
    can = Capabilities(conflicting_parameters={"top_p": "temperature"})
    parameters, diagnostics = decide_parameters(request(temperature=0.5, top_p=0.5), can)
    assert parameters == {"temperature": 0.5}
    assert [f"{each.code} {each.param}" for each in diagnostics] == ["param.ignored top_p"]
    assert decide_parameters(request(top_p=0.5), can) == ({"top_p": 0.5}, [])


# --- include --------------------------------------------------------------------------------------


def included(takes: frozenset[str], *values: str) -> tuple[bool, list[str]]:
    capabilities = Capabilities(parameters=takes)
    logprobs, diagnostics = decide_include(request(include=list(values)), capabilities)
    return logprobs, [f"{each.code}:{each.subject}" for each in diagnostics]


def test_encrypted_reasoning_can_always_be_included() -> None:
    assert included(NOTHING, "reasoning.encrypted_content") == (False, [])


def test_log_probabilities_are_included_where_supported() -> None:
    name = "message.output_text.logprobs"
    assert included(frozenset({"top_logprobs"}), name) == (True, [])
    assert included(NOTHING, name) == (False, [f"include.ignored:{name}"])


def test_parts_of_the_input_can_always_be_included() -> None:
    values = ["computer_call_output.output.image_url", "message.input_image.image_url"]
    assert included(NOTHING, *values) == (False, [])


def test_unsupported_include_values_are_reported_in_a_fixed_order() -> None:
    values = ("web_search_call.results", "code_interpreter_call.outputs")
    _, diagnostics = included(NOTHING, *values)
    assert diagnostics == [f"include.ignored:{value}" for value in sorted(values)]


@pytest.mark.parametrize(
    ("user", "sent"), [("abc", True), ("abcdef", True), ("ab", False), ("abcdefg", False)]
)
def test_a_string_of_unsupported_length_is_ignored(user: str, sent: bool) -> None:
    can = Capabilities(parameters=frozenset({"user"}), ranges={"user": (3, 6)})
    parameters, diagnostics = decide_parameters(request(user=user), can)
    assert parameters == ({"user": user} if sent else {})
    assert [f"{each.code} {each.param}" for each in diagnostics] == (
        [] if sent else ["param.ignored user"]
    )


@pytest.mark.parametrize(("tier", "sent"), [("auto", True), ("flex", False), (None, True)])
def test_an_unsupported_value_is_ignored(tier: str | None, sent: bool) -> None:
    can = Capabilities(
        parameters=frozenset({"service_tier"}), allowed_values={"service_tier": frozenset({"auto"})}
    )
    parameters, diagnostics = decide_parameters(request(service_tier=tier), can)
    assert parameters == ({"service_tier": tier} if sent and tier else {})
    assert [each.code for each in diagnostics] == [] if sent else ["param.ignored"]
