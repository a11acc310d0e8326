"""Mutation testing (`make mutation`): small changes of the source that a unit test must notice.

    python -m tests.support.mutation [--count N] [--seed N] [--minutes M] [PATH …]

Changes comparisons, conditions, constants and arithmetic of `core/stream` and `framing`, one at a
time, in a copy of the source, and runs the unit tests of the changed module and of its package. A
mutant that no test notices survives, and is printed. The exit status is 1 if one survives that is
not in `EQUIVALENT` of `tests/support/mutation_survivors.py`.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import NoReturn

import hypothesis.strategies  # noqa: F401  loaded once, before the forks
import msgspec  # noqa: F401
import pytest

from tests.support.mutation_survivors import EQUIVALENT

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PLACES = (
    "antiphon/core/*.py",
    "antiphon/core/stream/*.py",
    "antiphon/framing/*.py",
    "antiphon/dialects/validate.py",
    "antiphon/dialects/json_output.py",
    "antiphon/dialects/responses/parse*.py",
    "antiphon/server/body.py",
)
"""What was the core of the wire format: every change of it must fail a unit test."""
TIMEOUT_S = 60

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True)
class Mutant:
    """One change of an expression."""

    path: str
    line: int
    text: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """Return the module, the line's text and the change: it stays when lines move."""
        return f"{self.path}: {self.text}: {self.before} -> {self.after}"

    @property
    def is_class_option(self) -> bool:
        """Whether it changes `frozen=True` or the like, which only type checks notice."""
        option = rf"\b(frozen|gc|kw_only|tag|eq|order|cache_hash)={re.escape(self.before)}\b"
        return re.search(option, self.text) is not None


def find_mutants(path: str, source: str) -> Iterator[tuple[Mutant, str]]:
    """Return each mutant of a module with its whole source."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.expr) or (replacement := _mutate(node)) is None:
            continue
        before, after = ast.unparse(node), ast.unparse(replacement)
        text = _splice(source, node, after)
        if text is not None:
            line = node.lineno
            yield Mutant(path, line, lines[line - 1].strip(), before, after), text


def _mutate(node: ast.AST) -> ast.expr | None:
    """Return the changed node; None if there is no change for it."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in _COMPARISONS:
            return ast.Compare(left, [_COMPARISONS[type(operator)]()], right)
        case ast.BoolOp(ast.And(), values):
            return ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(ast.Or(), values):
            return ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.IfExp(test, body, orelse):
            return ast.IfExp(test, orelse, body)
    return None


def _splice(source: str, node: ast.expr, after: str) -> str | None:
    """Replace the text of a node; the rest of the source stays as it is."""
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data = source.encode()
    return (data[:start] + b"(" + after.encode() + b")" + data[end:]).decode()


def tests_of(path: str) -> list[str]:
    """Return the unit tests of a module: those with its name, and longer ones."""
    module = Path(path)
    folder = ROOT / "tests" / "unit" / module.parent.relative_to("antiphon")
    return sorted(str(each) for each in folder.glob(f"test_{module.stem}*.py"))


def survives(copy: Path, path: str, text: str) -> bool:
    """Whether all tests pass with this source: those of the module, then those of its package."""
    folder = Path(tests_of(path)[0]).parent
    package = sorted(str(each) for each in folder.glob("test_*.py"))
    return all(passes(copy, path, text, tests) for tests in (tests_of(path), package))


def passes(copy: Path, path: str, text: str, tests: list[str]) -> bool:
    """Whether these tests pass with this source of a module.

    They run in a fork of this process, which has loaded everything but the package itself.
    """
    target = copy / path
    original = target.read_bytes()
    target.write_bytes(text.encode())
    Path(cache_from_source(str(target))).unlink(missing_ok=True)
    try:
        process = os.fork()
        if process == 0:
            _run_tests(copy, tests)
        return os.waitpid(process, 0)[1] == 0
    finally:
        target.write_bytes(original)


def _run_tests(copy: Path, paths: list[str]) -> NoReturn:
    signal.alarm(TIMEOUT_S)  # ends the process: a mutant that does not end is noticed
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    options = ["-q", "-x", "-p", "no:cacheprovider", "-n0", "-p", "no:cov"]
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--rootdir", str(ROOT)]
    os._exit(pytest.main([*options, *ignored, *paths]))


def choose(count: int, seed: int, only: list[str]) -> list[tuple[Mutant, str]]:
    """Choose mutants, the same ones for the same seed and source."""
    paths = sorted(path for place in PLACES for path in SOURCE.glob(place))
    names = [path.relative_to(SOURCE).as_posix() for path in paths if path.name != "__init__.py"]
    chosen = [name for name in names if not only or any(each in name for each in only)]
    found = [
        mutant
        for name in chosen
        if tests_of(name)
        for mutant in find_mutants(name, (SOURCE / name).read_text(encoding="utf-8"))
    ]
    sys.stdout.write(f"{len(found)} mutants in {len(chosen)} modules\n")
    sample = random.Random(seed).sample(found, min(count, len(found)))
    return [mutant for mutant in sample if not mutant[0].is_class_option]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutation")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("only", nargs="*", help="parts of module paths")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.minutes * 60
    killed, equivalent, survivors = 0, 0, 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(copy, quiet=1)
        for mutant, text in choose(options.count, options.seed, options.only):
            if time.monotonic() > end:
                break
            if not survives(copy, mutant.path, text):
                killed += 1
            elif mutant.name in EQUIVALENT:
                equivalent += 1
            else:
                survivors += 1
                sys.stdout.write(f"SURVIVED line {mutant.line} {mutant.name}\n")
                sys.stdout.flush()
    total = killed + equivalent + survivors
    sys.stdout.write(
        f"{total} mutants: {killed} killed, {equivalent} equivalent, {survivors} survived\n"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
