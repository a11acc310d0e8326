"""Error responses: status, headers and the API's error object."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from antiphon.core.client_profile import OTHER, PROFILES, Profile
from antiphon.core.faults.fault import (
    FaultType,
    ProviderFault,
    connection_fault,
    shutdown_fault,
    timeout_fault,
)
from antiphon.dialects.client_dialect import Problem
from antiphon.dialects.responses.client import RESPONSES
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest, LimitExceeded, StoreUnavailable, UpstreamError
from antiphon.server.errors import (
    body_timeout,
    describe_error,
    error_response,
    method_not_allowed,
    no_route,
)
from antiphon.server.http import HTTPRequest, HTTPResponse
from tests.support.applications import error_of
from tests.support.tables import table

CODEX = PROFILES["codex"]
HTTP = HTTPRequest.with_body("PUT", "/v1/x", {})


def fault(**changes: Any) -> ProviderFault:
    return structs.replace(connection_fault("reset"), **changes)


def reply(error: Exception, profile: Profile = OTHER) -> HTTPResponse:
    """What a client of Responses gets for an error."""
    problem = describe_error(error, Caller("me", "req_1", profile))
    return error_response(problem, RESPONSES)


def reply_to_fault(given: ProviderFault, profile: Profile = OTHER) -> HTTPResponse:
    return reply(UpstreamError(given, "As described."), profile)


def test_an_error_has_all_four_keys() -> None:
    response = error_response(Problem(status=400, message="No.", param="input"), RESPONSES)
    assert error_of(response) == {
        "message": "No.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }
    assert response.headers == {"content-type": "application/json"}


def test_an_invalid_request_keeps_its_status_code_and_parameter() -> None:
    error = InvalidRequest("Bad.", param="tools", code="invalid_value", status=422, kind="other")
    response = reply(error)
    assert response.status == 422
    assert error_of(response) == {
        "message": "Bad.",
        "type": "other",
        "param": "tools",
        "code": "invalid_value",
    }


def test_an_unknown_path_is_named() -> None:
    response = reply(no_route(HTTP))
    assert response.status == 404
    assert error_of(response)["message"].startswith("No route for PUT /v1/x. This gateway serves")


def test_a_wrong_method_is_answered_with_the_allowed_ones() -> None:
    response = reply(method_not_allowed(HTTP, ["POST", "GET"]))
    assert (response.status, response.headers["allow"]) == (405, "GET, POST")
    assert error_of(response)["message"] == "PUT is not allowed for /v1/x; use GET, POST."


def test_a_body_that_is_too_slow_is_a_408_that_names_the_setting() -> None:
    response = reply(body_timeout(30.0))
    assert (response.status, error_of(response)["code"]) == (408, "request_timeout")
    assert "30 seconds" in error_of(response)["message"]
    assert "`body_timeout_s`" in error_of(response)["message"]


def test_a_database_that_is_away_is_no_defect_of_the_gateway() -> None:
    response = reply(StoreUnavailable("postgresql://10.0.0.7/antiphon: no response within 5 s."))
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert isinstance(response.body, bytes)
    assert b'"code":"store_unavailable"' in response.body
    assert b"10.0.0.7" not in response.body


def test_an_internal_error_does_not_reveal_its_cause() -> None:
    response = reply(OSError("/home/me/turns.db"))
    assert response.status == 500
    assert error_of(response)["code"] == "server_error"
    assert b"turns.db" not in (response.body if isinstance(response.body, bytes) else b"")


def test_a_limit_has_its_headers_and_is_final_for_a_client_that_would_retry() -> None:
    headers = {"retry-after": "9"}
    for permanent, status in ((False, 429), (True, 400)):
        error = LimitExceeded("Enough.", code="c", kind="k", headers=headers, permanent=permanent)
        response = reply(error, CODEX)
        assert (response.status, response.headers["retry-after"]) == (status, "9")
        assert reply(error).status == 429


@table(
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
    response = reply_to_fault(given)
    error = error_of(response)
    assert response.status == given.http_status
    assert (error["type"], error["code"], error["param"]) == (kind, code, param)


def test_a_delay_is_sent_in_whole_seconds_and_in_milliseconds() -> None:
    headers = reply_to_fault(fault(retry_after_s=0.25)).headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "250")
    assert "retry-after" not in reply_to_fault(fault()).headers


def test_the_description_of_a_fault_is_the_message() -> None:
    response = reply(UpstreamError(timeout_fault("total"), "Nothing arrived in time."))
    assert error_of(response)["message"] == "Nothing arrived in time."


def test_a_permanent_error_is_a_400_for_clients_that_retry_everything_else() -> None:
    response = reply(InvalidRequest("No.", status=404), CODEX)
    assert response.status == 400
    assert "404" in response.headers["antiphon-diagnostics"]


@table(("status", "profile"), [(404, OTHER), (429, CODEX), (503, CODEX)])
def test_other_statuses_and_clients_are_left_alone(status: int, profile: Profile) -> None:
    response = reply(InvalidRequest("No.", status=status), profile)
    assert response.status == status
    assert "antiphon-diagnostics" not in response.headers


def test_a_fault_that_a_retry_cannot_fix_is_permanent_though_its_status_is_not() -> None:
    rejected = fault(type=FaultType.auth, code="invalid_api_key", http_status=502)
    assert reply_to_fault(rejected, CODEX).status == 400
    assert reply_to_fault(shutdown_fault(), CODEX).status == 503


@table(
    ("path", "advice"),
    [
        ("/v1/embeddings", "This gateway serves no embeddings"),
        ("/v1/completions", "send `messages`"),
        ("/api/chat", "This is a path of Ollama."),
        ("/v1beta/models/gemini-3:streamGenerateContent", "This is a path of Gemini's API."),
        (
            "/v2/responses",
            "Set the base URL of an OpenAI client to this gateway's address with /",
        ),
    ],
)
def test_a_wrong_path_is_answered_with_what_is_served_and_how_to_use_it(
    path: str, advice: str
) -> None:
    http = HTTPRequest.with_body("POST", path, {}, b"", "127.0.0.1", "")
    assert advice in error_of(reply(no_route(http)))["message"]
