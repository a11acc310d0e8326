"""Errors before the first byte, in the shape that Responses and Chat Completions share."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from antiphon.core.faults.fault import FaultType, ProviderFault
from antiphon.core.faults.kinds import FaultKind
from antiphon.dialects.client_dialect import ErrorReply, Problem, whole_seconds

_CODES_BY_TYPE: Mapping[FaultType, str] = {
    FaultType.model_error: "model_not_found",
    FaultType.context_length: "context_length_exceeded",
    FaultType.billing: "insufficient_quota",
    FaultType.rate_limit: "rate_limit_exceeded",
}
# Of the failures of a server, only an overload has a code of its own: with it, clients give up on
# the model, but they retry after every other one.
_CODES_BY_KIND: Mapping[str, str] = {
    FaultKind.OVERLOADED: "server_is_overloaded",
    FaultKind.MCP_LIST: "http_error",
}


def render_error(problem: Problem) -> ErrorReply:
    """Render a status, and a body with all four keys."""
    kind = problem.kind
    code = problem.code
    param = problem.param
    if (fault := problem.fault) is not None:
        kind = _fault_kind(fault)
        code = _CODES_BY_KIND.get(fault.code, fault.public_code)
        code = _CODES_BY_TYPE.get(fault.type, code)
        param = _fault_param(fault)
    error = {"message": problem.message, "type": kind, "param": param, "code": code}
    headers = {"content-type": "application/json", **problem.headers}
    if problem.retry_after_s is not None:
        headers["retry-after"] = whole_seconds(problem.retry_after_s)
        headers["retry-after-ms"] = str(round(problem.retry_after_s * 1000))
    if problem.is_permanent:  # SDKs repeat every 5xx otherwise
        headers["x-should-retry"] = "false"
    return ErrorReply(problem.status, msgspec.json.encode({"error": error}), headers)


def _fault_param(fault: ProviderFault) -> str | None:
    if fault.code == FaultKind.MCP_LIST:
        return "tools"
    return "model" if fault.type is FaultType.model_error else None


def _fault_kind(fault: ProviderFault) -> str:
    if fault.code == FaultKind.MCP_LIST:
        return "external_connector_error"
    if fault.type is FaultType.rate_limit:
        return "rate_limit_error"
    if fault.type is FaultType.billing:
        return "insufficient_quota"
    return "invalid_request_error" if fault.http_status < 500 else "server_error"
