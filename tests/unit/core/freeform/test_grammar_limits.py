"""Hostile grammars: none takes much time or memory, and none crashes the process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping

from antiphon.core.freeform.grammar import (
    MAX_CHARACTERS,
    MAX_MARKS,
    build_checker,
    compile_error,
    find_excess,
    has_unknown_grammar,
)
from antiphon.core.tools.identity import Grammar
from tests.support.patches import GRAMMAR
from tests.support.tables import table


def rules(count: int, before: str = "", after: str = "") -> str:
    """Rules that name one another in a row."""
    lines = [f'r{i}: {before} "a" r{i + 1} {after}' for i in range(count)]
    return "\n".join(["start: r0", *lines, f'r{count}: "b"'])


def terminals(count: int) -> str:
    """Terminals of which each is twice the next."""
    lines = [f"R{i}: R{i + 1} R{i + 1}" for i in range(count)]
    return "\n".join(["start: R0", *lines, f'R{count}: "b"'])


def intersected(count: int) -> str:
    return "start: A\nA: " + " & ".join(f"/(a|b)*a(a|b){{{i}}}(a|b)*/" for i in range(count))


def mixed(count: int) -> str:
    """A text of two letters without a pattern."""
    return "".join("ab"[i * i * 7919 % 101 & 1] for i in range(count))


HOSTILE: Mapping[str, tuple[str, str, str]] = {
    "repetitions of repetitions": ("regex", "((a{1000}){1000}){1000}", "a" * 2000),
    "one long repetition": ("regex", "a{1000000}", "a" * 2000),
    "many options": ("regex", "(a?){2000}a{2000}", "a" * 1500),
    "options one by one": ("regex", "a?" * 15_000, "a" * 100),
    "many states": ("regex", "(a|b)*a(a|b){200}", mixed(20_000)),
    "many letters": ("regex", r"(\p{L}{1,100}){1,100}", "é" * 500),
    "options that are allowed": ("regex", "a?" * 499, "a" * 480),
    "classes one by one": ("regex", r"\w" * 15_000, "é" * 100),
    "groups in groups": ("regex", "(" * 15_000 + "a" + ")" * 15_000, "a"),
    "many words": ("regex", "|".join(f"word{i}" for i in range(100_000)), "word9"),
    "a long text": ("regex", "a" * 10_000_000, "a" * 100),
    "rules in a row": ("lark", rules(20_000), "a" * 100),
    "short rules in a row": ("lark", rules(2_000), "a" * 100),
    "groups in rules in a row": ("lark", rules(900, "(" * 28, ")" * 28), "a" * 100),
    "brackets in brackets": ("lark", "start: " + "[" * 900 + '"a"' + "]" * 900, "a"),
    "doubled terminals": ("lark", terminals(40), "b" * 1000),
    "long doubled terminals": ("lark", terminals(16), "b" * 1000),
    "an ambiguous rule": ("lark", 'start: start start | "a"', "a" * 2000),
    "a very ambiguous rule": ("lark", 's: s s s | s s | "a" | \nstart: s', "a" * 2000),
    "ambiguous lines": ("lark", 'start: (s "c")*\ns: s s | "a"', ("a" * 150 + "c") * 20),
    "palindromes": ("lark", 'start: p\np: "a" p "a" | "b" p "b" | "a" | "b"', mixed(3000)),
    "rules without an end": ("lark", "start: start", "a"),
    "repeated rules": ("lark", 'start: (("a"~1000)~1000)~1000', "a" * 2000),
    "an intersection": ("lark", intersected(25), mixed(100)),
    "a schema": ("lark", 'start: %json {"type": "array", "minItems": 100000}', "[" * 100),
}

_MOST_S = 3.0  # where a tenth of a second is usual
_MOST_MB = 400

_SCRIPT = f"""
import json, re, sys, time
from pathlib import Path
from antiphon.core.freeform.grammar import build_checker
from antiphon.core.tools.identity import Grammar
for name, (syntax, definition, text) in json.load(sys.stdin).items():
    began = time.process_time()
    checker = build_checker(Grammar(syntax, definition))
    places = range(0, len(text), 40) if checker else ()
    stopped = any(checker.feed(text[place : place + 40]) for place in places)
    checker and not stopped and checker.close()
    took = time.process_time() - began
    peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
    assert took < {_MOST_S} and peak < {_MOST_MB}, (name, took, peak)
    print(name, flush=True)
"""


def test_no_grammar_blocks_or_crashes_the_process() -> None:
    """In a process of its own: what is too deep would take this one with it."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(HOSTILE),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, [*HOSTILE]), done.stderr


@table(
    ("syntax", "definition", "word"),
    [
        ("regex", "a\ud800", "surrogates"),
        ("regex", "a" * (MAX_CHARACTERS + 1), "longer"),
        ("regex", r"\w" * (MAX_MARKS + 1), "classes"),
        ("regex", "a?" * (MAX_MARKS + 1), "repetitions"),
        ("lark", rules(MAX_MARKS), "rules"),
        ("lark", "start: A\nA: /a/ & /b/", "'&'"),
        ("lark", "start: A\nA: ~/a/", "'~'"),
        ("lark", 'start: A\nA: /"/ & /b/ & /"/', "'&'"),
        ("lark", 'start: <x"y> A <x"y>\nA: /a/', "'<'"),
        ("lark", "start: @other", "'@'"),
        ("lark", 'start: %json {"type": "object"}', "'%'"),
        ("lark", 'start: A\nA: %regex {"substring_chars": "a"}', "'%'"),
        ("lark", 'start: "a', "without an end"),
        ("lark", "start: /a", "without an end"),
    ],
)
def test_a_grammar_beyond_the_limits_has_a_reason_and_is_not_enforced(
    syntax: str, definition: str, word: str
) -> None:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    grammar = Grammar("regex" if syntax == "regex" else "lark", definition)
    assert word in str(find_excess(grammar))
    assert compile_error(grammar) == find_excess(grammar)
    assert build_checker(grammar) is None
    assert has_unknown_grammar({"type": "custom", "name": "n", "format": form})


@table("mark", ['"', "/"])
def test_the_work_is_linear_in_a_literal_without_an_end(mark: str) -> None:
    began = time.process_time()
    for index in range(20):
        find_excess(Grammar("lark", f"start: {index} {mark}" + f"\\{mark}" * 15_000))
    assert time.process_time() - began < 2  # were it quadratic, half a minute


@table(
    "definition",
    [
        GRAMMAR.definition,
        'start: "a & b" "<c>" "@d" "%json" // & <e>\n',
        r'start: /a & [^\/"]/ "\"&" # & @f' "\n",
        'start: "a" ~ 3 | "b" ~ 1..2\n%ignore / /\n',
        'start: A\nA: "x"\n%import common.INT\n',
    ],
)
def test_literals_and_comments_are_not_searched_for_extensions(
    definition: str,
) -> None:
    assert find_excess(Grammar("lark", definition)) is None
    assert compile_error(Grammar("lark", definition)) is None


def test_a_grammar_that_fails_at_its_first_step_is_rejected_when_compiled() -> None:
    wide = Grammar("lark", "start: " + " | ".join(f'"a{i}"' for i in range(900)))
    assert "items" in str(compile_error(wide))
    assert build_checker(wide) is None
