"""Usage queries: requests, tokens, cost and time to the first event, grouped by any columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from antiphon.engine.accounting import DOLLAR
from antiphon.store.store import Store
from antiphon.store.usage.histogram import percentile
from antiphon.store.usage.usage_table import (
    COUNTS,
    FIRST_BUCKET,
    HOUR_S,
    Counts,
    UsageKey,
    add_counts,
)

UsageColumn: TypeAlias = Literal["day", "hour", "client", "model", "provider"]
"""What rows may be grouped by. Day and hour are UTC."""

USAGE_COLUMNS: tuple[UsageColumn, ...] = get_args(UsageColumn)
DEFAULT_BY: tuple[UsageColumn, ...] = ("client", "model", "provider")


class UsageRow(Struct, frozen=True, kw_only=True):
    """Sums over requests. A column that rows are not grouped by is None."""

    day: str | None = None
    """Such as `2026-11-16`, UTC."""
    hour: str | None = None
    """Such as `2026-11-16T09`, UTC."""
    client: str | None = None
    model: str | None = None
    """The model that served it, as its provider names it."""
    provider: str | None = None
    requests: int
    failures: int
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: float | None
    """In US dollars. None: the price of a part of the tokens is unknown, and so is the sum."""
    known_cost: float
    """The sum of the costs that are known."""
    unpriced_requests: int
    """Requests whose cost is unknown."""
    first_event_p50_ms: float | None
    """Median time to the first event; None: no request had one."""
    first_event_p95_ms: float | None


async def query_usage(
    store: Store,
    *,
    since: int,
    until: int,
    by: Sequence[UsageColumn] = DEFAULT_BY,
) -> list[UsageRow]:
    """Sum up the requests between two Unix times, to the hour; one row for each group that has
    any, the largest cost first, or by time if that is grouped by. Raises `StoreError`."""
    rows = await store.usage.read(since // HOUR_S, until // HOUR_S)
    return summarize_usage(rows, by)


def summarize_usage(
    rows: Mapping[UsageKey, Counts], by: Sequence[UsageColumn] = DEFAULT_BY
) -> list[UsageRow]:
    """Sum up rows of the usage table by some of their columns."""
    groups: dict[tuple[str, ...], Counts] = {}
    for key, counts in rows.items():
        group = tuple(_read_column(key, column) for column in by)
        groups[group] = add_counts(groups[group], counts) if group in groups else counts
    found = [_make_row(dict(zip(by, group, strict=True)), groups[group]) for group in groups]
    return sorted(found, key=_sort_key)


def _read_column(key: UsageKey, column: UsageColumn) -> str:
    if column in ("day", "hour"):
        at = datetime.fromtimestamp(key.hour * HOUR_S, UTC)
        return at.strftime("%Y-%m-%d" if column == "day" else "%Y-%m-%dT%H")
    return str(getattr(key, column))


def _make_row(group: Mapping[str, Any], counts: Counts) -> UsageRow:
    sums: dict[str, Any] = dict(zip(COUNTS[:FIRST_BUCKET], counts, strict=False))
    known = sums.pop("cost") / DOLLAR
    unpriced = sums.pop("unpriced")
    histogram = counts[FIRST_BUCKET:]
    return UsageRow(
        **group,
        **sums,
        cost=None if unpriced else known,
        known_cost=known,
        unpriced_requests=unpriced,
        first_event_p50_ms=percentile(histogram, 0.5),
        first_event_p95_ms=percentile(histogram, 0.95),
    )


def _sort_key(row: UsageRow) -> tuple[str, float, int, str]:
    name = " ".join(filter(None, (row.client, row.model, row.provider)))
    return row.hour or row.day or "", -row.known_cost, -row.requests, name
