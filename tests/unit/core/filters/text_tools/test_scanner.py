"""The incremental scanner: it waits for text that has not come, and knows how far it has read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from antiphon.core.filters.text_tools.scanner import MarkupScanner, Scan
from antiphon.errors import FormatMismatch
from tests.support.tables import table


def run(scanner: MarkupScanner, scan: Scan[Any], fragments: Iterable[str]) -> Any:
    """What a scan returns when the text comes in these fragments."""
    for fragment in fragments:
        try:
            next(scan)
        except StopIteration as end:
            return end.value
        scanner.extend(fragment)
    try:
        next(scan)
    except StopIteration as end:
        return end.value
    return None  # it still waits


@table(
    ("method", "arguments", "text", "result", "length"),
    [
        ("spaces", [], " \n x", " \n ", 3),
        ("mark", ["<a>", "<b>"], "<b>x", "<b>", 3),
        ("mark", ["<a>", "<b>"], "<c>", None, 0),
        ("expect", ["{"], "  {", "{", 3),
        ("until", ["</a>"], "x</b></a>y", "x</b>", 9),
        ("name", [], " read_file>", "read_file", 10),
        ("json", ["{"], '"a": "}\\"", "b": [1]} x', '{"a": "}\\"", "b": [1]}', 21),
    ],
)
def test_a_scan_reads_the_same_however_the_text_is_cut(
    method: str, arguments: list[str], text: str, result: str | None, length: int
) -> None:
    for fragments in ([text], list(text)):
        scanner = MarkupScanner("[x]", 3)
        assert run(scanner, getattr(scanner, method)(*arguments), fragments) == result
        assert scanner.length == length


@pytest.mark.parametrize(
    ("method", "arguments", "text", "length"),
    [
        ("expect", ["{"], " [", 1),
        ("name", [], " <b>", 1),
        ("name", [], "n" * 129, 0),
        ("json", ["{"], '"a": <', 5),
    ],
)
def test_the_scanner_stands_before_the_text_that_does_not_match(
    method: str, arguments: list[str], text: str, length: int
) -> None:
    for fragments in ([text], list(text)):
        scanner = MarkupScanner("", 0)
        with pytest.raises(FormatMismatch):
            run(scanner, getattr(scanner, method)(*arguments), fragments)
        assert scanner.length == length


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("spaces", [], "  "),
        ("mark", ["<tool>"], "<to"),
        ("until", ["</a>"], "x</"),
        ("name", [], "read"),
        ("json", ["["], '"a'),
    ],
)
def test_a_scan_waits_where_more_text_could_change_the_result(
    method: str, arguments: list[str], text: str
) -> None:
    scanner = MarkupScanner("", 0)
    assert run(scanner, getattr(scanner, method)(*arguments), [text]) is None
