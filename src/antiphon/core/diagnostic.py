"""Diagnostics: one record for each part of a request that is not served as it was sent.

Codes are stable: clients may match them. `docs/diagnostics.md` has a row for each, and a test
compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

HEADER_LIMIT = 1024
MAX_DIAGNOSTICS = 100
_MAX_SUBJECT = 80
_INDEX = re.compile(r"\[\d+\]|\.\d+\b")
"""An index in a path, in either notation: `tools[3].name`, `tools.3.name`."""


class Decision(StrEnum):
    """What was done with a part of the request."""

    SUPPORTED = "supported"
    DEGRADED = "degraded"
    IGNORED = "ignored"
    REJECTED = "rejected"


class Code(StrEnum):
    """Every diagnostic code except those of the history (`HistoryCode`)."""

    PARAM_IGNORED = "param.ignored"
    PARAM_DEGRADED = "param.degraded"
    PARAM_UNKNOWN = "param.unknown"
    PARAM_REFUSED = "param.refused"
    INCLUDE_IGNORED = "include.ignored"
    EFFORT_IGNORED = "effort.ignored"
    EFFORT_DEGRADED = "effort.degraded"
    FORMAT_DEGRADED = "format.degraded"
    FORMAT_IGNORED = "format.ignored"
    FORMAT_REPAIRED = "format.repaired"
    FORMAT_TRIMMED = "format.trimmed"
    FORMAT_COMMENTARY = "format.commentary"
    TOOL_IGNORED = "tool.ignored"
    TOOL_DEGRADED = "tool.degraded"
    TOOL_REDECLARED = "tool.redeclared"
    INPUT_UNWRAPPED = "tool.input.unwrapped"
    INPUT_CORRECTED = "tool.input.corrected"
    INPUT_INVALID = "tool.input.invalid"
    TOOL_CHOICE_DEGRADED = "tool_choice.degraded"
    CAPSULE_UNUSED = "capsule.unused"
    CALL_DROPPED = "call.dropped"
    CALL_DEGRADED = "call.degraded"
    CALL_INVALID = "call.invalid"
    CALL_STATE_LOST = "call.state_lost"
    ANSWER_REMINDED = "answer.reminded"
    ANSWER_EMPTY = "answer.empty"
    STATE_DROPPED = "state.dropped"
    OUTPUT_DROPPED = "output.dropped"
    USAGE_ESTIMATED = "usage.estimated"
    SEARCH_LIMITED = "search.limited"
    SEARCH_FAILED = "search.failed"
    MCP_LIMITED = "mcp.limited"
    MCP_RESULT_CUT = "mcp.result_cut"
    DIAGNOSTICS_OMITTED = "diagnostics.omitted"
    CONTEXT_NOT_COMPACTED = "context.not_compacted"
    CLIENT_REFUSAL_AS_TEXT = "client.refusal_as_text"
    CLIENT_ERROR_AS_400 = "client.error_as_400"
    CLIENT_KEEPALIVE = "client.keepalive"


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One decision. `code` is stable and dotted; `param` is a path in the request."""

    code: str
    decision: Decision
    param: str
    message: str
    subject: str = ""
    """A tool type, item type or field for the header; if empty, `param` without its indexes."""


def degraded(code: str, param: str, message: str, subject: str = "") -> Diagnostic:
    """Build a diagnostic for a part of the request that is served in a weaker way."""
    return Diagnostic(
        code=code, decision=Decision.DEGRADED, param=param, message=message, subject=subject
    )


def ignored(code: str, param: str, message: str, subject: str = "") -> Diagnostic:
    """Build a diagnostic for a part of the request that is not served."""
    return Diagnostic(
        code=code, decision=Decision.IGNORED, param=param, message=message, subject=subject
    )


def bound_diagnostics(found: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    """Return the first of too many diagnostics and the number of the others: clients may cause one
    with every item, and each is logged and kept."""
    more = len(found) - MAX_DIAGNOSTICS
    message = f"{more:,} more diagnostics are left out."
    omitted = ignored(Code.DIAGNOSTICS_OMITTED, "", message, f"{more}_more")
    return (*found[:MAX_DIAGNOSTICS], omitted)


def diagnostics_header(diagnostics: Iterable[Diagnostic]) -> str:
    """The value of the `antiphon-diagnostics` header: a count and codes, bounded and sanitized."""
    found = list(diagnostics)
    header = str(len(found))
    separator = "; codes="
    for label in dict.fromkeys(map(_label, found)):
        if len(header) + len(separator) + len(label) > HEADER_LIMIT:
            break
        header += separator + label
        separator = ","
    return header


def _label(diagnostic: Diagnostic) -> str:
    subject = diagnostic.subject or _INDEX.sub("", diagnostic.param)
    subject = subject[:_MAX_SUBJECT]
    # The client controls this text: nothing in it may end the value or the header.
    return f"{diagnostic.code}:{re.sub(r'[^A-Za-z0-9_.-]', '_', subject)}"
