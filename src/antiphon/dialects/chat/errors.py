"""Errors of Chat Completions, with the words and the types by which its clients act.

Agents compact a thread by the words of a message: LiteLLM knows `This model's maximum context
length is`, Continue `maximum context length`, pi a number behind it or `reduce the length of the
messages`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import structs

from antiphon.core.faults.kinds import FaultKind
from antiphon.core.response import Response, ResponseError
from antiphon.dialects import openai_error
from antiphon.dialects.client_dialect import ErrorReply, Problem
from antiphon.dialects.overflow import read_overflow

_TOO_LONG = "context_length_exceeded"
_FAILED: Mapping[str, tuple[int, str]] = {
    "rate_limit_exceeded": (429, "rate_limit_error"),
    "insufficient_quota": (429, "insufficient_quota"),
    _TOO_LONG: (400, "invalid_request_error"),
    "invalid_prompt": (400, "invalid_request_error"),
    "server_is_overloaded": (503, "server_error"),
    "slow_down": (503, "server_error"),
}
"""Codes of a failed response → status and type: those of the same fault before any output."""
_OTHER_FAILURE = (502, "server_error")
_UNEXPLAINED = ResponseError("server_error", "The response failed.")


def render_error(problem: Problem) -> ErrorReply:
    """Render an error before the first byte."""
    fault = problem.fault
    if fault is not None and fault.code == FaultKind.CONTEXT_LENGTH:
        message = _describe_overflow(fault.message, problem.message)
        problem = structs.replace(problem, message=message)
    return openai_error.render_error(problem)


def render_failure(response: Response) -> ErrorReply:
    """Render the error in place of a whole message that has failed."""
    error = _read_error(response)
    status, kind = _FAILED.get(error.code, _OTHER_FAILURE)
    return openai_error.render_error(
        Problem(
            status=status,
            message=error.message,
            kind=kind,
            code=error.code,
            is_permanent=status == 400,
        )
    )


def stream_error(response: Response) -> bytes:
    """Render a failure after the first byte; nothing may follow it."""
    error = _read_error(response)
    _, kind = _FAILED.get(error.code, _OTHER_FAILURE)
    fields = {"message": error.message, "type": kind, "param": None, "code": error.code}
    return b"data: %b\n\n" % msgspec.json.encode({"error": fields})


def _read_error(response: Response) -> ResponseError:
    error = response.error or _UNEXPLAINED
    if error.code != _TOO_LONG:
        return error
    return structs.replace(error, message=_describe_overflow("", error.message))


def _describe_overflow(reported: str, description: str) -> str:
    """Say that a context is too long: with the numbers of the provider, if it has named them."""
    found = read_overflow(reported)
    if found is None:
        return (
            "This model's maximum context length is exceeded: please reduce the length of the"
            f" messages. {description}"
        )
    return (
        f"This model's maximum context length is {found.most} tokens. However, your messages"
        f" resulted in {found.sent} tokens. Please reduce the length of the messages."
    )
