"""Error responses: status, headers and the API's error object."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from antiphon.core.client_profile import OTHER, PROFILES
from antiphon.core.faults.fault import (
    FaultType,
    ProviderFault,
    connection_fault,
    shutdown_fault,
    timeout_fault,
)
from antiphon.errors import InvalidRequest, StoreUnavailable
from antiphon.server.errors import (
    adapt_status,
    body_timeout,
    error_response,
    fault_response,
    internal_error_response,
    invalid_request_response,
    method_not_allowed_response,
    no_route_response,
)
from antiphon.server.http import HTTPRequest, HTTPResponse
from tests.support.applications import error_of

CODEX = PROFILES["codex"]
HTTP = HTTPRequest.with_body("PUT", "/v1/x", {})


def fault(**changes: Any) -> ProviderFault:
    return structs.replace(connection_fault("reset"), **changes)


def test_an_error_has_all_four_keys() -> None:
    response = error_response(400, "No.", param="input", code="invalid_type")
    assert error_of(response) == {
        "message": "No.",
        "type": "invalid_request_error",
        "param": "input",
        "code": "invalid_type",
    }
    assert response.headers == {"content-type": "application/json"}


def test_an_invalid_request_keeps_its_status_code_and_parameter() -> None:
    error = InvalidRequest("Bad.", param="tools", code="invalid_value", status=422, kind="other")
    response = invalid_request_response(error)
    assert response.status == 422
    assert error_of(response) == {
        "message": "Bad.",
        "type": "other",
        "param": "tools",
        "code": "invalid_value",
    }


def test_an_unknown_path_is_named() -> None:
    response = no_route_response(HTTP)
    assert (response.status, error_of(response)["message"]) == (404, "No route for PUT /v1/x.")


def test_a_wrong_method_is_answered_with_the_allowed_ones() -> None:
    response = method_not_allowed_response(HTTP, ["POST", "GET"])
    assert (response.status, response.headers["allow"]) == (405, "GET, POST")
    assert error_of(response)["message"] == "PUT is not allowed for /v1/x; use GET, POST."


def test_a_body_that_is_too_slow_is_a_408_that_names_the_setting() -> None:
    response = invalid_request_response(body_timeout(30.0))
    assert (response.status, error_of(response)["code"]) == (408, "request_timeout")
    assert "30 seconds" in error_of(response)["message"]
    assert "`body_timeout_s`" in error_of(response)["message"]


def test_a_database_that_is_away_is_no_defect_of_the_gateway() -> None:
    error = StoreUnavailable("postgresql://10.0.0.7/antiphon: no answer within 5 s.")
    response = internal_error_response(error, "en")
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert isinstance(response.body, bytes)
    assert b'"code":"store_unavailable"' in response.body
    assert b"10.0.0.7" not in response.body


def test_an_internal_error_does_not_reveal_its_cause() -> None:
    response = internal_error_response(OSError("/home/me/turns.db"), "en")
    assert response.status == 500
    assert error_of(response)["code"] == "server_error"
    assert b"turns.db" not in (response.body if isinstance(response.body, bytes) else b"")


@pytest.mark.parametrize(
    ("given", "kind", "code", "param"),
    [
        (fault(), "server_error", "server_error", None),
        (
            fault(type=FaultType.rate_limit, http_status=429),
            "rate_limit_error",
            "rate_limit_exceeded",
            None,
        ),
        (
            fault(type=FaultType.billing, http_status=429),
            "insufficient_quota",
            "insufficient_quota",
            None,
        ),
        (
            fault(type=FaultType.model_error, http_status=404),
            "invalid_request_error",
            "model_not_found",
            "model",
        ),
        (
            fault(type=FaultType.context_length, http_status=400),
            "invalid_request_error",
            "context_length_exceeded",
            None,
        ),
        (
            fault(type=FaultType.provider_overloaded, code="overloaded", http_status=503),
            "server_error",
            "server_is_overloaded",
            None,
        ),
    ],
)
def test_a_fault_becomes_the_error_type_and_code_that_clients_know(
    given: ProviderFault, kind: str, code: str, param: str | None
) -> None:
    response = fault_response(given, OTHER, "en")
    error = error_of(response)
    assert response.status == given.http_status
    assert (error["type"], error["code"], error["param"]) == (kind, code, param)


def test_a_delay_is_sent_in_whole_seconds_and_in_milliseconds() -> None:
    headers = fault_response(fault(retry_after_s=0.25), OTHER, "en").headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "250")
    assert "retry-after" not in fault_response(fault(), OTHER, "en").headers


def test_the_description_of_a_fault_is_the_message() -> None:
    response = fault_response(timeout_fault("total"), OTHER, "Nothing arrived in time.")
    assert error_of(response)["message"] == "Nothing arrived in time."


def test_a_permanent_error_is_a_400_for_clients_that_retry_everything_else() -> None:
    response = HTTPResponse(404)
    adapt_status(response, CODEX)
    assert response.status == 400
    assert "404" in response.headers["antiphon-diagnostics"]


@pytest.mark.parametrize(("status", "profile"), [(404, OTHER), (429, CODEX), (200, CODEX)])
def test_other_statuses_and_clients_are_left_alone(status: int, profile: Any) -> None:
    response = HTTPResponse(status)
    adapt_status(response, profile)
    assert response == HTTPResponse(status)


def test_a_fault_that_a_retry_cannot_fix_is_permanent_though_its_status_is_not() -> None:
    rejected = fault(type=FaultType.auth, code="invalid_api_key", http_status=502)
    assert fault_response(rejected, CODEX, "en").status == 400
    assert fault_response(shutdown_fault(), CODEX, "en").status == 503
