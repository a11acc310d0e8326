"""Incremental check of a custom tool's input against the grammar of the tool.

The grammar is compiled once; a check walks over the compiled grammar, so a chunk costs time by its
length. The check is strict with one exception: a line break more or less at the end is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import compress, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert

from antiphon.core.lru import LRUCache
from antiphon.core.tools.identity import Grammar

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits

EXCERPT_LIMIT = 60
MAX_CHOICES = 8
_KEPT_CHARACTERS = 256_000
_IMPROBABLE = "~%) \t|"  # a text begins like this only if it may begin in any way
_ANYTHING = "something else"
_BYTE_TOKENS = [[byte] for byte in range(256)]


class GrammarViolation(Struct, frozen=True):
    """The first position at which no continuation can match the grammar."""

    offset: int
    """The number of valid characters before it."""
    message: str
    """What was expected and found, for the model."""


class GrammarChecker:
    """Checks one text against one grammar, up to the first violation."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._text: list[str] = []
        self._complete = False  # the text matches, and only white space may follow

    def feed(self, text: str) -> GrammarViolation | None:
        self._text.append(text)
        accepted = 0 if self._complete else self._consume(text)
        rest = text[accepted:]
        if not rest:
            return None
        is_complete = self._matcher.is_accepting()
        if self._matcher.is_error():  # a limit of the matcher: the input is not checked further
            return None
        if is_complete:
            self._complete = True
            rest = rest.lstrip()
        return self._violation(rest, self._matcher) if rest else None

    def close(self) -> GrammarViolation | None:
        if self._matcher.is_accepting() or self._matcher.is_error():
            return None
        ahead = self._matcher.deep_copy()
        ahead.try_consume_tokens(list(b"\n") if any(self._text) else [])
        return None if ahead.is_accepting() or ahead.is_error() else self._violation("", ahead)

    def _consume(self, text: str) -> int:
        """Consume text as far as it matches; return the number of characters."""
        data = text.encode(errors="replace")
        count = self._matcher.try_consume_tokens(list(data))
        return len(text) if count == len(data) else len(data[:count].decode(errors="ignore"))

    def _violation(self, rest: str, matcher: LLMatcher) -> GrammarViolation:
        """Describe the violation where `rest` begins. Only its first character is used, so that
        the message does not depend on how the text was split into chunks."""
        text = "".join(self._text)
        valid = text[: len(text) - len(rest)]
        before, _, line = valid.rpartition("\n")
        number = valid.count("\n") + 1
        column = len(line) + 1
        quoted = (line or before.rpartition("\n")[2])[-EXCERPT_LIMIT:]
        after = f" after {quoted!r}" if quoted else ""
        found = f"found {rest[0]!r}" if rest else "but the input ends"
        expected = f"expected {_expected(matcher)}{after}, {found}"
        return GrammarViolation(len(valid), f"line {number}, column {column}: {expected}")


def build_checker(grammar: Grammar) -> GrammarChecker | None:
    """Build a checker; None if the grammar cannot be compiled."""
    compiled = _compiled[grammar]
    return None if isinstance(compiled, str) else GrammarChecker(compiled.deep_copy())


def compile_error(grammar: Grammar) -> str | None:
    """Why the grammar cannot be compiled: the compiler's message; None if it can."""
    compiled = _compiled[grammar]
    return compiled if isinstance(compiled, str) else None


def requires_opening(grammar: Grammar, opening: str) -> bool:
    """Whether the grammar allows this beginning, but not just any beginning."""
    compiled = _compiled[grammar]
    if isinstance(compiled, str):
        return False
    return _accepts(compiled, opening) and not _accepts(compiled, _IMPROBABLE)


def declared_grammar(tool: Mapping[str, Any]) -> Grammar | None:
    """The grammar in a custom tool's declaration, if its syntax is known."""
    if not _has_grammar(tool):
        return None
    try:
        return convert(tool["format"], Grammar)
    except ValidationError:
        return None


def has_unknown_grammar(tool: Mapping[str, Any]) -> bool:
    """Whether a custom tool has a grammar that cannot be compiled."""
    grammar = declared_grammar(tool)
    return _has_grammar(tool) if grammar is None else compile_error(grammar) is not None


def _has_grammar(tool: Mapping[str, Any]) -> bool:
    form = tool.get("format")
    is_grammar = isinstance(form, Mapping) and form.get("type") == "grammar"
    return is_grammar and tool.get("type") == "custom"


def _compile(grammar: Grammar) -> LLMatcher | str:
    """Compile a grammar into a matcher at its start, or return the error."""
    if (problem := find_excess(grammar)) is not None:
        return problem
    from llguidance import LLMatcher, LLTokenizer, grammar_from  # slow to import, and rarely needed

    source = grammar_from(grammar.syntax, grammar.definition)
    matcher = LLMatcher(LLTokenizer("byte"), source, log_level=0, limits=compiler_limits())
    first = matcher.deep_copy()
    first.try_consume_tokens(_allowed(first, 1))  # some limits only show with the first step
    return matcher.get_error() or first.get_error() or matcher


_compiled = LRUCache(_compile, lambda grammar: 1000 + len(grammar.definition), _KEPT_CHARACTERS)


def _accepts(matcher: LLMatcher, text: str) -> bool:
    data = text.encode(errors="replace")
    return matcher.deep_copy().try_consume_tokens(list(data)) == len(data)


def _expected(matcher: LLMatcher) -> str:
    """Describe what may come next, if there are few possibilities."""
    ahead = matcher.deep_copy()
    forced = _forced(ahead)
    choices = [forced + _forced_after(ahead, byte) for byte in _few_allowed(ahead)] or [forced]
    shown = ["the end"] if matcher.is_accepting() else []
    shown += filter(None, map(_quote, choices))
    return " or ".join(dict.fromkeys(shown)) or _ANYTHING


def _forced(ahead: LLMatcher) -> bytes:
    """The only possible continuation, up to the length of an excerpt; the matcher consumes it."""
    forced = bytearray()
    while len(forced) < EXCERPT_LIMIT and not forced.endswith(b"\n") and not ahead.is_accepting():
        allowed = _allowed(ahead, 2)
        if len(allowed) != 1:
            break
        ahead.try_consume_tokens(allowed)
        forced += bytes(allowed)
    return bytes(forced)


def _few_allowed(matcher: LLMatcher) -> list[int]:
    allowed = _allowed(matcher, MAX_CHOICES + 1)
    return allowed if len(allowed) <= MAX_CHOICES else []


def _allowed(matcher: LLMatcher, most: int) -> list[int]:
    """The first bytes that may come next, `most` at most. Tried one by one: computing the whole
    mask at once makes the compiler look ahead without a limit."""
    return [*islice(compress(range(256), map(matcher.validate_tokens, _BYTE_TOKENS)), most)]


def _forced_after(matcher: LLMatcher, byte: int) -> bytes:
    ahead = matcher.deep_copy()
    ahead.try_consume_tokens([byte])
    return bytes([byte]) + _forced(ahead)


def _quote(data: bytes) -> str:
    line, line_break, _ = data.decode(errors="ignore").partition("\n")
    return repr(line[:EXCERPT_LIMIT]) if line else line_break and "a line break"


# Limits
#
# The compiler's own limits are set low: input that exceeds them is not checked any further. They do
# not cover everything. A long chain of rules crashes the whole process, because the compiler
# recurses for each; an intersection, or a negation, which amounts to one, does not terminate. Such
# grammars are not compiled.

MAX_CHARACTERS = 32_000
MAX_MARKS = 500
"""Rules, groups, classes and repetitions together. Some grammars with five times as many overflow
the stack, and one step with twice as many takes a tenth of a second."""

_MARK = re.compile(r"[:(\[{?*+.]|\\[a-zA-Z]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LITERAL = re.compile(
    r'"(?:\\.|[^"\\])*+"|/(?:\\.|[^/\\])++/|(?:#|//)[^\n]*|(?P<open>["/]).*', re.DOTALL
)
"""A string, an expression or a comment; one without an end is everything to the end."""
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
    return _find_extension(definition) if grammar.syntax == "lark" else None


def _find_extension(definition: str) -> str | None:
    """Why a grammar of Lark would not be compiled as Lark; None if it would."""
    if any(found["open"] for found in _LITERAL.finditer(definition)):
        return "it has a string or a regular expression without an end"
    found = _EXTENSION.search(_LITERAL.sub(" ", definition))
    return f"{found[0]!r} is not part of Lark" if found else None


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
