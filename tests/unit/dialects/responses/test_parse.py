"""`Request.parse`: fields, defaults and the errors of invalid requests."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from antiphon.core.request import Request
from antiphon.dialects.responses.parse import INCLUDE_VALUES, parse_in_order, parse_request
from antiphon.errors import InvalidRequest
from tests.support.full_request import FULL, ITEMS, TOOLS
from tests.support.request_body import parse_body
from tests.support.tables import table

GREETING = {"type": "input_text", "text": "Hello?"}


def parse(**fields: Any) -> Request:
    return parse_body(json.dumps({"model": "m", "input": "Hello?", **fields}).encode())


def refusal(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_body(body)
    return caught.value


def refused(**fields: Any) -> InvalidRequest:
    return refusal(json.dumps({"model": "m", "input": "Hello?", **fields}).encode())


# --- valid requests -------------------------------------------------------------------------------


def test_absent_fields_have_the_defaults_of_the_api() -> None:
    assert parse() == Request(
        raw={"model": "m", "input": "Hello?"},
        model="m",
        input=({"type": "message", "role": "user", "content": [GREETING]},),
        stream=False,
        store=True,
        background=False,
        tool_choice="auto",
        parallel_tool_calls=None,
        text_format={"type": "text"},
        truncation=None,
        service_tier=None,
        metadata=None,
    )


def test_every_field_is_read() -> None:
    request = parse_body(json.dumps(FULL).encode())
    same = """
        model instructions previous_response_id prompt stream stream_options store background
        tool_choice parallel_tool_calls max_tool_calls reasoning max_output_tokens temperature top_p
        top_logprobs presence_penalty frequency_penalty truncation metadata service_tier
        prompt_cache_key safety_identifier user moderation access_programs image multi_agent
        prompt_cache_options prompt_cache_retention client_metadata
    """.split()
    assert {name: getattr(request, name) for name in same} == {name: FULL[name] for name in same}
    assert request.input == tuple(ITEMS)
    assert request.tools == tuple(TOOLS)
    assert request.include == frozenset(FULL["include"])
    assert request.context_management == tuple(FULL["context_management"])
    assert (request.text_format, request.verbosity) == (FULL["text"]["format"], "low")
    assert (request.effort, request.summary) == ("high", "concise")
    assert request.conversation is None
    assert request.unknown == ()


def test_raw_is_the_document_unchanged() -> None:
    document = {"model": "m", "input": "hello", "text": None, "mood": {"sunny": [1, 2.5, None]}}
    assert parse_body(json.dumps(document).encode()).raw == document


@table("name", sorted({*FULL, "conversation"} - {"model", "input"}))
def test_null_is_the_same_as_absent(name: str) -> None:
    given = parse(**{name: None})
    assert given.raw == {"model": "m", "input": "Hello?", name: None}
    fields = [name for name in Request.__struct_fields__ if name != "raw"]
    assert [getattr(given, each) for each in fields] == [getattr(parse(), each) for each in fields]


def test_a_string_is_one_user_message() -> None:
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
    }
    assert parse(input="hello").input == (message,)


def test_an_empty_input_with_one_output_token_is_accepted() -> None:
    request = parse(input="", max_output_tokens=1)
    assert request.input[0]["content"] == [{"type": "input_text", "text": ""}]
    assert request.max_output_tokens == 1


@pytest.mark.parametrize("input_items", [None, []])
def test_a_request_without_input_is_rejected_unless_it_continues_something(
    input_items: list[Any] | None,
) -> None:
    error = refused(input=input_items)
    assert (error.param, error.wire_code) == ("input", "missing_required_parameter")
    for field in ("previous_response_id", "conversation"):
        assert parse(input=input_items, **{field: "resp_1"}).input == ()
    assert parse(input=input_items, prompt={"id": "p"}).input == ()


@pytest.mark.parametrize("given", ["conv_1", {"id": "conv_1"}, {"id": "conv_1", "more": 1}])
def test_a_conversation_is_an_id_or_an_object_with_one(given: Any) -> None:
    assert parse(conversation=given).conversation == "conv_1"


@pytest.mark.parametrize("effort", ["none", "max", "ultra", "深思"])
def test_any_string_may_be_an_effort(effort: str) -> None:
    assert parse(reasoning={"effort": effort}).effort == effort


def test_generate_summary_is_read_as_summary() -> None:
    assert parse(reasoning={"generate_summary": "detailed"}).summary == "detailed"
    both = {"summary": "auto", "generate_summary": "detailed"}
    assert parse(reasoning=both).summary == "auto"


@table("name", INCLUDE_VALUES)
def test_every_include_value_of_the_api_is_accepted(name: str) -> None:
    assert parse(include=[name, name]).include == {name}


def test_a_null_format_is_plain_text() -> None:
    assert parse(text={"format": None, "verbosity": None}).text_format == {"type": "text"}


def test_many_undocumented_fields_are_counted() -> None:
    fields = {f"f{number}": number for number in range(30)} | {"x" * 5000: 1}
    request = parse(**fields)
    assert request.unknown == tuple(f"f{number}" for number in range(20))
    assert request.unknown_more == 11
    assert parse(**{"x" * 5000: 1}).unknown == ("x" * 64,)


def test_the_name_of_a_model_has_at_most_256_characters() -> None:
    assert parse(model="m" * 256).model == "m" * 256
    with pytest.raises(InvalidRequest) as caught:
        parse(model="m" * 257)
    assert (caught.value.param, caught.value.code) == ("model", "string_above_max_length")
    assert len(caught.value.message) < 200


def test_undocumented_fields_are_listed_as_unknown() -> None:
    request = parse(spirit=1, mood="good", client_metadata={"a": "b"}, soul=None)
    assert request.unknown == ("spirit", "mood")


def test_parameters_of_other_apis_are_read() -> None:
    request = parse(stop=["a", "b"], top_k=40, seed=-1, logit_bias={"50256": -100})
    assert request.unknown == ()
    assert (request.stop, request.top_k, request.seed) == (("a", "b"), 40, -1)
    assert request.logit_bias == {"50256": -100}
    assert parse(stop="END").stop == ("END",)


@table(
    "fields",
    [{"stop": ""}, {"stop": [1]}, {"stop": 1}, {"top_k": -1}, {"seed": 0.5}, {"logit_bias": []}],
)
def test_an_invalid_parameter_of_another_api_is_rejected(fields: dict[str, Any]) -> None:
    [name] = fields
    assert str(refused(**fields).param).startswith(name)


def test_background_store_and_moderation_are_accepted() -> None:
    assert parse(background=True).background
    assert parse(background=False, store=False).store is False
    assert parse(moderation={"model": "m"}).unknown == ()


def test_metadata_at_its_limits_is_accepted() -> None:
    metadata = {f"{index:064}": "v" * 512 for index in range(16)}
    assert parse(metadata=metadata).metadata == metadata


# --- invalid requests -----------------------------------------------------------------------------

BOOLEANS = "stream store background parallel_tool_calls generate".split()
STRINGS = """
    model input instructions previous_response_id conversation truncation service_tier
    prompt_cache_key prompt_cache_retention safety_identifier user stream_id type tool_choice
""".split()
NUMBERS = """
    max_output_tokens max_tool_calls top_logprobs temperature top_p presence_penalty
    frequency_penalty
""".split()
ARRAYS = "include tools context_management".split()
OBJECTS = """
    prompt stream_options text reasoning metadata moderation access_programs image
    prompt_cache_options multi_agent client_metadata
""".split()


def test_these_tests_cover_every_field() -> None:
    assert {*BOOLEANS, *STRINGS, *NUMBERS, *ARRAYS, *OBJECTS} == {*FULL, "conversation"}


@table(
    ("name", "value"),
    [
        *product(BOOLEANS, ("false", 0, {})),
        *product(STRINGS, (5, True, 1.5)),
        *product(NUMBERS, ("1", True, [1])),
        *product(ARRAYS, ({}, "auto", 1)),
        *product(OBJECTS, ([], "{}", 1)),
    ],
)
def test_a_value_of_the_wrong_type_is_rejected_with_its_field(name: str, value: Any) -> None:
    error = refused(**{name: value})
    assert (error.param, error.wire_code) == (name, "invalid_type")
    assert (error.status, error.kind) == (400, "invalid_request_error")
    assert error.message.startswith(f"'{name}' must be ")


MODE = {"mode": "never"}


@table(
    ("fields", "param", "code"),
    [
        ({"model": " "}, "model", "invalid_value"),
        ({"previous_response_id": ""}, "previous_response_id", "invalid_value"),
        ({"conversation": ""}, "conversation", "invalid_value"),
        ({"conversation": {}}, "conversation.id", "missing_required_parameter"),
        ({"conversation": {"id": 1}}, "conversation.id", "invalid_type"),
        ({"prompt": {}}, "prompt.id", "missing_required_parameter"),
        ({"prompt": {"id": "p", "version": 1}}, "prompt.version", "invalid_type"),
        ({"prompt": {"id": "p", "variables": {"a": 1}}}, "prompt.variables.a", "invalid_type"),
        (
            {"prompt": {"id": "p", "variables": {"a": {"type": "input_text"}}}},
            "prompt.variables.a.text",
            "missing_required_parameter",
        ),
        (
            {"stream_options": {"include_obfuscation": 1}},
            "stream_options.include_obfuscation",
            "invalid_type",
        ),
        ({"include": ["usage"]}, "include[0]", "invalid_value"),
        ({"include": [INCLUDE_VALUES[0], None]}, "include[1]", "invalid_type"),
        ({"max_tool_calls": 0}, "max_tool_calls", "integer_below_min_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
        ({"max_output_tokens": 10**400}, "max_output_tokens", "integer_above_max_value"),
        ({"max_output_tokens": 1.0}, "max_output_tokens", "invalid_type"),
        ({"temperature": -0.1}, "temperature", "decimal_below_min_value"),
        ({"temperature": 2.1}, "temperature", "decimal_above_max_value"),
        ({"temperature": 10**400}, "temperature", "decimal_above_max_value"),
        ({"top_p": -1}, "top_p", "decimal_below_min_value"),
        ({"top_p": 1.1}, "top_p", "decimal_above_max_value"),
        ({"top_logprobs": -1}, "top_logprobs", "integer_below_min_value"),
        ({"top_logprobs": 21}, "top_logprobs", "integer_above_max_value"),
        ({"presence_penalty": -2.1}, "presence_penalty", "decimal_below_min_value"),
        ({"frequency_penalty": 2.1}, "frequency_penalty", "decimal_above_max_value"),
        ({"truncation": "on"}, "truncation", "invalid_value"),
        ({"service_tier": "standard"}, "service_tier", "invalid_value"),
        ({"safety_identifier": "s" * 129}, "safety_identifier", "string_above_max_length"),
        ({"context_management": []}, "context_management", "empty_array"),
        ({"context_management": [{}]}, "context_management[0].type", "missing_required_parameter"),
        ({"context_management": [{"type": "x"}]}, "context_management[0].type", "invalid_value"),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 999}]},
            "context_management[0].compact_threshold",
            "integer_below_min_value",
        ),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {"a": "v" * 513}}, "metadata.a", "string_above_max_length"),
        ({"metadata": {"k" * 65: "v"}}, "metadata", "string_above_max_length"),
        (
            {"metadata": {str(index): "v" for index in range(17)}},
            "metadata",
            "object_above_max_properties",
        ),
        ({"text": {"verbosity": "loud"}}, "text.verbosity", "invalid_value"),
        ({"text": {"format": "json"}}, "text.format", "invalid_type"),
        ({"text": {"format": {}}}, "text.format.type", "missing_required_parameter"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
        ({"reasoning": {"effort": ""}}, "reasoning.effort", "invalid_value"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort", "invalid_type"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary", "invalid_value"),
        ({"reasoning": {"generate_summary": 1}}, "reasoning.generate_summary", "invalid_type"),
        ({"reasoning": {"context": "none"}}, "reasoning.context", "invalid_value"),
        ({"reasoning": {"mode": 1}}, "reasoning.mode", "invalid_type"),
        ({"moderation": {}}, "moderation.model", "missing_required_parameter"),
        (
            {"moderation": {"model": "m", "policy": {"input": MODE}}},
            "moderation.policy.input.mode",
            "invalid_value",
        ),
        ({"access_programs": {"cyber": "all"}}, "access_programs.cyber", "invalid_value"),
        (
            {"image": {"context_compression": True}},
            "image.context_compression",
            "invalid_type",
        ),
        ({"prompt_cache_options": {"ttl": "1h"}}, "prompt_cache_options.ttl", "invalid_value"),
        ({"prompt_cache_options": {"mode": "x"}}, "prompt_cache_options.mode", "invalid_value"),
        ({"prompt_cache_options": {"prewarm": 1}}, "prompt_cache_options.prewarm", "invalid_type"),
        ({"prompt_cache_retention": "1h"}, "prompt_cache_retention", "invalid_value"),
        ({"type": "response.cancel"}, "type", "invalid_value"),
        ({"background": True, "store": False}, "background", "invalid_value"),
        (
            {"previous_response_id": "resp_1", "conversation": "conv_1"},
            "previous_response_id",
            "mutually_exclusive_parameters",
        ),
        ({"messages": []}, "messages", "unsupported_parameter"),
        ({"max_tokens": 5}, "max_tokens", "unsupported_parameter"),
        ({"response_format": {"type": "text"}}, "response_format", "unsupported_parameter"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "unsupported_parameter"),
    ],
)
def test_an_invalid_value_is_rejected_with_its_path(
    fields: dict[str, Any], param: str, code: str
) -> None:
    error = refused(**fields)
    assert (error.param, error.wire_code) == (param, code)
    assert f"'{param}'" in error.message


@table("name", ["", "a b", "x" * 65, "naïve", "line\n", None, 1])
def test_an_invalid_schema_name_is_rejected(name: Any) -> None:
    given = {"type": "json_schema", "name": name, "schema": {}}
    assert refused(text={"format": given}).param == "text.format.name"


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({}, "text.format.schema"),
        ({"schema": True}, "text.format.schema"),
        ({"schema": None}, "text.format.schema"),
        ({"schema": {}, "strict": "yes"}, "text.format.strict"),
        ({"schema": {}, "description": 1}, "text.format.description"),
    ],
)
def test_invalid_fields_of_a_schema_format_are_rejected(extra: dict[str, Any], param: str) -> None:
    assert refused(text={"format": {"type": "json_schema", "name": "n", **extra}}).param == param


def test_a_request_without_a_model_is_rejected() -> None:
    for body in (b"{}", b'{"model": null}'):
        error = refusal(body)
        assert (error.param, error.wire_code) == ("model", "missing_required_parameter")


def test_an_input_above_its_maximum_length_is_rejected() -> None:
    error = refused(input="a" * (10 * 1024 * 1024 + 1))
    assert (error.param, error.wire_code) == ("input", "string_above_max_length")


# --- messages -------------------------------------------------------------------------------------


def test_a_message_states_what_is_expected_and_what_was_sent() -> None:
    assert refused(temperature=3).message == "'temperature' must be at most 2, not 3."
    assert refused(tools={}).message == "'tools' must be an array, not an object."
    assert "not a string" in refused(stream="false").message
    assert "use 'input'" in refused(messages=[]).message


def test_the_message_about_a_misspelled_value_suggests_the_nearest() -> None:
    message = refused(truncation="disable").message
    assert message == (
        "'truncation' cannot be 'disable'; supported values are 'auto', 'disabled'."
        " Did you mean 'disabled'?"
    )
    assert "Did you mean" not in refused(truncation="zzz").message


def test_a_message_quotes_a_long_value_only_in_part() -> None:
    assert len(refused(truncation="x" * 100_000).message) < 200
    assert len(refused(max_output_tokens=10**4000).message) < 200
    assert len(refused(metadata={"k" * 100_000: 1}).message) < 200


@table(
    "limit",
    [
        {"max_tool_calls": 1},
        {"max_output_tokens": 1},
        {"temperature": 0},
        {"temperature": 2},
        {"top_p": 0},
        {"top_p": 1},
        {"top_logprobs": 0},
        {"top_logprobs": 20},
        {"presence_penalty": -2},
        {"presence_penalty": 2},
        {"frequency_penalty": -2},
        {"frequency_penalty": 2},
        {"safety_identifier": "s" * 128},
        {"tools": [{"type": "image_generation", "frame_count": 1, "frame_duration_ms": 0}]},
    ],
)
def test_a_value_at_its_limit_is_accepted(limit: dict[str, Any]) -> None:
    request = parse_body(json.dumps({"model": "m", "input": "hi", **limit}).encode())
    assert request.model == "m"


@table("document", [FULL, {"model": "m", "input": "Hello", "odd": 1, "user": None}])
def test_a_request_is_the_same_if_it_is_read_by_the_table_of_fields(
    document: dict[str, Any],
) -> None:
    assert parse_request(document) == parse_in_order(document)
