"""The view of usage: numbers, costs, bars and the line of sums."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from antiphon.cli.usage_view import draw_bar, format_cost, format_count, make_usage_table
from antiphon.observe.usage import UsageColumn, UsageRow
from tests.support.tables import table


def row(**changes: Any) -> UsageRow:
    values: dict[str, Any] = dict.fromkeys(UsageRow.__struct_fields__[5:], 0)
    values |= {"first_event_p50_ms": None, "first_event_p95_ms": None}
    return UsageRow(**values | {"known_cost": changes.get("cost") or 0} | changes)


def draw(rows: list[UsageRow], *by: UsageColumn, width: int = 160) -> list[str]:
    output = io.StringIO()
    Console(file=output, width=width).print(make_usage_table(rows, by))
    return [" ".join(line.split()) for line in output.getvalue().splitlines() if line.strip()]


ALICE = row(client="alice", requests=12, failures=1, input_tokens=1_234_567, output_tokens=980)
PAID = row(client="bob", requests=3, cost=2.5, first_event_p50_ms=310.0, first_event_p95_ms=2000.0)


def test_rows_have_a_line_of_sums() -> None:
    header, _, bob, alice, total, caption = draw([PAID, ALICE], "client")
    assert header.split() == (
        "client requests failed input cached output p50 p95 cost relative cost".split()
    )
    assert bob == "bob 3 0 0 0 0 0.31 s 2.00 s $2.50 ████████████████"
    assert alice == "alice 12 1 1.23M 0 980 - - $0.00"
    assert total == "total 15 1 1.23M 0 980 - - $2.50"
    assert caption.startswith("p50, p95: the time to the first event")


def test_without_any_cost_the_bars_show_tokens() -> None:
    header, _, alice, _, unknown, *_ = draw(
        [row(client="a", cost=None, input_tokens=5, unpriced_requests=1)], "client"
    )
    assert unknown.startswith("?, ≥: the price of a model is unknown")
    assert header.endswith("relative tokens")
    assert alice.endswith("? ████████████████")


def test_a_narrow_terminal_keeps_names_requests_and_cost() -> None:
    model = "a-model-with-a-very-long-name-2026"
    rows = [row(client="alice", model=model, provider="openrouter", requests=7, cost=1.0)]
    for line in draw(rows, "client", "model", "provider", width=80):
        assert len(line) <= 80
    header, _, only, *_ = draw(rows, "client", "model", "provider", width=80)
    assert only.startswith(f"alice {model} openrouter 7")
    assert only.split()[header.split().index("cost")] == "$1.00"


@table(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00k"),
        (12_345, "12.3k"),
        (345_678, "346k"),
        (2 * 10**9, "2.00G"),
    ],
)
def test_counts_have_three_digits(count: int, text: str) -> None:
    assert format_count(count) == text


@table(
    ("changes", "text"),
    [
        ({"cost": 0.0}, "$0.00"),
        ({"cost": 0.0123}, "$0.0123"),
        ({"cost": 0.000021}, "$0.000021"),
        ({"cost": None, "known_cost": 0.0005}, "≥ $0.000500"),
        ({"cost": 1234.5}, "$1,234.50"),
        ({"cost": None, "known_cost": 0.0}, "?"),
        ({"cost": None, "known_cost": 3.0}, "≥ $3.00"),
    ],
)
def test_an_unknown_cost_is_never_zero(changes: dict[str, Any], text: str) -> None:
    assert format_cost(row(**changes)) == text


def test_a_bar_is_drawn_in_eighths_and_never_vanishes() -> None:
    assert draw_bar(0, 0) == draw_bar(0, 5) == ""
    assert draw_bar(1, 1000) == "▏"
    assert draw_bar(5, 10) == "████████"
