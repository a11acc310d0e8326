"""The table of parameters: every field of the API has a row, and its rule is applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.parameters import (
    KNOWN,
    PARAMETERS,
    Rule,
    decide_include,
    decide_parameters,
)
from antiphon.core.request import Request, Thinking
from antiphon.errors import InvalidRequest
from tests.support.plans import noted
from tests.support.request_body import parse_body
from tests.support.tables import table

NOTHING = frozenset[str]()


def request(**fields: Any) -> Request:
    return parse_body(msgspec.json.encode({"model": "m", "input": "hello", **fields}))


def decided(
    takes: frozenset[str] = NOTHING, not_applicable: frozenset[str] = NOTHING, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    parameters, diagnostics = noted(
        decide_parameters,
        request(**fields),
        Capabilities(parameters=takes),
        not_applicable=not_applicable,
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
    refused = (Rule.REJECT, Rule.REQUIRE)
    assert all(bool(row.reason) is (row.rule in refused) for row in PARAMETERS)


def test_every_field_that_a_request_is_read_for_is_in_the_table() -> None:
    unread = {"raw", "is_large", "unknown", "unknown_more", "similar"}
    unread |= {"text_format", "format_param", "schema_param", "verbosity", "effort", "summary"}
    assert {field.name for field in msgspec.structs.fields(Request)} - unread <= KNOWN


# --- forwarded ------------------------------------------------------------------------------------

TAKEN: list[tuple[str, dict[str, Any], Any]] = [
    ("max_output_tokens", {"max_output_tokens": 100}, 100),
    ("stop", {"stop": ["a", "b"]}, ("a", "b")),
    ("temperature", {"temperature": 0.3}, 0.3),
    ("top_p", {"top_p": 0.5}, 0.5),
    ("top_k", {"top_k": 40}, 40),
    ("seed", {"seed": 7}, 7),
    ("logit_bias", {"logit_bias": {"1": 5}}, {"1": 5}),
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


OF_OTHER_FORMATS: dict[str, Any] = {
    "context_edits": ({"type": "clear_tool_uses_20250919"},),
    "thinking": Thinking(mode="adaptive"),
    "prompt_caching": "client",
    "cache_control": {"type": "ephemeral"},
    "betas": ("effort-2025-11-24",),
    "extra": {"format": "messages", "members": {"container": "c"}},
    "prefill": True,
}
"""Fields that a Responses document does not have."""


def test_every_forwarded_field_is_tested_here() -> None:
    assert [path for path, _, _ in TAKEN] == [
        row.path
        for row in PARAMETERS
        if row.rule is Rule.FORWARD and row.path not in OF_OTHER_FORMATS
    ]


@table("name", OF_OTHER_FORMATS)
def test_a_field_of_another_client_format_is_sent_where_it_is_supported(name: str) -> None:
    given = Request(raw={}, model="m", **{name: OF_OTHER_FORMATS[name]})
    can = Capabilities(parameters=frozenset({name}))
    assert noted(decide_parameters, given, can) == ({name: OF_OTHER_FORMATS[name]}, [])


def test_context_edits_are_reported_unless_they_keep_everything() -> None:
    kept = {"type": "clear_thinking_20251015", "keep": "all"}
    given = Request(raw={}, model="m", context_edits=(kept,))
    assert noted(decide_parameters, given, Capabilities()) == ({}, [])
    cleared = Request(raw={}, model="m", context_edits=({**kept, "keep": 1},))
    _, [diagnostic] = noted(decide_parameters, cleared, Capabilities())
    assert (diagnostic.code, diagnostic.param) == ("param.ignored", "context_edits")


def test_a_prefill_is_refused_where_no_model_continues_it() -> None:
    with pytest.raises(InvalidRequest) as caught:
        noted(decide_parameters, Request(raw={}, model="m", prefill=True), Capabilities())
    assert (caught.value.param, caught.value.wire_code) == ("prefill", "unsupported_parameter")


def test_unknown_members_are_reported_only_if_they_are_not_sent() -> None:
    members = {"format": "messages", "members": {"container": "c"}}
    given = Request(raw={}, model="m", unknown=("container",), extra=members)
    _, [diagnostic] = noted(decide_parameters, given, Capabilities())
    assert (diagnostic.code, diagnostic.param) == ("param.unknown", "container")
    takes = Capabilities(parameters=frozenset({"extra"}))
    assert noted(decide_parameters, given, takes)[1] == []


def test_an_unknown_member_that_resembles_a_documented_one_gets_a_suggestion() -> None:
    similar = {"max_output_token": "max_output_tokens"}
    unknown = ("max_output_token", "frobnicate")
    given = Request(raw={}, model="m", unknown=unknown, similar=similar)
    _, [misspelt, other] = noted(decide_parameters, given, Capabilities())
    assert misspelt.message.endswith("ignored. Did you mean 'max_output_tokens'?")
    assert other.message.endswith("ignored.")


@table(("path", "fields", "value"), TAKEN)
def test_a_supported_parameter_is_sent(path: str, fields: dict[str, Any], value: Any) -> None:
    name = path.rpartition(".")[2]
    assert decided(frozenset({name}), **fields) == ({name: value}, [])


@table(("path", "fields", "value"), TAKEN)
def test_an_unsupported_parameter_is_ignored_with_a_diagnostic(
    path: str, fields: dict[str, Any], value: Any
) -> None:
    assert decided(**fields) == ({}, [f"param.ignored {path}"])


@table(
    "fields",
    [
        {},
        {"temperature": 1, "top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0},
        {"parallel_tool_calls": True, "top_logprobs": 0, "truncation": "disabled"},
        {"text": {"verbosity": "medium"}, "reasoning": {"summary": "auto", "context": "auto"}},
        {"text": None, "reasoning": None, "temperature": None, "service_tier": None},
        {"service_tier": "auto", "reasoning": {"mode": "standard", "effort": "low"}},
        {"service_tier": "default", "store": False, "stream": True, "background": False},
        {"stop": [], "logit_bias": {}},
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
    echoed = [row.path for row in PARAMETERS if row.rule is Rule.ECHO]
    assert list(REPEATED) == [path for path in echoed if path not in OF_OTHER_FORMATS]


@table("name", REPEATED)
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


@table("name", REFUSED)
def test_a_rejected_field_is_an_error(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decided(**{name: REFUSED[name]})
    error = caught.value
    assert (error.param, error.wire_code, error.status) == (name, "unsupported_parameter", 400)


@table("name", REFUSED)
def test_null_in_a_rejected_field_is_accepted(name: str) -> None:
    nothing: dict[str, Any] = {name: None}
    assert decided(**nothing) == ({}, [])


def test_an_empty_value_of_a_rejected_field_is_accepted() -> None:
    bare = Request(raw={}, model="m", moderation={})
    assert noted(decide_parameters, bare, Capabilities()) == ({}, [])


def test_every_unknown_field_is_named_once() -> None:
    assert decided(frobnicate=1, zap=None, warp={"a": 1}) == (
        {},
        ["param.unknown frobnicate", "param.unknown warp"],
    )


# --- limits ---------------------------------------------------------------------------------------


@table(("asked", "told"), [(10, 10), (50, 50), (51, 50)])
def test_max_output_tokens_is_clamped_to_the_models_maximum(asked: int, told: int) -> None:
    can = Capabilities(max_output_tokens=50)
    parameters, diagnostics = noted(decide_parameters, request(max_output_tokens=asked), can)
    assert parameters == {"max_output_tokens": told}
    assert [each.code for each in diagnostics] == ["param.degraded"] * (asked != told)


def test_max_output_tokens_is_not_clamped_without_a_known_maximum() -> None:
    assert noted(decide_parameters, request(max_output_tokens=10**9), Capabilities())[1] == []


def test_a_list_is_cut_to_the_length_that_the_provider_accepts() -> None:
    can = Capabilities(model_name="p/m", parameters=frozenset({"stop"}), ranges={"stop": (0, 2)})
    assert noted(decide_parameters, request(stop=["a", "b"]), can) == ({"stop": ("a", "b")}, [])
    parameters, [diagnostic] = noted(decide_parameters, request(stop=["a", "b", "c"]), can)
    assert parameters == {"stop": ("a", "b")}
    assert (diagnostic.code, diagnostic.param) == ("param.degraded", "stop")
    assert diagnostic.message == (
        "`stop` has 3 elements, and p/m accepts 2; the others are ignored."
    )


@table(("asked", "told"), [(0, 0.01), (0.01, 0.01), (0.5, 0.5), (2, 1)])
def test_a_value_out_of_range_is_clamped_with_a_diagnostic(asked: float, told: float) -> None:
    can = Capabilities(ranges={"temperature": (0.01, 1), "top_p": (0, 0)})
    parameters, diagnostics = noted(decide_parameters, request(temperature=asked), can)
    assert parameters == {"temperature": told}
    assert [f"{each.code} {each.param}" for each in diagnostics] == [
        "param.degraded temperature"
    ] * (asked != told)


def test_stop_sequences_without_a_visible_character_are_dropped_where_they_are_rejected() -> None:
    """BerriAI/litellm#3286: `stop: ["\\n"]` of an OpenAI client, for Claude."""

    def stopped(*stops: str) -> Request:
        return structs.replace(request(), stop=stops)

    takes = frozenset({"stop"})
    can = Capabilities(model_name="p/m", parameters=takes, blank_stops=False)
    parameters, [diagnostic] = noted(decide_parameters, stopped("\n", "END", " "), can)
    assert parameters == {"stop": ("END",)}
    assert (diagnostic.code, diagnostic.param) == ("param.degraded", "stop")
    assert diagnostic.message == (
        "`stop` sequences without a visible character are not supported by p/m; ignored."
    )
    assert noted(decide_parameters, stopped("a"), can) == ({"stop": ("a",)}, [])
    assert noted(decide_parameters, stopped("\n"), Capabilities(parameters=takes)) == (
        {"stop": ("\n",)},
        [],
    )


def test_of_two_conflicting_parameters_one_is_ignored_with_a_diagnostic() -> None:
    can = Capabilities(conflicting_parameters={"top_p": "temperature"})
    parameters, diagnostics = noted(decide_parameters, request(temperature=0.5, top_p=0.5), can)
    assert parameters == {"temperature": 0.5}
    assert [f"{each.code} {each.param}" for each in diagnostics] == ["param.ignored top_p"]
    assert noted(decide_parameters, request(top_p=0.5), can) == ({"top_p": 0.5}, [])


# --- include --------------------------------------------------------------------------------------


def included(takes: frozenset[str], *values: str) -> tuple[bool, list[str]]:
    capabilities = Capabilities(parameters=takes)
    logprobs, diagnostics = noted(decide_include, request(include=list(values)), capabilities)
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


@table(("user", "sent"), [("abc", True), ("abcdef", True), ("ab", False), ("abcdefg", False)])
def test_a_string_of_unsupported_length_is_ignored(user: str, sent: bool) -> None:
    can = Capabilities(parameters=frozenset({"user"}), ranges={"user": (3, 6)})
    parameters, diagnostics = noted(decide_parameters, request(user=user), can)
    assert parameters == ({"user": user} if sent else {})
    assert [f"{each.code} {each.param}" for each in diagnostics] == (
        [] if sent else ["param.ignored user"]
    )


@table(("tier", "sent"), [("auto", True), ("flex", False), (None, True)])
def test_an_unsupported_value_is_ignored(tier: str | None, sent: bool) -> None:
    can = Capabilities(
        parameters=frozenset({"service_tier"}), allowed_values={"service_tier": frozenset({"auto"})}
    )
    parameters, diagnostics = noted(decide_parameters, request(service_tier=tier), can)
    assert parameters == ({"service_tier": tier} if sent and tier else {})
    assert [each.code for each in diagnostics] == [] if sent else ["param.ignored"]
