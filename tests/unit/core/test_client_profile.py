"""Client profiles: recognition, configured overrides, and their effects."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from antiphon.core.client_profile import (
    OTHER,
    PROFILES,
    Profile,
    error_as_400,
    error_as_final,
    keepalive_as_comment,
    name_software,
    resolve_profile,
)
from antiphon.core.deltas import Delta, Finish, ItemEnd, Reasoning, Refusal, Text
from antiphon.core.diagnostic import Decision
from antiphon.core.faults.classify import classify
from antiphon.core.filters.simple_filters import RefusalTextFilter
from tests.support.filters import DrivenFilter
from tests.support.tables import table

CODEX = PROFILES["codex"]

# --- recognition ----------------------------------------------------------------------------------


@table(
    ("originator", "user_agent", "name"),
    [
        ("codex_exec", "codex_exec/0.166.0 (Debian 12; x86_64)", "codex"),
        ("codex_cli_rs", "", "codex"),
        ("codex-tui", "anything", "codex"),
        ("Codex Desktop", "", "codex"),
        ("", "codex_vscode/0.166.0", "codex"),
        ("", "opencode/1.18.33 ai-sdk/openai/3.0.139 runtime/bun", "opencode"),
        ("", "ai/6.0.326 ai-sdk/openai/3.0.139 ai-sdk/provider-utils/4.0 runtime/node", "ai-sdk"),
        ("", "Agents/Python 0.24.0", "openai-agents"),
        ("", "Agents/JavaScript 0.20.0", "openai-agents"),
        ("", "pydantic-ai/2.66.0", "pydantic-ai"),
        ("", "langchain-openai/1.7.3 OpenAI/Python 3.49.0", "langchain"),
        ("", "OpenAI/Python 3.49.0", "openai-python"),
        ("", "AsyncOpenAI/Python 3.49.0", "openai-python"),
        ("", "OpenAI/JS 6.49.0", "openai-node"),
        ("", "curl/8.5.0", "other"),
        ("", "claude-cli/2.1.326 (external, sdk-cli)", "claude-code"),
        ("", "claude-code/2.1.326", "claude-code"),
        ("", "AsyncAnthropic/Python 2.9.0", "anthropic-python"),
        ("", "Anthropic/JS 1.9.0", "anthropic-ts"),
        ("", "", "other"),
        ("my-codex-wrapper", "", "other"),
    ],
)
def test_a_client_is_recognized_by_its_headers(originator: str, user_agent: str, name: str) -> None:
    assert resolve_profile(originator, user_agent, {}) == PROFILES[name]
    assert PROFILES[name].name == name


def test_only_two_agents_have_a_profile_that_differs_from_the_default() -> None:
    changed = [name for name, profile in PROFILES.items() if profile != Profile(name=name)]
    assert changed == ["codex", "claude-code"]


@table(
    ("overrides", "expected"),
    [
        ({}, CODEX),
        (
            {"codex": {"refusals": "refusal", "permanent_errors": None, "keepalive": "comment"}},
            structs.replace(CODEX, refusals="refusal", keepalive="comment"),
        ),
        (
            {"*": {"refusals": "refusal", "keepalive": "comment"}, "codex": {"keepalive": "event"}},
            structs.replace(CODEX, refusals="refusal", keepalive="event"),
        ),
        ({"opencode": {"keepalive": "comment"}}, CODEX),
    ],
    ids=["none", "its own", "its own over everyone's", "another's"],
)
def test_configured_overrides_replace_fields_of_a_profile(
    overrides: dict[str, Any], expected: Profile
) -> None:
    assert resolve_profile("codex_exec", "", overrides) == expected


# --- statuses -------------------------------------------------------------------------------------


@table("status", [401, 403, 404, 405, 409, 413, 415, 422])
def test_a_permanent_error_is_a_400_for_clients_that_retry_other_statuses(status: int) -> None:
    assert CODEX.status(status) == 400
    assert OTHER.status(status) == status


@table("status", [200, 400, 408, 426, 429, 500, 502, 503, 504])
def test_other_statuses_are_the_same_for_every_client(status: int) -> None:
    assert (CODEX.status(status), OTHER.status(status)) == (status, status)


def test_a_permanent_fault_is_a_400_whatever_its_status() -> None:
    assert CODEX.status(502, permanent=True) == 400
    assert OTHER.status(502, permanent=True) == 502


@table("status", [400, 401, 403, 404, 422])
def test_a_permanent_fault_has_a_final_code_for_clients_that_retry_other_codes(status: int) -> None:
    fault = classify(status, {}, b"")
    assert CODEX.code(fault) == "invalid_prompt"
    assert OTHER.code(fault) == fault.public_code


@table("status", [402, 408, 413, 429, 500, 503, 529])
def test_other_codes_are_the_same_for_every_client(status: int) -> None:
    fault = classify(status, {}, b"")
    assert CODEX.code(fault) == OTHER.code(fault) == fault.public_code


# --- diagnostics ----------------------------------------------------------------------------------


def test_a_changed_status_names_the_original_one() -> None:
    diagnostic = error_as_400(CODEX, 401)
    assert (diagnostic.code, diagnostic.decision) == ("client.error_as_400", Decision.DEGRADED)
    assert diagnostic.subject == "401"
    assert "instead of 401" in diagnostic.message


def test_a_changed_code_names_the_original_one() -> None:
    diagnostic = error_as_final(CODEX, "server_error")
    assert (diagnostic.code, diagnostic.subject) == ("client.error_as_400", "server_error")
    assert "instead of server_error" in diagnostic.message


def test_a_keepalive_comment_names_the_client() -> None:
    diagnostic = keepalive_as_comment(OTHER)
    assert (diagnostic.code, diagnostic.subject) == ("client.keepalive", "other")


# --- refusals -------------------------------------------------------------------------------------


def filter_all(refusal_filter: DrivenFilter, *deltas: Delta) -> list[Delta]:
    passed = [each for delta in deltas for each in refusal_filter.feed(delta)]
    return passed + refusal_filter.close(final=True)


def test_a_refusal_becomes_text_with_one_diagnostic() -> None:
    refusal_filter = DrivenFilter(RefusalTextFilter(CODEX))
    assert filter_all(refusal_filter, Refusal("I can"), Refusal("not.")) == [
        Text("I can"),
        Text("not."),
    ]
    [diagnostic] = refusal_filter.diagnostics
    assert (diagnostic.code, diagnostic.subject) == ("client.refusal_as_text", "codex")
    refusal_filter.take_diagnostics()
    assert filter_all(refusal_filter, Refusal(" Sorry.")) == [Text(" Sorry.")]
    assert refusal_filter.diagnostics == ()
    assert refusal_filter.follow_up is None


def test_without_a_refusal_nothing_changes() -> None:
    refusal_filter = DrivenFilter(RefusalTextFilter(CODEX))
    deltas: list[Delta] = [Reasoning("Hm."), Text("Yes"), Text("."), Finish("stop")]
    assert filter_all(refusal_filter, *deltas) == deltas
    assert refusal_filter.diagnostics == ()


def test_a_refusal_is_a_separate_message() -> None:
    subject = DrivenFilter(RefusalTextFilter(CODEX))
    passed = filter_all(subject, Text("Let me see."), Refusal("No."), Text("But:"))
    assert passed == [Text("Let me see."), ItemEnd(), Text("No."), ItemEnd(), Text("But:")]


def test_an_empty_refusal_is_ignored() -> None:
    refusal_filter = DrivenFilter(RefusalTextFilter(CODEX))
    assert filter_all(refusal_filter, Text("a"), Refusal(""), Text("b")) == [
        Text("a"),
        Refusal(""),
        Text("b"),
    ]
    assert refusal_filter.diagnostics == ()


@table(
    ("originator", "user_agent", "software"),
    [
        ("", "", ""),
        ("", "OpenAI/Python 2.1", "OpenAI/Python 2.1"),
        ("codex_cli_rs", "codex_cli_rs/0.77.0 (Debian 12) xterm", "codex_cli_rs/0.77.0"),
        ("codex_exec", "reqwest/1", "codex_exec reqwest/1"),
        ("codex_exec", "", "codex_exec"),
        ("", "a\x1b[31m\nb", "a[31mb"),
        ("", "x" * 1000, "x" * 100),
    ],
)
def test_software_is_named_by_its_headers(originator: str, user_agent: str, software: str) -> None:
    assert name_software(originator, user_agent) == software


def test_the_profile_is_found_by_the_software_too() -> None:
    software = name_software("codex_exec", "reqwest/1")
    assert resolve_profile("", software, {}) == resolve_profile("codex_exec", "reqwest/1", {})
