"""Profiles: who is recognized by what, what an operator may change, and what that does."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.client_profile import (
    OTHER,
    PROFILES,
    Profile,
    error_as_400,
    error_as_final,
    keepalive_as_comment,
    resolve,
)
from antiphon.core.diagnostic import Decision
from antiphon.core.faults.fault import classify

CODEX = PROFILES["codex"]

# --- recognition ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
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
        ("", "", "other"),
        ("my-codex-wrapper", "", "other"),
    ],
)
def test_a_client_is_known_by_its_headers(originator: str, user_agent: str, name: str) -> None:
    assert resolve(originator, user_agent, {}) == PROFILES[name]
    assert PROFILES[name].name == name


def test_only_codex_needs_other_words() -> None:
    changed = [name for name, profile in PROFILES.items() if profile != Profile(name=name)]
    assert changed == ["codex"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, Profile(name="codex", refusals="text", permanent_errors="400")),
        (
            {"codex": {"refusals": "refusal", "permanent_errors": None, "keepalive": "comment"}},
            Profile(name="codex", refusals="refusal", permanent_errors="400", keepalive="comment"),
        ),
        (
            {"*": {"refusals": "refusal", "keepalive": "comment"}, "codex": {"keepalive": "event"}},
            Profile(name="codex", refusals="refusal", permanent_errors="400", keepalive="event"),
        ),
        ({"opencode": {"keepalive": "comment"}}, CODEX),
    ],
    ids=["none", "its own", "its own over everyone's", "another's"],
)
def test_an_operator_knows_better(overrides: dict[str, Any], expected: Profile) -> None:
    assert resolve("codex_exec", "", overrides) == expected


# --- statuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 405, 409, 413, 415, 422])
def test_an_error_that_stays_is_a_400_for_whoever_repeats_others(status: int) -> None:
    assert CODEX.status(status) == 400
    assert OTHER.status(status) == status


@pytest.mark.parametrize("status", [200, 400, 408, 426, 429, 500, 502, 503, 504])
def test_other_statuses_are_the_same_for_everybody(status: int) -> None:
    assert (CODEX.status(status), OTHER.status(status)) == (status, status)


def test_a_fault_that_stays_is_a_400_whatever_its_status_says() -> None:
    assert CODEX.status(502, permanent=True) == 400
    assert OTHER.status(502, permanent=True) == 502


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_fault_that_stays_has_a_final_code_for_whoever_repeats_others(status: int) -> None:
    fault = classify(status, {}, b"")
    assert CODEX.code(fault) == "invalid_prompt"
    assert OTHER.code(fault) == fault.public_code


@pytest.mark.parametrize("status", [402, 408, 413, 429, 500, 503, 529])
def test_other_codes_are_the_same_for_everybody(status: int) -> None:
    fault = classify(status, {}, b"")
    assert CODEX.code(fault) == OTHER.code(fault) == fault.public_code


# --- diagnostics ----------------------------------------------------------------------------------


def test_a_changed_status_names_the_true_one() -> None:
    told = error_as_400(CODEX, 401)
    assert (told.code, told.decision) == ("client.error_as_400", Decision.DEGRADED)
    assert told.subject == "401"
    assert "not 401" in told.message


def test_a_changed_code_names_the_true_one() -> None:
    told = error_as_final(CODEX, "server_error")
    assert (told.code, told.subject) == ("client.error_as_400", "server_error")
    assert "not server_error" in told.message


def test_a_comment_in_place_of_an_event_names_the_client() -> None:
    told = keepalive_as_comment(OTHER)
    assert (told.code, told.subject) == ("client.keepalive", "other")
