"""Tables of cases: one test runs all rows of its table, and reports every row that fails.

`@table` is written like `@pytest.mark.parametrize`. It is for tests without fixtures of their own:
pytest needs more time to set up a test than most rows need to run. A row that fails is a failed
subtest with its name, and the rows after it run all the same. To debug a row, make each row a test
again, with an id that pytest gives it: `ANTIPHON_EACH_CASE=1 pytest -k the_test`.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pytest

EACH_CASE = "ANTIPHON_EACH_CASE" in os.environ
LONGEST_NAME = 60
Test = Callable[..., Any]
Ids = Sequence[str | None] | Callable[[Any], object]
_PARAM = type(pytest.param())
_FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)


@dataclass(frozen=True)
class Row:
    """A case: its name, and the arguments of the test."""

    name: str
    arguments: dict[str, object]


@dataclass(frozen=True)
class Tabled:
    """A decorated function with its rows."""

    test: Test
    rows: list[Row]
    columns: frozenset[str]


def table(
    names: str | Sequence[str],
    rows: Iterable[object],
    ids: Iterable[str | None] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Run a test with each row. Decorated twice, it runs with each combination of rows."""
    columns = [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]
    values = [*rows]
    given = ids if ids is None or callable(ids) else [*ids]

    def decorate(test: Test) -> Test:
        if inspect.isgeneratorfunction(test) or inspect.isasyncgenfunction(test):
            raise TypeError(f"{test.__name__} has a `yield`: its rows would never run")
        if EACH_CASE:
            decorated: Test = pytest.mark.parametrize(names, values, ids=given)(test)
            return decorated
        read = read_rows(columns, values, given)
        inner: Tabled | None = getattr(test, "tabled", None)
        if inner is None:
            return _looped(Tabled(test, read, frozenset(columns)))
        return _looped(Tabled(inner.test, _combine(read, inner.rows), inner.columns.union(columns)))

    return decorate


def read_rows(columns: Sequence[str], rows: Sequence[object], ids: Ids | None = None) -> list[Row]:
    """The rows as pytest reads them: one column has bare values, several have tuples."""
    names = [None] * len(rows) if ids is None or callable(ids) else ids
    read = []
    for row, name in zip(rows, names, strict=True):
        values = _values(row, len(columns))
        if isinstance(row, _PARAM) and isinstance(row.id, str):
            name = row.id
        if name is None:
            show = ids if callable(ids) else repr
            name = "-".join(_shorten(str(show(value))) for value in values)
        read.append(Row(name, dict(zip(columns, values, strict=True))))
    return _number(read)


def _number(rows: Sequence[Row]) -> list[Row]:
    """Give rows with the same name, which may be cut, a number each."""
    count = Counter(row.name for row in rows)
    seen: Counter[str] = Counter()
    numbered = []
    for row in rows:
        seen[row.name] += 1
        is_alone = count[row.name] == 1
        name = row.name if is_alone else f"{row.name} ({seen[row.name]})"
        numbered.append(Row(name, row.arguments))
    return numbered


def _combine(outer: Sequence[Row], inner: Sequence[Row]) -> list[Row]:
    return [
        Row(f"{first.name}-{second.name}", first.arguments | second.arguments)
        for first in outer
        for second in inner
    ]


def _values(row: object, columns: int) -> tuple[object, ...]:
    if isinstance(row, _PARAM):
        if row.marks:
            raise ValueError("a row of a table cannot have marks: use pytest.mark.parametrize")
        return tuple(row.values)
    if columns == 1:
        return (row,)
    if not isinstance(row, tuple | list):
        raise TypeError(f"a row of {columns} columns is not a tuple: {row!r}")
    return tuple(row)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _looped(tabled: Tabled) -> Test:
    """The test of all rows. Its fixtures are those of the function, and `subtests`, which is used
    only for a row that fails: a subtest takes longer than most rows."""

    @wraps(tabled.test)
    def run(subtests: pytest.Subtests, **fixtures: Any) -> None:
        __tracebackhide__ = True
        for row in _some(tabled.rows):
            try:
                tabled.test(**row.arguments, **fixtures)
            except _FAILURES as failure:
                _report(subtests, row, failure)

    @wraps(tabled.test)
    async def run_async(subtests: pytest.Subtests, **fixtures: Any) -> None:
        __tracebackhide__ = True
        for row in _some(tabled.rows):
            try:
                await tabled.test(**row.arguments, **fixtures)
            except _FAILURES as failure:
                _report(subtests, row, failure)

    looped: Any = run_async if inspect.iscoroutinefunction(tabled.test) else run
    parameters = inspect.signature(tabled.test).parameters.values()
    fixtures = [each for each in parameters if each.name not in tabled.columns]
    subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    looped.__signature__ = inspect.Signature([*fixtures, subtests])
    looped.tabled = tabled
    function: Test = looped
    return function


def _some(rows: Sequence[Row]) -> Sequence[Row]:
    if not rows:
        pytest.skip("the table of this test is empty")
    return rows


def _report(subtests: pytest.Subtests, row: Row, failure: BaseException) -> None:
    __tracebackhide__ = True
    with subtests.test(row.name):
        raise failure
