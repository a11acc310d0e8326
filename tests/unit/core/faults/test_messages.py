"""Fault descriptions: complete in every locale, translated key by key, without upstream text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import (
    FaultType,
    ProviderFault,
    StreamProgress,
    blocked_fault,
    cancelled_fault,
    connection_fault,
    cut_fault,
    internal_fault,
    protocol_fault,
    timeout_fault,
)
from antiphon.core.faults.kinds import FAULT_KINDS
from antiphon.core.faults.messages import TEXTS, describe, negotiate_locale
from tests.support.tables import table

LOCALES = ["en", "zh", "zh-CN", "fr", ""]

# What Codex looks for in the message of a failed response.
CODEX_DELAY = re.compile(r"(?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)")


def of_kind(kind: str) -> ProviderFault:
    row = FAULT_KINDS[kind]
    return replace(
        protocol_fault("upstream"),
        type=row.type,
        code=kind,
        retryable=row.retryable,
        scope=row.scope,
    )


@table("kind", list(FAULT_KINDS))
@table("locale", ["en", "zh"])
def test_every_fault_kind_has_a_text_of_one_or_more_sentences(kind: str, locale: str) -> None:
    text = describe(of_kind(kind), locale)
    assert text.endswith((".", "。"))
    assert "{" not in text


def test_every_locale_has_every_fault_type_and_the_same_keys() -> None:
    assert set(FaultType) <= TEXTS["en"].keys()
    assert TEXTS["zh"].keys() == TEXTS["en"].keys()


def test_every_key_with_a_code_belongs_to_a_fault_type() -> None:
    types = {key.partition("/")[0] for key in TEXTS["en"] if "/" in key}
    assert types - {"provider"} <= set(FaultType)


def text_of(key: str, locale: str = "en") -> str:
    return TEXTS[locale][key].format(provider=TEXTS[locale]["provider"])


def test_a_code_without_a_text_of_its_own_has_the_text_of_its_type() -> None:
    known = protocol_fault("m", code="incomplete_tool_call")
    other = protocol_fault("m", code="never_heard_of")
    assert describe(known) == text_of("protocol/incomplete_tool_call")
    assert describe(other) == text_of("protocol")
    assert describe(other, "zh") == text_of("protocol", "zh")


@table(
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


# --- Accept-Language ------------------------------------------------------------------------------


@table(
    ("header", "default", "locale"),
    [
        ("zh", "en", "zh"),
        ("zh-CN", "en", "zh"),
        ("ZH-hant-TW", "en", "zh"),
        ("zh_CN", "en", "zh"),
        ("en-US", "zh", "en"),
        ("fr, zh;q=0.5, en;q=0.8", "xx", "en"),
        ("fr-CH, fr;q=0.9", "zh-CN", "zh-CN"),
        ("en;q=0.5,zh;q=0.5", "xx", "en"),
        ("en ; q = 0.1 , zh ; q=1.000", "xx", "zh"),
        ("*", "zh", "zh"),
        ("fr, *;q=0.1", "zh", "zh"),
        ("zh;q=0, *", "zh", "en"),
        ("en;q=0, *", "en", "zh"),
        ("zh-CN;q=0", "en", "en"),
        ("zh;q=0", "xx", "xx"),
        ("*;q=0", "zh", "zh"),
        ("", "zh", "zh"),
        (" , ,", "zh", "zh"),
        ("zh;q=2, en;q=0.1", "xx", "en"),
        ("zh;q=nan, en;q=0.1", "xx", "en"),
        ("zh;q=-1", "en", "en"),
        ("zh;level=1", "en", "en"),
        ("../zh", "en", "en"),
        ("zh\r\nx: y", "en", "en"),
    ],
)
def test_accept_language_selects_an_available_locale_or_the_default(
    header: str, default: str, locale: str
) -> None:
    assert negotiate_locale(header, default) == locale


@table(
    ("header", "locale"),
    [("fr-CA, zh;q=0.8", "fr"), ("de, zh;q=0.8", "zh"), ("fr;q=0, en", "en"), ("*", "xx")],
)
def test_a_locale_of_a_plug_in_is_available_too(header: str, locale: str) -> None:
    assert negotiate_locale(header, "xx", frozenset({"fr"})) == locale


@given(st.text(), st.sampled_from(["en", "zh", "zh-CN"]))
def test_any_accept_language_gives_an_available_locale_or_the_default(
    header: str, default: str
) -> None:
    assert negotiate_locale(header, default) in {*TEXTS, default}


def test_the_fallback_is_taken_key_by_key() -> None:
    texts = {
        "en": {
            "timeout": "en",
            "timeout/idle_timeout": "en idle",
            "connection": "en connection",
            "provider": "p",
        },
        "xx": {"timeout": "xx", "timeout/idle_timeout": "xx idle"},
        "xx-yy": {"timeout": "xx-yy"},
    }
    assert describe(timeout_fault("total"), "xx-YY", texts=texts) == "xx-yy"
    assert describe(timeout_fault("idle"), "xx-YY", texts=texts) == "xx idle"
    assert describe(connection_fault("m"), "xx-YY", texts=texts) == "en connection"


@table("locale", LOCALES)
@table(
    ("delay_s", "shown"), [(12.0, "12"), (1.2, "1.2"), (0.01, "0.1"), (0.0, "0"), (3600.0, "3600")]
)
def test_codex_finds_the_delay_of_a_rate_limit_in_every_locale(
    locale: str, delay_s: float, shown: str
) -> None:
    fault = replace(classify(429, {}, b""), retry_after_s=delay_s)
    found = CODEX_DELAY.search(describe(fault, locale))
    assert found is not None
    assert found.groups() == (shown, "s")


def test_the_english_text_of_a_rate_limit_reads_well() -> None:
    text = describe(classify(429, {"retry-after": "12"}, b""))
    assert text == (
        "The provider's rate limit was reached. Send fewer requests, or add another key."
        " Please try again in 12 s. (HTTP 429)"
    )


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        (
            "en",
            "deepseek's rate limit was reached. Send fewer requests, or add another key."
            " Please try again in 12 s. (HTTP 429)",
        ),
        (
            "zh-CN",
            "deepseek 的速率限制已达到，请降低请求频率或增加其他密钥。"
            "请在 12 秒后重试 (try again in 12 s)。（HTTP 429）",
        ),
    ],
)
def test_the_provider_is_named_where_it_is_known(locale: str, text: str) -> None:
    fault = classify(429, {"retry-after": "12"}, b"")
    assert describe(fault, locale, provider="deepseek") == text


def test_a_provider_may_have_any_name() -> None:
    assert describe(classify(401, {}, b""), provider="{0} {key}").startswith("{0} {key} rejected")


def test_a_cut_stream_says_how_far_it_had_come() -> None:
    fault = cut_fault("connection reset (errno 104)", StreamProgress(chunks=13, seconds=2.34))
    assert describe(fault, provider="Acme") == (
        "Acme closed the connection before its response was complete. Send the request again."
        " (After 2.3 s, 13 of its chunks had arrived.)"
    )
    assert fault.message == "connection reset (errno 104), after 13 chunks in 2.3 s"
    assert "after 1 chunk in 0.0 s" in cut_fault("reset", StreamProgress(1, 0.0)).message


def test_a_fault_that_is_not_retryable_shows_no_delay() -> None:
    fault = classify(402, {"retry-after": "12"}, b"")
    assert fault.retry_after_s == 12.0
    assert "try again in" not in describe(fault)


def test_a_reason_for_blocking_is_shown_only_if_it_is_a_known_enum_value() -> None:
    assert describe(blocked_fault("SAFETY")).endswith("Reason: SAFETY.")
    assert describe(blocked_fault("SAFETY"), "zh").endswith("原因：SAFETY。")
    assert "sk_live_abc" not in describe(blocked_fault("sk_live_abc"))


# --- canaries -------------------------------------------------------------------------------------

KEY = "sk-proj-CANARY0123456789abcdefghij"
URL = "https://canary.example.com/v1?key=CANARY"
SECRET = "CANARY upstream text"


@table("locale", LOCALES)
@table("status", [None, 200, 302, 400, 401, 402, 403, 404, 418, 429, 500, 503, 529])
@table("canary", [KEY, URL, SECRET, "CANARY_CODE", "sk_CANARY"])
def test_no_upstream_text_is_ever_shown(locale: str, status: int | None, canary: str) -> None:
    error = dict.fromkeys(["message", "type", "code", "param", "status", "reason"], canary)
    body = json.dumps({"error": error, "request_id": canary, "detail": canary}).encode()
    fault = classify(status, {"x-request-id": canary, "x-amzn-errortype": canary}, body)
    assert "CANARY" in fault.message
    assert "CANARY" in fault.original
    assert "CANARY" not in describe(fault, locale)


@pytest.mark.parametrize("locale", LOCALES)
def test_no_internal_message_is_ever_shown(locale: str) -> None:
    faults = [
        protocol_fault(SECRET, code="CANARY"),
        connection_fault(URL),
        internal_fault(ValueError(KEY)),
        blocked_fault(KEY),
        blocked_fault("CANARY"),
    ]
    assert not [fault for fault in faults if "CANARY" in describe(fault, locale)]


@given(st.text(min_size=4), st.integers(400, 599), st.sampled_from(LOCALES))
def test_a_description_depends_on_the_kind_and_not_on_the_message(
    message: str, status: int, locale: str
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    fault = classify(status, {}, body)
    bare = replace(protocol_fault(""), type=fault.type, code=fault.code, retryable=fault.retryable)
    bare = replace(bare, status=status, retry_after_s=fault.retry_after_s)
    assert describe(fault, locale) == describe(bare, locale)
