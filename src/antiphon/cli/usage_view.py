"""View of usage on a terminal: a table with a small bar chart, and a line of sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from antiphon.cli.terminal import make_table
from antiphon.observe.usage import UsageColumn, UsageRow

_BAR_WIDTH = 16
_EIGHTHS = " ▏▎▍▌▋▊▉"


def make_usage_table(rows: Sequence[UsageRow], by: Sequence[UsageColumn]) -> Table:
    """Make a table of rows that are grouped by these columns; the bars compare cost, or tokens
    where no cost is known."""
    numbers = ("requests", "failed", "input", "cached", "output", "p50", "p95", "cost")
    has_cost = any(row.known_cost for row in rows)
    chart = "relative cost" if has_cost else "relative tokens"
    optional = (chart, "output", "input", "failed", "p95", "p50", "cached")
    table = make_table(*by, *numbers, chart, right=numbers, optional=optional)
    table.caption = "p50, p95: the time to the first event, of half and of 95 % of the requests"
    if any(row.cost is None for row in rows):
        table.caption += "\n?, ≥: the price of a model is unknown; set it in [prices]"
    table.caption_style = "dim"
    table.caption_justify = "left"
    measure: Callable[[UsageRow], float] = _read_known_cost if has_cost else _count_tokens
    largest = max(map(measure, rows), default=0)
    for row in rows:
        bar = Text(draw_bar(measure(row), largest), style="cyan")
        table.add_row(*_group_cells(row, by), *_number_cells(row), bar)
    if len(rows) > 1:
        rest = [""] * (len(by) - 1)
        table.add_row(Text("total", style="bold"), *rest, *_number_cells(_sum_rows(rows)), "")
    return table


def draw_bar(value: float, largest: float) -> str:
    """Draw a bar in eighths of a character."""
    eighths = round(value / largest * _BAR_WIDTH * 8) if largest else 0
    if value and not eighths:
        eighths = 1
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _read_known_cost(row: UsageRow) -> float:
    return row.known_cost


def _count_tokens(row: UsageRow) -> float:
    return row.input_tokens + row.output_tokens


def _group_cells(row: UsageRow, by: Sequence[UsageColumn]) -> list[Text]:
    return [Text(getattr(row, name) or "-", style="bold" if name == by[0] else "") for name in by]


def _number_cells(row: UsageRow) -> list[str | Text]:
    return [
        f"{row.requests:,}",
        Text(f"{row.failures:,}", style="red" if row.failures else "dim"),
        format_count(row.input_tokens),
        format_count(row.cached_tokens),
        format_count(row.output_tokens),
        _format_seconds(row.first_event_p50_ms),
        _format_seconds(row.first_event_p95_ms),
        format_cost(row),
    ]


def format_count(count: int) -> str:
    """Format a number of tokens with three digits: 950, 12.3k, 4.56M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            scaled = count / size
            return f"{scaled:.{max(0, 2 - len(str(int(scaled))) + 1)}f}{unit}"
    return str(count)


def format_cost(row: UsageRow) -> str:
    """Format a cost; a part that is unknown makes it a lower bound, or a question mark."""
    if row.cost is not None:
        return format_dollars(row.cost)
    return f"≥ {format_dollars(row.known_cost)}" if row.known_cost else "?"


def format_dollars(amount: float) -> str:
    """Format dollars with as many digits as a small amount needs: it is not nothing."""
    digits = 2 if amount == 0 or amount >= 1 else 4 if amount >= 0.01 else 6
    return f"${amount:,.{digits}f}"


def _format_seconds(ms: float | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"


def _sum_rows(rows: Sequence[UsageRow]) -> UsageRow:
    """Sum up rows. Percentiles cannot be added."""
    names = (
        *("requests", "failures", "input_tokens", "cached_tokens", "cache_write_tokens"),
        *("output_tokens", "reasoning_tokens", "known_cost", "unpriced_requests"),
    )
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in names}
    cost = None if sums["unpriced_requests"] else sums["known_cost"]
    return UsageRow(**sums, cost=cost, first_event_p50_ms=None, first_event_p95_ms=None)
