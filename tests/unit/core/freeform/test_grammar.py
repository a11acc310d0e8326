"""Incremental check of text against a grammar, and the messages about violations."""

from __future__ import annotations

import subprocess
import sys

from llguidance import LLMatcher, LLTokenizer

from antiphon.core.freeform.grammar import (
    EXCERPT_LIMIT,
    GrammarChecker,
    GrammarViolation,
    build_checker,
    compile_error,
    declared_grammar,
    has_unknown_grammar,
    requires_opening,
)
from antiphon.core.tools.identity import Grammar
from tests.support.patches import FILES, GRAMMAR, patch
from tests.support.tables import table

NUMBER = Grammar("regex", "^[0-9]+$")
ANYTHING = Grammar("regex", r"[\s\S]+")
BROKEN = Grammar("lark", "start: missing")
HELLO = patch("*** Add File: a\n+hello\n")


def checker(grammar: Grammar = GRAMMAR) -> GrammarChecker:
    found = build_checker(grammar)
    assert found is not None
    return found


def problem(text: str, grammar: Grammar = GRAMMAR) -> GrammarViolation | None:
    fresh = checker(grammar)
    return fresh.feed(text) or fresh.close()


def message(text: str, grammar: Grammar = GRAMMAR) -> str:
    found = problem(text, grammar)
    assert found is not None
    return found.message


@table("name", FILES)
def test_valid_text_has_no_violation(name: str) -> None:
    assert problem(patch(FILES[name])) is None


@table("ending", ["", "\n", "\n\n", "\r\n", " \n\t"])
def test_additional_line_breaks_at_the_end_are_accepted(ending: str) -> None:
    assert problem(HELLO.removesuffix("\n") + ending) is None
    assert problem("42" + ending, NUMBER) is None


def test_a_required_line_break_may_be_missing_at_the_end() -> None:
    assert problem("one", Grammar("lark", r'start: "one\n"')) is None


def test_text_after_the_end_is_a_violation() -> None:
    fresh = checker()
    assert fresh.feed(HELLO) is None
    assert fresh.feed("\n") is None
    assert fresh.feed(" ") is None
    found = fresh.feed(" x")
    assert found is not None
    assert found.message == "line 6, column 3: expected the end after '  ', found 'x'"
    assert found.offset == len(HELLO) + 3


def test_a_violation_names_its_position_and_what_was_expected() -> None:
    assert problem("*** Begin Patch\n*** Add File: é\nhello\n") == GrammarViolation(
        offset=32,
        message="line 3, column 1: expected '+' after '*** Add File: é', found 'h'",
    )


@table(
    ("text", "expected"),
    [
        ("", "line 1, column 1: expected '*** Begin Patch', but the input ends"),
        ("```", "line 1, column 1: expected '*** Begin Patch', found '`'"),
        (
            "*** Begin Patch\n*** End",
            "line 2, column 5: expected 'Add File: ' or 'Delete File: ' or 'Update File: '"
            " after '*** ', found 'E'",
        ),
        (
            "*** Begin Patch\r",
            "line 1, column 16: expected a line break after '*** Begin Patch', found '\\r'",
        ),
        (
            "*** Begin Patch\n*** Add File: a\n+x",
            "line 3, column 3: expected '*** ' or '+' after '+x', but the input ends",
        ),
    ],
)
def test_a_message_is_short_and_says_what_comes_next(text: str, expected: str) -> None:
    assert message(text) == expected


def test_many_possible_characters_are_not_enumerated() -> None:
    assert message("a", NUMBER) == "line 1, column 1: expected something else, found 'a'"
    assert message("", ANYTHING) == "line 1, column 1: expected something else, but the input ends"
    assert message("1a", NUMBER) == "line 1, column 2: expected the end after '1', found 'a'"


def test_an_incomplete_character_is_not_quoted() -> None:
    assert message("x", Grammar("regex", "[à-ÿ]")).endswith("expected something else, found 'x'")


def test_a_long_line_is_quoted_by_its_end() -> None:
    found = problem("*** Begin Patch\n*** Add File: " + "a" * 999 + "\nb" + "c" * 999)
    assert found is not None
    assert f"after {'a' * EXCERPT_LIMIT!r}" in found.message
    assert len(found.message) < 200


def test_a_violation_inside_of_a_multibyte_character_is_at_its_start() -> None:
    found = problem("è", Grammar("regex", "é+"))
    assert found is not None
    assert found.offset == 0
    assert found.message.endswith("found 'è'")


def test_an_unpaired_surrogate_is_checked_as_a_replacement_character() -> None:
    assert problem("\ud800", Grammar("regex", ".")) is None


@table("text", [HELLO, HELLO + "x", HELLO.replace("+", "é"), HELLO[:-9]])
def test_a_cut_anywhere_changes_nothing(text: str) -> None:
    expected = problem(text)
    for place in range(len(text) + 1):
        fresh = checker()
        assert (fresh.feed(text[:place]) or fresh.feed(text[place:]) or fresh.close()) == expected


def test_a_grammar_that_does_not_compile_has_an_error_and_no_checker() -> None:
    assert build_checker(BROKEN) is None
    assert "missing" in str(compile_error(BROKEN))
    assert compile_error(GRAMMAR) is None
    assert "look-around" in str(compile_error(Grammar("regex", "a(?=b)")))


def test_a_matcher_in_an_error_state_reports_no_violation() -> None:
    gone = GrammarChecker(LLMatcher(LLTokenizer("byte"), "start: missing", log_level=0))
    assert gone.feed("x") is None
    assert gone.close() is None


def test_a_grammar_requires_an_opening_if_it_allows_this_one_and_not_any() -> None:
    value = Grammar("lark", 'start: "{" /[^}]*/ "}"')
    assert requires_opening(value, '{"patch": "')
    assert not requires_opening(GRAMMAR, '{"patch": "')
    assert not requires_opening(ANYTHING, '{"patch": "')
    assert not requires_opening(BROKEN, '{"patch": "')


@table(
    ("form", "expected", "unknown"),
    [
        ({"type": "grammar", "syntax": "regex", "definition": "a"}, Grammar("regex", "a"), False),
        ({"type": "grammar", "syntax": "regex", "definition": "("}, Grammar("regex", "("), True),
        ({"type": "grammar", "syntax": "ebnf", "definition": "a"}, None, True),
        ({"type": "grammar", "syntax": "lark"}, None, True),
        ({"type": "text"}, None, False),
        ("text", None, False),
        (None, None, False),
    ],
)
def test_a_tool_declares_its_grammar(form: object, expected: object, unknown: bool) -> None:
    tool = {"type": "custom", "name": "n", "format": form}
    assert declared_grammar(tool) == expected
    assert has_unknown_grammar(tool) is unknown
    assert declared_grammar({**tool, "type": "function"}) is None


def test_nothing_is_loaded_before_there_is_a_grammar_to_check() -> None:
    script = (
        "import sys, antiphon.core.freeform.filter, antiphon.core.plan.planner;"
        "assert 'llguidance' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
