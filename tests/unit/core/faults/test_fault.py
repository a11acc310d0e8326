"""Provider faults: the consequences of each kind, public codes, and the constructors."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import (
    ERROR_CODES,
    FaultType,
    ProviderFault,
    Scope,
    blocked_fault,
    cancelled_fault,
    connection_fault,
    cooldown_s,
    internal_fault,
    normalize_code,
    out_of_files_fault,
    protocol_fault,
    shutdown_fault,
    timeout_fault,
)
from tests.support.tables import table


def answer(status: int | None, document: object = None, **headers: str) -> ProviderFault:
    body = b"" if document is None else json.dumps(document).encode()
    return classify(status, {name.replace("_", "-"): v for name, v in headers.items()}, body)


def saying(status: int | None, message: str) -> ProviderFault:
    return answer(status, {"error": {"message": message}})


def coded(status: int | None, code: object) -> ProviderFault:
    return answer(status, {"error": {"message": "no", "code": code}})


# --- the table ------------------------------------------------------------------------------------

# kind, a fault of it → type, retryable, scope, error.code, HTTP status, cool-down
TABLE = [
    (connection_fault("refused"), "connection", True, "provider", "server_error", 502, 5.0),
    (answer(408), "timeout", True, "provider", "server_error", 504, None),
    (answer(504), "timeout", True, "provider", "server_error", 504, None),
    (timeout_fault("first_token"), "timeout", True, "provider", "server_error", 504, None),
    (timeout_fault("idle"), "timeout", True, "provider", "server_error", 504, None),
    (timeout_fault("connect"), "timeout", True, "provider", "server_error", 504, 5.0),
    (timeout_fault("total"), "timeout", False, "provider", "server_error", 504, None),
    (answer(429), "rate_limit", True, "key", "rate_limit_exceeded", 429, 60.0),
    (coded(None, "throttlingException"), "rate_limit", True, "key", "rate_limit_exceeded", 429, 60),
    (coded(None, "RESOURCE_EXHAUSTED"), "rate_limit", True, "key", "rate_limit_exceeded", 429, 60),
    (answer(402), "billing", False, "key", "insufficient_quota", 429, 3600.0),
    (saying(429, "Insufficient balance"), "billing", False, "key", "insufficient_quota", 429, 3600),
    (coded(None, "billing_error"), "billing", False, "key", "insufficient_quota", 429, 3600.0),
    (answer(401), "auth", False, "key", "server_error", 502, math.inf),
    (answer(403), "permission", False, "key", "server_error", 502, 300.0),
    (coded(404, "model_not_found"), "model_error", False, "model", "invalid_prompt", 404, 300.0),
    (saying(400, "Unknown model x"), "model_error", False, "model", "invalid_prompt", 404, 300.0),
    (answer(400), "invalid_request", False, "request", "invalid_prompt", 400, None),
    (answer(422), "invalid_request", False, "request", "invalid_prompt", 400, None),
    (
        saying(400, "maximum context length is 4096 tokens"),
        *("context_length", False, "request", "context_length_exceeded", 400, None),
    ),
    (answer(413), "context_length", False, "request", "context_length_exceeded", 400, None),
    (blocked_fault("SAFETY"), "content_blocked", False, "content", "invalid_prompt", 400, None),
    (
        coded(400, "content_filter"),
        "content_blocked",
        False,
        "content",
        "invalid_prompt",
        400,
        None,
    ),
    (answer(500), "api_error", True, "provider", "server_error", 503, 5.0),
    (answer(502), "provider_overloaded", True, "provider", "server_error", 503, 5.0),
    (answer(503), "provider_overloaded", True, "provider", "server_error", 503, 5.0),
    (answer(529), "provider_overloaded", True, "provider", "server_error", 503, 5.0),
    (coded(None, "UNAVAILABLE"), "provider_overloaded", True, "provider", "server_error", 503, 5.0),
    (
        coded(None, "modelStreamErrorException"),
        *("api_error", True, "provider", "server_error", 503, 5.0),
    ),
    (protocol_fault("bad JSON"), "protocol", True, "provider", "server_error", 502, None),
    (
        saying(400, "Invalid `signature` in `thinking` block"),
        *("invalid_request", True, "request", "server_error", 400, None),
    ),
    (cancelled_fault(), "cancelled", False, "client", "server_error", 499, None),
    # Beyond the table of the design.
    (answer(404), "api_error", False, "provider", "invalid_prompt", 404, None),
    (answer(307), "api_error", False, "provider", "invalid_prompt", 502, None),
    (answer(418), "api_error", False, "request", "invalid_prompt", 400, None),
    (coded(400, "tool_use_failed"), "api_error", True, "model", "server_error", 502, None),
    (internal_fault(KeyError("x")), "api_error", False, "request", "server_error", 500, None),
    (
        internal_fault(RuntimeError("can't start new thread")),
        *("api_error", True, "request", "server_error", 503, None),
    ),
    (out_of_files_fault("no file"), "api_error", True, "request", "server_error", 503, None),
    (shutdown_fault(), "api_error", True, "request", "server_error", 503, None),
    (answer(None), "unknown", False, "provider", "server_error", 502, None),
]


@table("row", TABLE, ids=[f"{n}-{row[0].code}" for n, row in enumerate(TABLE)])
def test_every_kind_has_its_consequences(row: tuple[Any, ...]) -> None:
    fault, *expected = row
    assert [
        fault.type,
        fault.retryable,
        fault.scope,
        fault.public_code,
        fault.http_status,
        cooldown_s(fault),
    ] == expected


def test_the_longer_of_two_cooldowns_counts() -> None:
    assert cooldown_s(answer(429, retry_after="5")) == 60.0
    assert cooldown_s(answer(429, retry_after="500")) == 500.0


# --- public codes ---------------------------------------------------------------------------------


def test_known_codes_pass_and_all_others_are_server_errors() -> None:
    assert normalize_code("invalid_image_url") == "invalid_image_url"
    assert normalize_code("cyber_policy") == "cyber_policy"
    assert normalize_code("E_NEW") == "server_error"
    assert normalize_code(None) == "server_error"


# --- constructors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["connect", "first_token", "idle", "total"])
def test_a_timeout_fault_names_its_timeout(
    kind: Literal["connect", "first_token", "idle", "total"],
) -> None:
    assert timeout_fault(kind).code == f"{kind}_timeout"


def test_a_protocol_fault_may_have_a_code_of_its_own() -> None:
    assert protocol_fault("m").code == "invalid_chunk"
    assert protocol_fault("m", code="incomplete_tool_call").code == "incomplete_tool_call"


def test_a_blocked_answer_keeps_the_providers_reason_if_it_is_shaped_like_a_code() -> None:
    assert blocked_fault("PROHIBITED_CONTENT").code == "PROHIBITED_CONTENT"
    assert blocked_fault("see https://example.com?key=sk-1").code == "content_filter"
    assert blocked_fault("").code == "content_filter"
    assert blocked_fault("x" * 65).code == "content_filter"


def test_an_internal_fault_names_its_exception() -> None:
    assert internal_fault(ValueError("odd")).message == "ValueError: odd"


def test_a_code_is_a_plain_string() -> None:
    assert type(protocol_fault("m").code) is str
    assert type(answer(500).code) is str


# --- totality -------------------------------------------------------------------------------------


def assert_complete(fault: ProviderFault) -> None:
    assert isinstance(fault.type, FaultType)
    assert isinstance(fault.scope, Scope)
    assert isinstance(fault.retryable, bool)
    assert fault.code
    assert all(char.isascii() and (char.isalnum() or char == "_") for char in fault.code)
    assert fault.public_code in ERROR_CODES
    assert 400 <= fault.http_status <= 599
    assert fault.retry_after_s is None or 0 <= fault.retry_after_s <= 1e7


@given(st.text())
def test_any_reason_and_any_protocol_code_give_a_complete_fault(code: str) -> None:
    blocked = blocked_fault(code)
    assert_complete(blocked)
    assert_complete(protocol_fault(code, code=code))
    assert not blocked.retryable


def test_an_internal_fault_has_the_places_of_its_traceback() -> None:
    try:
        raise KeyError("k")
    except KeyError as error:
        fault = internal_fault(error)
    assert fault.original.endswith("in test_an_internal_fault_has_the_places_of_its_traceback")
    assert internal_fault(KeyError("k")).original == ""
