"""How large a client's grammar may be for us to check anything against it.

The compiler has limits of its own, and they are set low here: for what they stop, text of any kind
is simply not checked any further. Some things they do not stop. Rules that name one another in a
long row end the whole process, because the compiler calls itself for each; an intersection, or a
negation, which is as good as one, keeps it busy without an end. Such grammars are not compiled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from antiphon.core.tools.identity import Grammar

if TYPE_CHECKING:
    from llguidance import LLParserLimits

MAX_CHARACTERS = 32_000
MAX_MARKS = 500
"""Rules, groups, classes and repetitions together. Some ways to use five times as many are more
than the stack can hold, and a step over twice as many takes a tenth of a second."""

_MARK = re.compile(r"[:(\[{?*+.]|\\[a-zA-Z]")
_HALF = re.compile(r"[\ud800-\udfff]")
_LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/|(?:#|//)[^\n]*', re.DOTALL)
_FOREIGN = re.compile(r"[&@<]|~(?!\s*\d)|%(?!ignore\b|import\b|declare\b|override\b)")
"""What is not Lark but the compiler's own: it reaches for tokens, schemas and intersections."""


def beyond(grammar: Grammar) -> str | None:
    """Why a grammar is not even given to the compiler."""
    definition = grammar.definition
    if _HALF.search(definition):
        return "it is not text"
    if len(definition) > MAX_CHARACTERS:
        return f"it is longer than {MAX_CHARACTERS} characters"
    if len(_MARK.findall(definition)) > MAX_MARKS:
        return f"it has more than {MAX_MARKS} rules, groups, classes and repetitions"
    if grammar.syntax == "lark" and (word := _FOREIGN.search(_LITERAL.sub(" ", definition))):
        return f"{word[0]!r} is not part of Lark"
    return None


def compiler_limits() -> LLParserLimits:
    """Each step, and everything that is kept, is small: nobody waits for one client's grammar."""
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
