"""Limits of a client's grammar.

The compiler's own limits are set low here: input that exceeds them is not checked any further. They
do not cover everything. A long chain of rules crashes the whole process, because the compiler
recurses for each; an intersection, or a negation, which amounts to one, does not terminate. Such
grammars are not compiled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from antiphon.core.tools.identity import Grammar

if TYPE_CHECKING:
    from llguidance import LLParserLimits

MAX_CHARACTERS = 32_000
MAX_MARKS = 500
"""Rules, groups, classes and repetitions together. Some grammars with five times as many overflow
the stack, and one step with twice as many takes a tenth of a second."""

_MARK = re.compile(r"[:(\[{?*+.]|\\[a-zA-Z]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/|(?:#|//)[^\n]*', re.DOTALL)
_EXTENSION = re.compile(r"[&@<]|~(?!\s*\d)|%(?!ignore\b|import\b|declare\b|override\b)")
"""The compiler's extensions of Lark: tokens, schemas, intersections."""


def find_excess(grammar: Grammar) -> str | None:
    """Why a grammar is not compiled at all; None if it is within the limits."""
    definition = grammar.definition
    if _SURROGATE.search(definition):
        return "it contains unpaired surrogates"
    if len(definition) > MAX_CHARACTERS:
        return f"it is longer than {MAX_CHARACTERS} characters"
    if len(_MARK.findall(definition)) > MAX_MARKS:
        return f"it has more than {MAX_MARKS} rules, groups, classes and repetitions"
    if grammar.syntax == "lark" and (found := _EXTENSION.search(_LITERAL.sub(" ", definition))):
        return f"{found[0]!r} is not part of Lark"
    return None


def compiler_limits() -> LLParserLimits:
    """Low limits of time and memory: one client's grammar must not block other requests."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        max_items_in_row=250,
        initial_lexer_fuel=100_000,
        step_lexer_fuel=50_000,
        step_max_items=20_000,
        max_lexer_states=5_000,
        max_grammar_size=50_000,
        precompute_large_lexemes=False,
        verbose_errors=False,
    )
