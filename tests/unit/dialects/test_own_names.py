"""Diagnostics and errors in the names of a client's own format."""

from __future__ import annotations

from antiphon.core.diagnostic import Diagnostic, degraded, diagnostics_header, ignored
from antiphon.dialects.client_dialect import Problem
from antiphon.dialects.own_names import rename_diagnostic, rename_problem
from antiphon.dialects.responses.client import RESPONSES

NAMES = {
    "input[2]": "messages.1.content.0",
    "input": "messages",
    "max_output_tokens": "max_tokens",
    "message.output_text.logprobs": "logprobs",
    "include": "logprobs",
}


def own_name(path: str) -> str:
    return NAMES.get(path, path)


def header(diagnostic: Diagnostic) -> str:
    return diagnostics_header([rename_diagnostic(diagnostic, own_name)])


def test_an_error_has_the_clients_names_in_its_parameter_and_between_backticks() -> None:
    text = "`input[2]` of 'input' is wrong: see `input`, `call_id` and `[server] input`."
    renamed = rename_problem(Problem(status=400, message=text, param="input[2]"), own_name)
    assert renamed.param == "messages.1.content.0"
    assert renamed.message == (
        "`messages.1.content.0` of 'input' is wrong: see `messages`, `call_id` and"
        " `[server] input`."
    )
    assert rename_problem(Problem(status=400, message="No."), own_name).param is None


def test_a_diagnostic_has_the_clients_names() -> None:
    given = degraded("param.degraded", "max_output_tokens", "`max_output_tokens` is clamped.")
    renamed = rename_diagnostic(given, own_name)
    assert (renamed.param, renamed.message) == ("max_tokens", "`max_tokens` is clamped.")
    assert header(given) == "1; codes=param.degraded:max_tokens"


def test_the_header_has_no_indexes_in_either_notation() -> None:
    assert header(ignored("x", "input[2]", "")) == "1; codes=x:messages.content"
    assert header(ignored("x", "tools[12].name", "")) == "1; codes=x:tools.name"


def test_a_subject_is_renamed_if_it_names_a_member() -> None:
    effort = ignored("x", "input[3].max_output_tokens", "", "max_output_tokens")
    assert header(effort) == "1; codes=x:max_tokens"
    include = ignored("x", "include", "", "message.output_text.logprobs")
    assert header(include) == "1; codes=x:logprobs"
    tool_of_the_client = ignored("x", "output", "", "input")
    assert header(tool_of_the_client) == "1; codes=x:input"


def test_the_names_of_responses_are_those_of_the_canonical_request() -> None:
    request = RESPONSES.parse({"model": "m", "input": "hi"})
    for path in ("input[3].content", "max_output_tokens", "text.format"):
        assert RESPONSES.own_name(path, request) == path
