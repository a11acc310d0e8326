"""Public descriptions: helpful, translated key by key, and never in the provider's words."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.core.faults.fault import (
    FaultType,
    ProviderFault,
    blocked_fault,
    cancelled_fault,
    classify,
    connection_fault,
    internal_fault,
    protocol_fault,
    timeout_fault,
)
from antiphon.core.faults.kinds import ROWS
from antiphon.core.faults.messages import TEXTS, describe

LOCALES = ["en", "zh", "zh-CN", "fr", ""]

# What Codex looks for in the message of a failed response.
CODEX_DELAY = re.compile(r"(?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)")


def of_kind(kind: str) -> ProviderFault:
    row = ROWS[kind]
    return replace(
        protocol_fault("upstream"),
        type=row.type,
        code=kind,
        retryable=row.retryable,
        scope=row.scope,
    )


@pytest.mark.parametrize("kind", list(ROWS))
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_every_kind_has_a_text_of_one_or_more_sentences(kind: str, locale: str) -> None:
    text = describe(of_kind(kind), locale)
    assert text.endswith((".", "。"))
    assert "{" not in text


def test_every_language_knows_every_type_and_the_same_keys() -> None:
    assert set(FaultType) <= TEXTS["en"].keys()
    assert TEXTS["zh"].keys() == TEXTS["en"].keys()


def test_every_key_with_a_code_belongs_to_a_type() -> None:
    types = {key.partition("/")[0] for key in TEXTS["en"] if "/" in key}
    assert types <= set(FaultType)


def test_the_code_chooses_the_text_and_the_type_stands_in_for_a_missing_one() -> None:
    known = protocol_fault("m", code="incomplete_tool_call")
    other = protocol_fault("m", code="never_heard_of")
    assert describe(known) == TEXTS["en"]["protocol/incomplete_tool_call"]
    assert describe(other) == TEXTS["en"]["protocol"]
    assert describe(other, "zh") == TEXTS["zh"]["protocol"]


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        ("en", "en"),
        ("en-US", "en"),
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zh_CN.UTF-8", "zh"),
        ("ZH-Hant-TW", "zh"),
        ("fr-FR", "en"),
        ("", "en"),
        ("-", "en"),
        ("../etc", "en"),
    ],
)
def test_a_locale_falls_back_to_its_language_and_then_to_english(
    locale: str, language: str
) -> None:
    assert describe(cancelled_fault(), locale) == TEXTS[language]["cancelled"]


def test_the_fallback_is_taken_key_by_key() -> None:
    texts = {
        "en": {"timeout": "en", "timeout/idle_timeout": "en idle", "connection": "en connection"},
        "xx": {"timeout": "xx", "timeout/idle_timeout": "xx idle"},
        "xx-yy": {"timeout": "xx-yy"},
    }
    assert describe(timeout_fault("total"), "xx-YY", texts) == "xx-yy"
    assert describe(timeout_fault("idle"), "xx-YY", texts) == "xx idle"
    assert describe(connection_fault("m"), "xx-YY", texts) == "en connection"


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(
    ("delay_s", "shown"), [(12.0, "12"), (1.2, "1.2"), (0.01, "0.1"), (0.0, "0"), (3600.0, "3600")]
)
def test_codex_finds_the_delay_of_a_rate_limit_in_every_language(
    locale: str, delay_s: float, shown: str
) -> None:
    fault = replace(classify(429, {}, b""), retry_after_s=delay_s)
    found = CODEX_DELAY.search(describe(fault, locale))
    assert found is not None
    assert found.groups() == (shown, "s")


def test_the_english_text_of_a_rate_limit_reads_well() -> None:
    text = describe(classify(429, {"retry-after": "12"}, b""))
    assert text == (
        "The provider's rate limit is reached. Send fewer requests at a time, or add another key."
        " Please try again in 12 s. (HTTP 429)"
    )


def test_no_delay_is_promised_for_what_will_not_get_better() -> None:
    fault = classify(402, {"retry-after": "12"}, b"")
    assert fault.retry_after_s == 12.0
    assert "try again in" not in describe(fault)


def test_a_reason_for_blocking_is_shown_only_if_it_is_a_known_word() -> None:
    assert describe(blocked_fault("SAFETY")).endswith("Reason: SAFETY.")
    assert describe(blocked_fault("SAFETY"), "zh").endswith("原因：SAFETY。")
    assert "sk_live_abc" not in describe(blocked_fault("sk_live_abc"))


# --- canaries -------------------------------------------------------------------------------------

KEY = "sk-proj-CANARY0123456789abcdefghij"
URL = "https://canary.example.com/v1?key=CANARY"
SECRET = "CANARY upstream text"


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(
    "status", [None, 200, 302, 400, 401, 402, 403, 404, 418, 429, 500, 503, 529]
)
@pytest.mark.parametrize("canary", [KEY, URL, SECRET, "CANARY_CODE", "sk_CANARY"])
def test_nothing_an_upstream_writes_is_ever_shown(
    locale: str, status: int | None, canary: str
) -> None:
    error = dict.fromkeys(["message", "type", "code", "param", "status", "reason"], canary)
    body = json.dumps({"error": error, "request_id": canary, "detail": canary}).encode()
    fault = classify(status, {"x-request-id": canary, "x-amzn-errortype": canary}, body)
    assert "CANARY" in fault.message
    assert "CANARY" in fault.original
    assert "CANARY" not in describe(fault, locale)


@pytest.mark.parametrize("locale", LOCALES)
def test_nothing_we_note_ourselves_is_ever_shown(locale: str) -> None:
    faults = [
        protocol_fault(SECRET, code="CANARY"),
        connection_fault(URL),
        internal_fault(ValueError(KEY)),
        blocked_fault(KEY),
        blocked_fault("CANARY"),
    ]
    assert not [fault for fault in faults if "CANARY" in describe(fault, locale)]


@given(st.text(min_size=4), st.integers(400, 599), st.sampled_from(LOCALES))
def test_a_description_depends_on_the_kind_and_not_on_the_words(
    message: str, status: int, locale: str
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    fault = classify(status, {}, body)
    bare = replace(protocol_fault(""), type=fault.type, code=fault.code, retryable=fault.retryable)
    bare = replace(bare, status=status, retry_after_s=fault.retry_after_s)
    assert describe(fault, locale) == describe(bare, locale)
