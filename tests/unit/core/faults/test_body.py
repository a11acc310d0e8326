"""Error bodies: every shape, errors inside successful answers, and retry delays."""

from __future__ import annotations

import json
from collections.abc import Mapping

from antiphon.core.faults.body import holds_document
from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import ProviderFault, UpstreamDetails
from tests.support.tables import table


def answer(status: int | None, document: object = None, **headers: str) -> ProviderFault:
    body = b"" if document is None else json.dumps(document).encode()
    return classify(status, {name.replace("_", "-"): v for name, v in headers.items()}, body)


def saying(status: int | None, message: str) -> ProviderFault:
    return answer(status, {"error": {"message": message}})


def found(document: Mapping[str, object], status: int | None = None) -> ProviderFault:
    fault = classify_document(document, status)
    assert fault is not None
    return fault


# --- body shapes ----------------------------------------------------------------------------------

SHAPES: list[tuple[int | None, object, str]] = [
    # The envelope of Chat Completions, with the code as a word, a number, or digits.
    (429, {"error": {"message": "m", "type": "t", "param": None, "code": "x"}}, "rate_limit"),
    (None, {"error": {"message": "m", "code": 429}}, "rate_limit"),
    (None, {"error": {"message": "m", "code": "429"}}, "rate_limit"),
    (None, {"error": {"message": "m", "status_code": 429, "code": "x"}}, "rate_limit"),
    # Ollama, of its cloud
    (200, {"StatusCode": 429, "Status": "429 Too Many Requests", "error": "no"}, "rate_limit"),
    (200, {"StatusCode": 429, "error": "you've reached your usage limit"}, "billing"),
    (200, {"StatusCode": 502, "Status": "502 Bad Gateway", "error": "no"}, "provider_overloaded"),
    (None, {"error": {"message": "insufficient balance", "http_code": "429"}}, "billing"),
    (200, {"error": {"message": "m", "code": 502}}, "provider_overloaded"),
    # A router quotes the server behind it.
    (
        400,
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "{}"}}},
        "invalid_request",
    ),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "metadata": {"raw": "prompt is too long"},
            }
        },
        "context_length",
    ),
    (
        400,
        {"error": {"code": 400, "metadata": {"raw": '{"error":{"message":"prompt is too long"}}'}}},
        "context_length",
    ),
    (400, {"error": {"message": '{"error":{"status":"API_KEY_INVALID"}}'}}, "auth"),
    (
        400,
        {"message": '{"external_model_error":{"message":"prompt is too long"}}'},
        "context_length",
    ),
    (403, {"Message": "The API key is not valid."}, "auth"),
    # A text, a list, or nothing around it.
    (400, {"error": "prompt is too long"}, "context_length"),
    (400, {"code": "Some sentence", "error": "Incorrect API key provided."}, "auth"),
    (None, {"errors": [{"message": "too many requests", "code": 10000}]}, "rate_limit"),
    (None, {"errors": ["rate limit"]}, "rate_limit"),
    (None, {"message": "m", "code": "rate_limit_error", "type": "t"}, "rate_limit"),
    (
        400,
        {"object": "error", "message": "m", "type": "invalid_model", "code": "1500"},
        "model_error",
    ),
    (400, {"message": "too many tokens", "error_type": "x", "id": "1"}, "context_length"),
    (422, {"detail": "prompt is too long"}, "context_length"),
    (422, {"detail": [{"loc": ["body", "n"], "msg": "Field required"}]}, "invalid_request"),
    # Anthropic
    (None, {"type": "error", "error": {"type": "invalid_request_error"}}, "invalid_request"),
    (None, {"type": "error", "error": {"type": "authentication_error"}}, "auth"),
    (None, {"type": "error", "error": {"type": "billing_error"}}, "billing"),
    (None, {"type": "error", "error": {"type": "permission_error"}}, "permission"),
    (None, {"type": "error", "error": {"type": "not_found_error"}}, "api_error"),
    (None, {"type": "error", "error": {"type": "request_too_large"}}, "context_length"),
    (None, {"type": "error", "error": {"type": "rate_limit_error"}}, "rate_limit"),
    (None, {"type": "error", "error": {"type": "api_error"}}, "api_error"),
    (None, {"type": "error", "error": {"type": "timeout_error"}}, "timeout"),
    (None, {"type": "error", "error": {"type": "overloaded_error"}}, "provider_overloaded"),
    # Gemini, bare and in an array
    (None, {"error": {"code": 503, "status": "UNAVAILABLE"}}, "provider_overloaded"),
    (None, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], "rate_limit"),
    (None, {"error": {"code": 499, "status": "CANCELLED"}}, "api_error"),
    (
        400,
        {"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}, "junk", None]}},
        "auth",
    ),
    # The Responses API
    (None, {"type": "error", "code": "rate_limit_exceeded", "message": "m"}, "rate_limit"),
    (
        None,
        {"type": "response.failed", "response": {"error": {"code": "server_error"}}},
        "api_error",
    ),
    # Bedrock, Cohere, and an error inside a choice
    (None, {"message": "m", "originalStatusCode": 429, "originalMessage": "slow"}, "rate_limit"),
    (None, {"__type": "com.amazon#ThrottlingException", "message": "m"}, "rate_limit"),
    (None, {"type": "message-end", "delta": {"error": "internal error"}}, "api_error"),
    (None, {"choices": [{"error": {"code": 502}}, "junk"]}, "provider_overloaded"),
    # Bodies that say nothing
    (500, None, "api_error"),
    (400, 7, "invalid_request"),
    (400, {"error": {}}, "invalid_request"),
    (400, {"error": None}, "invalid_request"),
    (400, {"error": {"code": True, "type": ["x"], "message": 5}}, "invalid_request"),
]


@table(("status", "document", "expected"), SHAPES, ids=[str(shape[1])[:60] for shape in SHAPES])
def test_every_error_body_shape_is_read(
    status: int | None, document: object, expected: str
) -> None:
    assert answer(status, document).type == expected


@table(
    ("body", "expected"),
    [
        (b'data: {"error":{"message":"prompt is too long"}}', "context_length"),
        (b'event: error\ndata:{"error":{"message":"prompt is too long"}}\n\n', "context_length"),
        (b'\xef\xbb\xbf\r\n {"error":"prompt is too long"}', "context_length"),
        (b"prompt is too long", "context_length"),
        (b"data: prompt is too long", "context_length"),
        (b"<html><h1>prompt is too long</h1></html>", "invalid_request"),
        (b'{"error":{"message":"prompt is too long', "context_length"),
        (b"[" * 100_000, "invalid_request"),
        (b'{"error":' * 600 + b"1" + b"}" * 600, "invalid_request"),
        (b"\xff\xfe\x00", "invalid_request"),
        (b'{"error":{"code":' + b"9" * 5000 + b"}}", "invalid_request"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bodies_that_are_not_plain_json_are_read_as_far_as_possible(
    body: bytes, expected: str
) -> None:
    assert classify(400, {}, body).type == expected


def test_a_reason_in_the_param_field_is_read() -> None:
    error = {"code": "400", "message": "Param Incorrect", "param": "Unknown model mimo"}
    fault = answer(400, {"error": error})
    assert fault.type == "model_error"
    assert fault.upstream.param == "Unknown model mimo"


def test_the_providers_type_code_and_param_are_kept_for_the_log() -> None:
    error = {"message": "m", "type": "t", "code": "c", "param": "p"}
    fault = answer(400, {"error": error, "request_id": "r"})
    assert fault.upstream == UpstreamDetails(type="t", code="c", param="p", request_id="r")
    assert fault.message == "m"
    assert json.loads(fault.original) == {"error": error, "request_id": "r"}


def test_header_names_are_case_insensitive() -> None:
    fault = classify(
        None,
        {
            "X-Amzn-ErrorType": "ValidationException:http://internal.example/",
            "X-Request-Id": "req_1",
            "Retry-After": "3",
        },
        b'{"message":"m"}',
    )
    assert (fault.type, fault.retry_after_s) == ("invalid_request", 3.0)
    assert fault.upstream == UpstreamDetails(type="ValidationException", request_id="req_1")


def test_a_parameter_named_by_its_location_is_kept() -> None:
    fault = answer(422, {"detail": [{"loc": ["body", "tools", 0], "msg": "Field required"}]})
    assert (fault.upstream.param, fault.message) == ("body.tools.0", "Field required")


def test_the_fields_that_a_provider_calls_invalid_are_part_of_its_words() -> None:
    violations = [
        {"field": "contents[0].parts", "description": "must not be empty"},
        {"field": "tools[1]", "description": "tools[1] has no name"},
        {"description": "too many tools"},
        {"field": "x"},
    ]
    details = [
        {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
    ]
    error = {"code": 400, "message": "Invalid argument", "status": "INVALID_ARGUMENT"}
    fault = answer(400, {"error": {**error, "details": details}})
    assert fault.message.splitlines() == [
        "Invalid argument",
        "contents[0].parts: must not be empty",
        "tools[1] has no name",
        "too many tools",
    ]
    assert (fault.type, fault.upstream.param) == ("invalid_request", "contents[0].parts")


def test_the_message_and_the_original_are_bounded() -> None:
    body = json.dumps({"error": {"message": "x" * 9000, "code": "c" * 9000}}).encode()
    fault = classify(500, {}, body)
    assert len(fault.original) == len(fault.message) == 4096
    assert len(fault.upstream.code or "") == 200
    assert len(classify(500, {}, b"x" * 9000).message) == 4096
    assert len(found(json.loads(body)).original) == 4096


# --- errors inside healthy answers ----------------------------------------------------------------


@table(
    "document",
    [
        {},
        {"error": None, "choices": []},
        {"error": {}, "errors": []},
        {"choices": [{"delta": {"content": "an error"}, "finish_reason": "stop"}]},
        {"choices": [], "message": "all is well", "code": "x"},
        {"type": "response.created", "response": {"error": None, "metadata": {"error": "x"}}},
        {"type": "response.output_text.delta", "delta": "error"},
        {"type": "message_start", "message": {"id": "1", "content": []}},
        {"base_resp": {"status_code": 0, "status_msg": "success"}},
        {"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": False},
        {"code": 0, "message": "success"},
        {"code": 200, "msg": "success", "data": {}},
        {"message": "success", "data": {}},
        {"message": ""},
    ],
)
def test_a_document_without_an_error_gives_no_fault(document: Mapping[str, object]) -> None:
    assert classify_document(document) is None


@table(
    ("document", "kind"),
    [
        ({"error": "rate limit"}, "rate_limit"),
        ({"error": {"message": "m", "code": 402}}, "billing"),
        ({"errors": [{"message": "overloaded"}]}, "provider_overloaded"),
        ({"type": "error", "code": None, "message": "m"}, "unknown"),
        ({"object": "error", "message": "m", "code": 429}, "rate_limit"),
        ({"message": "overloaded"}, "provider_overloaded"),
        ({"detail": "rate limit"}, "rate_limit"),
        ({"detail": [{"msg": "rate limit"}]}, "rate_limit"),
        ({"msg": "m", "code": 500}, "api_error"),
        ({"message": "m", "error_type": "TOO_MANY_TOKENS", "id": "1"}, "context_length"),
        ({"choices": [{"error": {"code": 502, "message": "m"}}]}, "provider_overloaded"),
        ({"response": {"error": {"code": "insufficient_quota"}}}, "billing"),
        ({"delta": {"error": "rate limit"}}, "rate_limit"),
        ({"error": {"message": "m"}, "choices": [{"delta": {}}]}, "unknown"),
    ],
)
def test_an_error_inside_a_document_is_found(document: Mapping[str, object], kind: str) -> None:
    assert found(document).type == kind


def test_the_status_of_the_answer_counts_when_it_is_an_error() -> None:
    document = {"error": {"message": "m", "code": 500}}
    assert found(document, 429).type == "rate_limit"
    assert found(document, 200).type == "api_error"
    assert found(document).status == 500


def test_a_document_that_is_no_json_is_classified_all_the_same() -> None:
    fault = found({"error": "rate limit", "other": "\ud800"})
    assert (fault.type, fault.original) == ("rate_limit", "")
    assert "object" in found({"error": "rate limit", "other": object()}).original


# --- when to come back ----------------------------------------------------------------------------

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"  # 1445412480


@table(
    ("headers", "seconds"),
    [
        ({"retry-after": "30"}, 30.0),
        ({"RETRY-AFTER": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "99999999999"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": DATE}, None),
        ({}, None),
    ],
)
def test_a_header_gives_the_retry_delay(headers: Mapping[str, str], seconds: float | None) -> None:
    assert classify(429, headers, b"").retry_after_s == seconds


@table(
    ("date", "now", "seconds"),
    [
        (DATE, 1445412470.0, 10.0),
        (DATE, 1445412490.0, 0.0),
        (DATE, 0.0, 1e7),
        ("Thu, 29 Feb 2024 00:00:01 GMT", 1709164800.0, 1.0),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 0.0, 60.0),
        ("Wed, 21 Foo 2015 07:28:00 GMT", 1445412470.0, None),
        ("tomorrow", 1445412470.0, None),
    ],
)
def test_a_date_gives_the_retry_delay_when_the_time_is_known(
    date: str, now: float, seconds: float | None
) -> None:
    assert classify(503, {"Retry-After": date}, b"", now=now).retry_after_s == seconds


@table(
    ("message", "seconds"),
    [
        ("Please try again in 1.2s.", 1.2),
        ("Please try again in 500ms.", 0.5),
        ("try again in 20 seconds", 20.0),
        ("Please try again in 6m0s.", 360.0),
        ("Try again in 1h2m3s", 3723.0),
        ("Please retry after 2 minutes", 120.0),
        ("Please wait 3 s", 3.0),
        ("Weekly usage limit reached. Resets in 19hr", 68400.0),
        ("Your quota will reset after 4h28m20s.", 16100.0),
        ("It will reset at 2026-01-01 12:00:00", None),
        ("the connection was reset after 30 s", None),
        ("Too many requests in 60 seconds", None),
        ("try again in a while", None),
        ("try again in 12 messages", None),
        ("try again in 99999999999 s", None),
    ],
)
def test_a_sentence_gives_the_retry_delay(message: str, seconds: float | None) -> None:
    assert saying(429, message).retry_after_s == seconds


@table(
    ("delay", "seconds"),
    [("37s", 37.0), ("0.250s", 0.25), (20, 20.0), (True, None), (-1, None), (10**400, None)],
)
def test_a_field_gives_the_retry_delay(delay: object, seconds: float | None) -> None:
    assert answer(429, {"error": {"retryDelay": delay}}).retry_after_s == seconds
    assert answer(429, {"error": {"metadata": {"retry_after": delay}}}).retry_after_s == seconds
    assert answer(503, {"error": "loading", "estimated_time": delay}).retry_after_s == seconds
    spent = {"type": "usage_limit_reached", "plan_type": "plus", "resets_in_seconds": delay}
    assert answer(429, {"error": spent}).retry_after_s == seconds


@table(
    ("body", "expected"),
    [
        (b'\xef\xbb\xbf {"error": "x"}', True),
        (b'event: error\ndata: {"error": "x"}\n\n', True),
        (b"[]", True),
        (b'{"error": "x"', False),
        (b'x{"error": "x"}', False),
        (b"7", False),
        (b"", False),
    ],
)
def test_a_body_holds_a_document_or_text(body: bytes, expected: bool) -> None:
    assert holds_document(body) is expected
