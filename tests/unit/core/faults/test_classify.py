"""Error classification: statuses, passed-through codes, and complete faults for any input."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import ERROR_CODES, FaultType, ProviderFault, Scope, is_permanent
from tests.support.tables import table


def answer(status: int | None, document: object = None, **headers: str) -> ProviderFault:
    body = b"" if document is None else json.dumps(document).encode()
    return classify(status, {name.replace("_", "-"): v for name, v in headers.items()}, body)


def coded(status: int | None, code: object) -> ProviderFault:
    return answer(status, {"error": {"message": "no", "code": code}})


@table(
    ("status", "code"),
    [
        (400, "invalid_request"),
        (401, "invalid_api_key"),
        (402, "insufficient_quota"),
        (403, "permission_denied"),
        (404, "not_found"),
        (408, "upstream_timeout"),
        (409, "409"),
        (413, "context_length_exceeded"),
        (302, "redirected"),
        (424, "server_error"),
        (429, "rate_limit_exceeded"),
        (451, "content_filter"),
        (499, "server_error"),
        (500, "server_error"),
        (502, "bad_gateway"),
        (503, "overloaded"),
        (504, "upstream_timeout"),
        (524, "upstream_timeout"),
        (529, "overloaded"),
        (599, "server_error"),
        (200, "unknown"),
        (600, "unknown"),
        (-1, "unknown"),
        (0, "unknown"),
    ],
)
def test_a_status_alone_is_enough(status: int, code: str) -> None:
    assert answer(status).code == code


@table(
    ("code", "kind", "public"),
    [
        ("invalid_image_url", "invalid_request", "invalid_image_url"),
        ("image_content_policy_violation", "content_blocked", "image_content_policy_violation"),
        ("cyber_policy", "content_blocked", "cyber_policy"),
        ("vector_store_timeout", "timeout", "vector_store_timeout"),
        ("data_residency_mismatch", "invalid_request", "data_residency_mismatch"),
        ("server_is_overloaded", "provider_overloaded", "server_error"),
        ("slow_down", "provider_overloaded", "server_error"),
        ("usage_not_included", "billing", "insufficient_quota"),
        ("server_error", "api_error", "server_error"),
        ("invalid_prompt", "invalid_request", "invalid_prompt"),
        ("E_NEW", "unknown", "server_error"),
    ],
)
def test_a_more_exact_code_of_the_api_is_passed_through(code: str, kind: str, public: str) -> None:
    fault = coded(None, code)
    assert (fault.type, fault.public_code) == (kind, public)


def test_a_failure_that_another_gateway_reports_as_503_is_no_overload() -> None:
    assert coded(503, "server_error").code == "server_error"
    assert coded(503, "server_is_overloaded").code == "overloaded"
    assert answer(503, {"error": {"type": "server_error", "message": "no"}}).code == "overloaded"


def test_a_server_may_say_that_a_retry_is_in_vain() -> None:
    said = answer(502, {"error": {"message": "no"}}, x_should_retry="false")
    silent = answer(502, {"error": {"message": "no"}})
    assert (said.code, said.retryable, is_permanent(said)) == ("bad_gateway", False, True)
    assert (silent.code, silent.retryable, is_permanent(silent)) == ("bad_gateway", True, False)


# --- totality -------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    "error errors message msg code type status status_code detail details metadata raw param loc "
    "response delta choices base_resp retryDelay reason request_id object".split()
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["429", "1113", "error", "insufficient_quota", "try again in 5s", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(), inner, max_size=5)
    ),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(KEYS | st.text(max_size=5), JSON, max_size=6)
HEADERS = st.dictionaries(
    st.sampled_from(["Retry-After", "retry-after-ms", "x-amzn-errortype"]) | st.text(max_size=8),
    st.text(max_size=30) | st.just("Wed, 21 Oct 2015 07:28:00 GMT"),
    max_size=4,
)
BODIES = st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode())


def assert_complete(fault: ProviderFault) -> None:
    assert isinstance(fault.type, FaultType)
    assert isinstance(fault.scope, Scope)
    assert isinstance(fault.retryable, bool)
    assert fault.code
    assert all(char.isascii() and (char.isalnum() or char == "_") for char in fault.code)
    assert fault.public_code in ERROR_CODES
    assert 400 <= fault.http_status <= 599
    assert fault.retry_after_s is None or 0 <= fault.retry_after_s <= 1e7


@given(st.none() | st.integers(), HEADERS, BODIES, st.none() | st.floats(allow_nan=False))
def test_any_answer_gives_a_complete_fault(
    status: int | None, headers: dict[str, str], body: bytes, now: float | None
) -> None:
    fault = classify(status, headers, body, now=now)
    assert_complete(fault)
    assert len(fault.original) <= 4096


@given(DOCUMENTS, st.none() | st.integers())
def test_any_document_gives_a_complete_fault_or_none(
    document: dict[str, object], status: int | None
) -> None:
    fault = classify_document(document, status)
    if fault is not None:
        assert_complete(fault)
    assert fault is None or fault.status is None or 300 <= fault.status <= 599


@table("status", [400, 404, 429, 500, 503])
def test_an_error_without_a_body_has_a_message(status: int) -> None:
    assert classify(status, {}, b" ").message == f"HTTP {status}, without a body"


def test_a_500_without_more_words_is_an_error_of_the_api_and_not_an_overload() -> None:
    silent = classify(500, {}, b"")
    assert (silent.type, silent.code, silent.retryable) == ("api_error", "server_error", True)
    busy = classify(500, {}, b'{"error": {"message": "The server is overloaded"}}')
    assert busy.type == "provider_overloaded"
