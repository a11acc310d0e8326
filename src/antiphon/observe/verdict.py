"""Verdict on a traced request that failed or ended oddly: who caused it, the evidence, the remedy.

A pure function of the rows of the trace, and of the result if payloads are kept. The page and
`antiphon trace show` use the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.core.faults.kinds import FAULT_KINDS, FaultKind, FaultType
from antiphon.observe.result import Result, ToolCall
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import TraceAttempt, TraceError, TraceStream

Cause: TypeAlias = Literal["model", "provider", "client", "network", "gateway"]
_MAX_ATTEMPTS = 4  # in the evidence; the trace has all of them
_K = FaultKind
_T = FaultType


class Verdict(Struct, frozen=True, kw_only=True):
    """Who caused a failure or an odd end."""

    cause: Cause
    title: str
    """What happened, in one sentence."""
    evidence: Sequence[str] = ()
    """What the trace knows of it, one fact a line."""
    remedy: str
    other_model: bool = False
    """Whether the same request may succeed with another model."""


class _Row(Struct, frozen=True):
    cause: Cause
    title: str
    """With `{provider}` and `{model}`."""
    remedy: str
    other_model: bool = True


_CHECK_CODE = "Compare what was sent upstream with the words of the provider."
_AGAIN = "Send the request again, or try it on another model."
_FAULTS: Mapping[str, _Row] = {
    _T.rate_limit: _Row(
        "provider",
        "{provider} has reached its rate limit",
        "Wait, send fewer requests, or add another key or a fallback model.",
    ),
    _T.billing: _Row(
        "provider",
        "The account at {provider} has no credit left",
        "Top up the account, or use a key of another account.",
    ),
    FaultKind.MODEL_QUOTA: _Row(
        "provider",
        "The quota of the account at {provider} for {model} is used up",
        "Raise the quota at the provider, or use another model or a key of another account.",
    ),
    _T.auth: _Row(
        "provider",
        "{provider} rejected the API key",
        "Replace the key of [providers.{provider}], then reload the configuration.",
    ),
    _T.permission: _Row(
        "provider",
        "{provider} does not allow this key to use {model}",
        "Check the permissions of the account, or choose another model.",
    ),
    _T.provider_overloaded: _Row(
        "provider", "{provider} is overloaded or has an internal error", _AGAIN
    ),
    _K.SERVER_ERROR: _Row("provider", "{provider} has an internal error", _AGAIN),
    _T.timeout: _Row("provider", "{provider} took too long", _AGAIN),
    _K.CONNECT_TIMEOUT: _Row(
        "network",
        "{provider} could not be reached in time",
        "Check the network and `base_url` in [providers.{provider}].",
    ),
    _K.IDLE_TIMEOUT: _Row("provider", "{provider} stopped sending before the end", _AGAIN),
    _K.TOTAL_TIMEOUT: _Row(
        "gateway",
        "The response was not complete within the time that the gateway allows",
        "Request a shorter response, or raise `total_s` in [timeouts].",
    ),
    _T.connection: _Row(
        "network",
        "{provider} could not be reached, or the connection broke",
        "Check the network and `base_url` in [providers.{provider}], or send the request again.",
    ),
    _T.context_length: _Row(
        "client",
        "The conversation is too long for {model}",
        "Shorten or compact it, or choose a model with a larger context window.",
    ),
    _T.content_blocked: _Row(
        "provider",
        "The content filter of {provider} blocked the request or its response",
        "Change the wording, or try another provider.",
    ),
    _T.model_error: _Row(
        "client",
        "{provider} does not offer {model}",
        "Check the name with `antiphon models`, or choose another model.",
    ),
    _T.invalid_request: _Row("provider", "{provider} rejected the request as invalid", _CHECK_CODE),
    _T.api_error: _Row("provider", "{provider} refused the request", _CHECK_CODE),
    _K.NOT_FOUND: _Row(
        "gateway",
        "{provider} has no API at the configured address",
        "Check `base_url` in [providers.{provider}].",
    ),
    _K.REDIRECTED: _Row(
        "gateway",
        "{provider} responded with a redirect, which the gateway never follows",
        "Check `base_url` in [providers.{provider}].",
    ),
    _T.protocol: _Row("provider", "{provider} sent a response that cannot be parsed", _AGAIN),
    "incomplete_tool_call": _Row(
        "provider", "{provider} ended its response within a tool call", _AGAIN
    ),
    _K.TOOL_USE_FAILED: _Row(
        "model", "{model} wrote a tool call that {provider} could not parse", _AGAIN
    ),
    "invalid_tool_arguments": _Row(
        "model", "{model} called a strict tool with arguments that are not valid JSON", _AGAIN
    ),
    "invalid_output_format": _Row(
        "model",
        "The output of {model} does not match the requested format",
        "Send the request again, simplify the schema, or try another model.",
    ),
    _K.RESPONSE_TOO_LARGE: _Row(
        "gateway",
        "The response of {provider} is larger than [limits] allows",
        "Request a shorter response, or raise the limit in [limits].",
        other_model=False,
    ),
    _K.INTERNAL: _Row(
        "gateway",
        "A defect of the gateway",
        "Report it with the entry `gateway.bug` of the log.",
        other_model=False,
    ),
    _K.SHUTDOWN: _Row(
        "gateway", "The gateway was restarting", "Send the request again.", other_model=False
    ),
    _K.MCP_LIST: _Row(
        "client",
        "An MCP server of the request did not list its tools",
        "Check the address and the credentials of the server, and [mcp] of the gateway.",
        other_model=False,
    ),
    _K.OUT_OF_FILES: _Row(
        "gateway",
        "The gateway has reached its limit of open files",
        "Raise the limit (`ulimit -n`), then send the request again.",
        other_model=False,
    ),
    _K.OUT_OF_THREADS: _Row(
        "gateway",
        "The gateway has reached its limit of threads",
        "Raise the limit (`ulimit -u`), then send the request again.",
        other_model=False,
    ),
    _T.cancelled: _Row(
        "client", "The client disconnected before the end", "Send the request again.", False
    ),
    _T.unknown: _Row("provider", "{provider} reported an unknown error", _AGAIN),
}
"""By the code of a fault; codes without a row of their own have that of their type."""


def _reject(cause: Cause, title: str, remedy: str, *, other_model: bool = False) -> _Row:
    return _Row(cause, title, remedy, other_model)


_REJECTIONS: Mapping[str, _Row] = {
    "401": _reject(
        "client",
        "The client sent no key, or one that the gateway does not know",
        "Give the client a key of `api_keys` in [server], or make one on the page.",
    ),
    "403": _reject(
        "client",
        "The client may not do this",
        "Send the request from an address and to a host that [server] allows.",
    ),
    "404": _reject(
        "client",
        "The gateway has nothing at this address",
        "Compare the path and the base URL of the client with what the message says.",
    ),
    "413": _reject(
        "client", "The request is too large", "Send less, or raise the limit in [server]."
    ),
    "429": _reject(
        "client",
        "The client has reached one of its limits",
        "Wait, or raise the limit in [limits].",
    ),
    "model_not_found": _reject(
        "client",
        "No configured provider has the model {model}",
        "Use a name of `antiphon models`. If its provider is missing, set its API key.",
        other_model=True,
    ),
    "400": _reject(
        "client", "The request is invalid{field}", "Correct the request, then send it again."
    ),
    "500": _reject(
        "gateway", "The gateway could not serve the request", "Read the log of the gateway."
    ),
}
"""By the code of the error, or else by the HTTP status of the gateway."""


def explain(detail: TraceDetail, result: Result | None = None) -> Verdict | None:
    """Return the verdict on a request; None if it ended well, or has not ended."""
    status = None if detail.finish is None else detail.finish.status
    if status == "rejected":
        return _explain_rejection(detail)
    if status == "failed":
        return _explain_failure(detail)
    if status == "cancelled":
        return _make(_FAULTS[_T.cancelled], detail, [_count_events(detail)])
    if status == "incomplete":
        return _explain_incomplete(detail, result)
    if status == "completed" and result is not None:
        return _explain_output(detail, result)
    return None


def _explain_rejection(detail: TraceDetail) -> Verdict:
    status = (detail.finish and detail.finish.http_status) or 400
    error = _last_error(detail)
    row = _REJECTIONS.get(error.code if error else "")
    if row is None:
        row = _REJECTIONS.get(str(status)) or _REJECTIONS["500" if status >= 500 else "400"]
    evidence = [error.message] if error else []
    return _make(row, detail, [*evidence, f"The gateway responded with HTTP {status}."], error)


def _explain_failure(detail: TraceDetail) -> Verdict:
    error = _last_error(detail)
    if not detail.attempts and detail.skipped:
        return Verdict(
            cause="gateway",
            title="No provider was tried",
            evidence=[*_list_skipped(detail)],
            remedy="Wait until a key can be used again, or add a key or a fallback model.",
            other_model=True,
        )
    evidence = [*_list_attempts(detail), *_list_skipped(detail)]
    evidence += _list_words(error, evidence)
    row = _find_fault(detail, error)
    if _has_output(detail):
        evidence.append(_count_events(detail))
        if row is _FAULTS[_T.connection]:
            row = _Row(row.cause, "The connection to {provider} was cut within the stream", _AGAIN)
    return _make(row, detail, evidence, error)


def _find_fault(detail: TraceDetail, error: TraceError | None) -> _Row:
    """Find the row of the fault that the client was told; without it, that of the last attempt."""
    last = detail.attempts[-1] if detail.attempts else None
    code = error.code if error else (last.fault_code if last else None) or ""
    if code in _FAULTS:
        return _FAULTS[code]
    kind = FAULT_KINDS[code].type if code in FAULT_KINDS else last.fault_type if last else None
    return _FAULTS.get(kind or "", _FAULTS[_T.unknown])


def _explain_incomplete(detail: TraceDetail, result: Result | None) -> Verdict:
    word = detail.finish.finish_reason if detail.finish else None
    reason = (result and result.incomplete_reason) or word or ""
    evidence = [f"The model stopped with `{word}`."] if word else []
    if detail.usage:
        evidence.append(f"It wrote {detail.usage.output_tokens:,} tokens.")
    if "filter" in reason or "safety" in reason.lower():
        return _make(_FAULTS[_T.content_blocked], detail, evidence)
    return Verdict(
        cause="model",
        title=f"{_model(detail)} was cut off before the end of its response",
        evidence=evidence,
        remedy="Raise the limit of output tokens in the request, or ask for less.",
        other_model=True,
    )


def _explain_output(detail: TraceDetail, result: Result) -> Verdict | None:
    """Explain a response that ended well, but that its client cannot use."""
    wrong = [call for call in result.calls if call.check in ("invalid", "unknown_tool")]
    if wrong:
        return Verdict(
            cause="model",
            title=f"{_model(detail)} wrote a tool call that does not fit its tool",
            evidence=[_describe_call(call) for call in wrong],
            remedy="Try it on another model, make the tool `strict`, or simplify its schema.",
            other_model=True,
        )
    if result.status == "completed" and not any(map(_has_content, result.items)):
        return Verdict(
            cause="model",
            title=f"{_model(detail)} wrote nothing",
            evidence=["The response has neither text nor a tool call."],
            remedy=_AGAIN,
            other_model=True,
        )
    return None


def _has_content(item: Mapping[str, object]) -> bool:
    kind = item.get("type")
    return kind != "reasoning" and (kind != "message" or bool(item.get("content")))


def _describe_call(call: ToolCall) -> str:
    if call.check == "unknown_tool":
        return f"`{call.name}` is not among the tools of the request."
    return f"`{call.name}`: {'; '.join(call.problems)}"


# Evidence


def _make(
    row: _Row, detail: TraceDetail, evidence: Sequence[str], error: TraceError | None = None
) -> Verdict:
    field = f": `{error.param}`" if error and error.param else ""
    names = {"provider": _provider(detail), "model": _model(detail), "field": field}
    return Verdict(
        cause=row.cause,
        title=row.title.format_map(names),
        evidence=evidence,
        remedy=row.remedy.format_map(names),
        other_model=row.other_model,
    )


def _provider(detail: TraceDetail) -> str:
    error = _last_error(detail)
    found = (detail.finish and detail.finish.provider) or (error and error.provider)
    return found or (detail.request and detail.request.provider) or "The provider"


def _model(detail: TraceDetail) -> str:
    found = detail.finish and detail.finish.provider_model
    return found or (detail.request and detail.request.model) or "the model"


def _last_error(detail: TraceDetail) -> TraceError | None:
    return detail.errors[-1] if detail.errors else None


def _has_output(detail: TraceDetail) -> bool:
    return any(attempt.fault_type is None for attempt in detail.attempts)


def _list_attempts(detail: TraceDetail) -> Iterator[str]:
    failed = [attempt for attempt in detail.attempts if attempt.fault_type is not None]
    for attempt in failed[:_MAX_ATTEMPTS]:
        yield _describe_attempt(attempt)
    if len(failed) > _MAX_ATTEMPTS:
        yield f"{len(failed) - _MAX_ATTEMPTS} further attempts failed, too."


def _describe_attempt(attempt: TraceAttempt) -> str:
    status = f", HTTP {attempt.status}" if attempt.status else ""
    key = f", {attempt.key_name}" if attempt.key_name else ""
    code = attempt.fault_code or attempt.fault_type
    words = f": {attempt.reason}" if attempt.reason else "."
    name = f"{attempt.provider}/{attempt.model}"
    return f"Attempt {attempt.number}, {name}{key}: {code}{status}{words}"


def _list_skipped(detail: TraceDetail) -> Iterator[str]:
    for skip in detail.skipped:
        yield f"{skip.provider}/{skip.model} was not tried: {skip.reason}."


def _list_words(error: TraceError | None, known: Sequence[str]) -> list[str]:
    """The reason of a failure, unless an attempt has it already."""
    if error is None or not error.reason or any(error.reason in line for line in known):
        return []
    return [error.reason]


def _is_of_response(stream: TraceStream) -> bool:
    return stream.kind == "raw" and stream.attempt == 0 and stream.chunks > 0


def _count_events(detail: TraceDetail) -> str:
    finish = detail.finish
    after = f" within {finish.duration_ms:,} ms" if finish else ""
    raw = next((each for each in detail.streams if _is_of_response(each)), None)
    arrived = f"{raw.chunks:,} chunks of the provider had arrived, and " if raw else ""
    events = finish.events if finish else 0
    return f"{arrived}{events:,} events were sent to the client{after}."
