"""Errors of Messages, with the types, statuses and words that make its clients act.

Claude Code compacts a conversation by the words `prompt is too long`, and repeats a request up to
ten times unless `x-should-retry` says that this is in vain. A provider's refused key is no 401: the
client would ask its user to sign in.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from antiphon.core.faults.fault import ProviderFault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.response import Response, ResponseError
from antiphon.dialects.anthropic.message_ids import MESSAGE_PREFIX, RESPONSE_PREFIX
from antiphon.dialects.client_dialect import ErrorReply, Problem, whole_seconds
from antiphon.dialects.overflow import read_overflow

_K = FaultKind
_FAULTS: Mapping[str, tuple[int, str]] = {
    **dict.fromkeys((_K.AUTH, _K.PERMISSION, _K.REDIRECTED), (502, "api_error")),
    **dict.fromkeys((_K.MODEL, _K.NOT_FOUND), (404, "not_found_error")),
    _K.CONTEXT_LENGTH: (400, "invalid_request_error"),
    _K.RATE_LIMIT: (429, "rate_limit_error"),
    **dict.fromkeys((_K.BILLING, _K.MODEL_QUOTA), (402, "billing_error")),
    **dict.fromkeys(
        (_K.OVERLOADED, _K.SHUTDOWN, _K.OUT_OF_FILES, _K.OUT_OF_THREADS),
        (529, "overloaded_error"),
    ),
    **dict.fromkeys(
        (
            _K.CONNECT_TIMEOUT,
            _K.FIRST_TOKEN_TIMEOUT,
            _K.IDLE_TIMEOUT,
            _K.TOTAL_TIMEOUT,
            _K.UPSTREAM_TIMEOUT,
        ),
        (504, "timeout_error"),
    ),
    _K.INTERNAL: (500, "api_error"),
    **dict.fromkeys((_K.SERVER_ERROR, _K.BAD_GATEWAY), (502, "api_error")),
}
"""Status and type of the faults that have their own; the others follow from their status."""
_STATUSES: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    501: "not_supported",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OVERLOADED = 529
_FINAL_STATUSES = frozenset({401, 403, 501})
THREAD_UNSUPPORTED = "thread_unsupported_request"
_THREAD_CODES: Mapping[str, str] = {
    "previous_response_not_found": "thread_not_found",
    "previous_response_not_finished": "thread_continue_in_flight",
    THREAD_UNSUPPORTED: THREAD_UNSUPPORTED,
}
"""Codes of stored responses → codes of threads, by which the tool runners of the SDKs go on."""
_CODES: Mapping[str, str] = {
    "rate_limit_exceeded": "rate_limit_error",
    "insufficient_quota": "billing_error",
    "context_length_exceeded": "invalid_request_error",
    "invalid_prompt": "invalid_request_error",
    "server_is_overloaded": "overloaded_error",
    "slow_down": "overloaded_error",
}
"""Codes of a failed response → types."""
_FAILED_STATUSES: Mapping[str, int] = {
    "rate_limit_error": 429,
    "billing_error": 402,
    "invalid_request_error": 400,
    "overloaded_error": _OVERLOADED,
    "api_error": 502,
}

TOO_LONG = "prompt is too long"


def render_error(problem: Problem) -> ErrorReply:
    """Render an error before the first byte."""
    status, kind = _classify(problem)
    error: dict[str, object] = {"type": kind, "message": _message(problem)}
    if (code := _THREAD_CODES.get(problem.code or "")) is not None:
        error["details"] = {"error_code": code}
    headers = {"content-type": "application/json", **problem.headers}
    if problem.retry_after_s is not None:
        headers["retry-after"] = whole_seconds(problem.retry_after_s)
    if problem.is_permanent or status in _FINAL_STATUSES:
        headers["x-should-retry"] = "false"
    return ErrorReply(status, _body(error, problem.request_id), headers)


def _classify(problem: Problem) -> tuple[int, str]:
    if problem.fault is not None and problem.fault.code in _FAULTS:
        return _FAULTS[problem.fault.code]
    status = _OVERLOADED if problem.status == 503 else problem.status
    if status == 429 and problem.is_permanent:  # a cap of the client's own key
        return status, "billing_error"
    default = "invalid_request_error" if status < 500 else "api_error"
    return status, _STATUSES.get(status, default)


def _message(problem: Problem) -> str:
    fault = problem.fault
    if problem.code in _THREAD_CODES:
        return problem.message.replace(
            f"'{RESPONSE_PREFIX}", f"'{MESSAGE_PREFIX}"
        )  # the id as the client has it
    if fault is None or fault.code != FaultKind.CONTEXT_LENGTH:
        return problem.message
    return _too_long(fault, problem.message)


def _too_long(fault: ProviderFault, message: str) -> str:
    """`prompt is too long: 210000 tokens > 200000 maximum`, if the provider has named numbers."""
    found = read_overflow(fault.message)
    if found is None:
        return f"{TOO_LONG}: {message}"
    return f"{TOO_LONG}: {found.sent} tokens > {found.most} maximum"


def stream_error(code: str, message: str) -> bytes:
    """Render a failure after the first byte; nothing may follow it."""
    return b"event: error\ndata: %b\n\n" % _body(_failure(code, message))


def render_failure(response: Response) -> ErrorReply:
    """Render the error in place of a whole message that has failed."""
    error = response.error or ResponseError("server_error", "The response has failed.")
    failure = _failure(error.code, error.message)
    status = _FAILED_STATUSES[failure["type"]]
    return ErrorReply(status, _body(failure), {"content-type": "application/json"})


def _failure(code: str, message: str) -> dict[str, str]:
    is_too_long = code == "context_length_exceeded"
    words = f"{TOO_LONG}: {message}" if is_too_long else message
    return {"type": _CODES.get(code, "api_error"), "message": words}


def _body(error: Mapping[str, object], request_id: str = "") -> bytes:
    about = {"request_id": request_id} if request_id else {}
    return msgspec.json.encode({"type": "error", "error": error, **about})
