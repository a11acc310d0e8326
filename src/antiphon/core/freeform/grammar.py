"""Whether a text matches the grammar of a custom tool, told while the text is being written.

The grammar is compiled once, and every check is a walk of its own over it: a chunk costs what it is
long. Checking is strict but for one thing: a line break more or less at the end spoils nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert

from antiphon.core.freeform.grammar_limits import beyond, compiler_limits
from antiphon.core.lru import LRUCache
from antiphon.core.tools.identity import Grammar

if TYPE_CHECKING:
    from llguidance import LLMatcher

EXCERPT_LIMIT = 60
MAX_CHOICES = 8
_KEPT_CHARACTERS = 256_000
_NONSENSE = "~%) \t|"  # no text begins like this unless it may begin in any way
_ANYTHING = "something else"


class Problem(Struct, frozen=True):
    """The first place from which no text whatever leads to a match."""

    offset: int
    """How many characters were sound."""
    message: str
    """For the model that wrote it."""


class Checker:
    """One text against one grammar. After the first problem there is nothing more to learn."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._text: list[str] = []
        self._over = False

    def feed(self, text: str) -> Problem | None:
        self._text.append(text)
        taken = 0 if self._over else self._take(text)
        rest = text[taken:]
        if not rest:
            return None
        is_over = self._matcher.is_accepting()
        if self._matcher.is_error():  # it ran into a limit of its own: no verdict
            return None
        if is_over:
            self._over = True
            rest = rest.lstrip()
        return self._problem(rest, self._matcher) if rest else None

    def close(self) -> Problem | None:
        if self._matcher.is_accepting() or self._matcher.is_error():
            return None
        ahead = self._matcher.deep_copy()
        ahead.try_consume_tokens(list(b"\n") if any(self._text) else [])
        return None if ahead.is_accepting() or ahead.is_error() else self._problem("", ahead)

    def _take(self, text: str) -> int:
        """How many characters the grammar takes."""
        data = text.encode(errors="replace")
        count = self._matcher.try_consume_tokens(list(data))
        return len(text) if count == len(data) else len(data[:count].decode(errors="ignore"))

    def _problem(self, rest: str, matcher: LLMatcher) -> Problem:
        """What is wrong where `rest` begins; nothing of what comes after its first character is
        looked at, so that it does not matter how the text was cut."""
        text = "".join(self._text)
        sound = text[: len(text) - len(rest)]
        before, _, line = sound.rpartition("\n")
        number, column = sound.count("\n") + 1, len(line) + 1
        quoted = (line or before.rpartition("\n")[2])[-EXCERPT_LIMIT:]
        after = f" after {quoted!r}" if quoted else ""
        found = f"found {rest[0]!r}" if rest else "but the input ends"
        expected = f"expected {_expected(matcher)}{after}, {found}"
        return Problem(len(sound), f"line {number}, column {column}: {expected}")


def build_checker(grammar: Grammar) -> Checker | None:
    """A fresh checker; None if the grammar cannot be compiled."""
    compiled = _compiled[grammar]
    return None if isinstance(compiled, str) else Checker(compiled.deep_copy())


def flaw(grammar: Grammar) -> str | None:
    """Why nothing can be checked against this grammar, in the words of its compiler."""
    compiled = _compiled[grammar]
    return compiled if isinstance(compiled, str) else None


def asks_for(grammar: Grammar, opening: str) -> bool:
    """Whether a text begins like this because it has to; one that may begin in any way need not."""
    compiled = _compiled[grammar]
    if isinstance(compiled, str):
        return False
    return _takes(compiled, opening) and not _takes(compiled, _NONSENSE)


def declared_grammar(tool: Mapping[str, Any]) -> Grammar | None:
    """The grammar that a custom tool was declared with, if it is of a syntax we know."""
    if not _has_grammar(tool):
        return None
    try:
        return convert(tool["format"], Grammar)
    except ValidationError:
        return None


def has_unknown_grammar(tool: Mapping[str, Any]) -> bool:
    """Whether a custom tool was declared with a grammar that nothing can be checked against."""
    grammar = declared_grammar(tool)
    return _has_grammar(tool) if grammar is None else flaw(grammar) is not None


def _has_grammar(tool: Mapping[str, Any]) -> bool:
    form = tool.get("format")
    is_grammar = isinstance(form, Mapping) and form.get("type") == "grammar"
    return is_grammar and tool.get("type") == "custom"


def _compile(grammar: Grammar) -> LLMatcher | str:
    """A matcher that has read nothing yet, or why there is none."""
    if (problem := beyond(grammar)) is not None:
        return problem
    from llguidance import LLMatcher, LLTokenizer, grammar_from  # costs what only few calls need

    source = grammar_from(grammar.syntax, grammar.definition)
    matcher = LLMatcher(LLTokenizer("byte"), source, log_level=0, limits=compiler_limits())
    first = matcher.deep_copy()
    first.try_consume_tokens(_allowed(first)[:1])  # some limits only show with the first step
    return matcher.get_error() or first.get_error() or matcher


_compiled = LRUCache(_compile, lambda grammar: 1000 + len(grammar.definition), _KEPT_CHARACTERS)


def _takes(matcher: LLMatcher, text: str) -> bool:
    data = text.encode(errors="replace")
    return matcher.deep_copy().try_consume_tokens(list(data)) == len(data)


def _expected(matcher: LLMatcher) -> str:
    """What may come next, if it can be said in a few words."""
    ahead = matcher.deep_copy()
    forced = _forced(ahead)
    choices = [forced + _forced_after(ahead, byte) for byte in _few_allowed(ahead)] or [forced]
    shown = ["the end"] if matcher.is_accepting() else []
    shown += filter(None, map(_shown, choices))
    return " or ".join(dict.fromkeys(shown)) or _ANYTHING


def _forced(ahead: LLMatcher) -> bytes:
    """What alone can come next, as far as it is shown; the matcher has read it then."""
    forced = bytearray()
    while len(forced) < EXCERPT_LIMIT and not forced.endswith(b"\n") and not ahead.is_accepting():
        allowed = _allowed(ahead)
        if len(allowed) != 1:
            break
        ahead.try_consume_tokens(allowed)
        forced += bytes(allowed)
    return bytes(forced)


def _few_allowed(matcher: LLMatcher) -> list[int]:
    allowed = _allowed(matcher)
    return allowed if len(allowed) <= MAX_CHOICES else []


def _allowed(matcher: LLMatcher) -> list[int]:
    """Tried one by one: asked for all of them, the compiler would first look ahead without end."""
    return [byte for byte in range(256) if matcher.validate_tokens([byte])]


def _forced_after(matcher: LLMatcher, byte: int) -> bytes:
    ahead = matcher.deep_copy()
    ahead.try_consume_tokens([byte])
    return bytes([byte]) + _forced(ahead)


def _shown(data: bytes) -> str:
    line, line_break, _ = data.decode(errors="ignore").partition("\n")
    return repr(line[:EXCERPT_LIMIT]) if line else line_break and "a line break"
