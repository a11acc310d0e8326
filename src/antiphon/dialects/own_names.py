"""Names of members of the canonical request, as a client's own format has them.

Plans, stores and limits know the canonical request alone, so their diagnostics and errors name its
members (`max_output_tokens`, `input[3]`). Before a client sees them, its format replaces these
names by those of what the client has sent (`ClientDialect.own_name`): where a diagnostic or an
error has its parameter, and between backticks in its text. Errors of a parser have its own names
already.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import structs

from antiphon.core.diagnostic import Diagnostic
from antiphon.dialects.client_dialect import Problem

OwnName: TypeAlias = Callable[[str], str]
"""Returns the name that a format has for a path of the canonical request."""

_QUOTED = re.compile(r"`([a-z_]+(?:\.[a-z_]+|\[\d+\])*)`")
_INCLUDE = "include"


def rename_problem(problem: Problem, own_name: OwnName) -> Problem:
    """Return an error with the names that its client knows."""
    return structs.replace(
        problem,
        message=_rename_quoted(problem.message, own_name),
        param=None if problem.param is None else own_name(problem.param),
    )


def rename_diagnostic(diagnostic: Diagnostic, own_name: OwnName) -> Diagnostic:
    """Return a diagnostic with the names that its client knows."""
    return structs.replace(
        diagnostic,
        message=_rename_quoted(diagnostic.message, own_name),
        param=own_name(diagnostic.param),
        subject=_rename_subject(diagnostic, own_name),
    )


def _rename_subject(diagnostic: Diagnostic, own_name: OwnName) -> str:
    """A subject is a member, or something else: the type of a tool or an item, the name of a
    tool."""
    subject = diagnostic.subject
    param = diagnostic.param
    is_member = subject and (param.endswith(subject) or param == _INCLUDE)
    return own_name(subject) if is_member else subject


def _rename_quoted(text: str, own_name: OwnName) -> str:
    return _QUOTED.sub(lambda found: f"`{own_name(found[1])}`", text)
