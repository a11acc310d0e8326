"""Usage queries: rows grouped by any columns, with unknown costs left unknown."""

from __future__ import annotations

import pytest

from antiphon.observe.usage import USAGE_COLUMNS, UsageRow, query_usage, summarize_usage
from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey
from tests.support.stores import OpenMemory

pytestmark = pytest.mark.anyio

HOUR = 493_000  # 2026-03-29T16 UTC


def counts(**values: int) -> Counts:
    return tuple(values.get(name, 0) for name in COUNTS)


ROWS = {
    UsageKey(HOUR, "alice", "m", "up"): counts(
        requests=2, failures=1, input_tokens=10, cost=5_000_000_000, first_event_04=2
    ),
    UsageKey(HOUR + 1, "alice", "m", "up"): counts(requests=1, cost=1_000_000_000),
    UsageKey(HOUR + 24, "bob", "n", "up"): counts(requests=4, output_tokens=7, unpriced=1),
}


def test_rows_are_summed_by_client_model_and_provider() -> None:
    alice, bob = summarize_usage(ROWS)
    assert (alice.client, alice.model, alice.provider, alice.day) == ("alice", "m", "up", None)
    assert (alice.requests, alice.failures, alice.input_tokens, alice.cost) == (3, 1, 10, 6.0)
    assert (bob.client, bob.output_tokens) == ("bob", 7)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    [row] = summarize_usage(ROWS, ("provider",))
    assert (row.cost, row.known_cost, row.unpriced_requests) == (None, 6.0, 1)
    assert (row.client, row.model) == (None, None)


def test_time_is_in_order_whatever_it_cost() -> None:
    assert [row.day for row in summarize_usage(ROWS, ("day",))] == ["2026-03-29", "2026-03-30"]
    hours = [row.hour for row in summarize_usage(ROWS, ("hour", "client"))]
    assert hours == ["2026-03-29T16", "2026-03-29T17", "2026-03-30T16"]


def test_the_time_to_the_first_event_is_none_if_there_was_none() -> None:
    alice, bob = summarize_usage(ROWS, ("client",))
    assert alice.first_event_p50_ms == pytest.approx(27, rel=0.01)
    assert alice.first_event_p95_ms == pytest.approx(27, rel=0.01)
    assert bob.first_event_p50_ms is None


async def test_a_query_reads_the_hours_between_two_times(open_memory: OpenMemory) -> None:
    store = await open_memory(now=lambda: 0)
    await store.usage.add(ROWS)
    rows = await query_usage(store, since=HOUR * 3600, until=(HOUR + 1) * 3600 + 1, by=["client"])
    assert [(row.client, row.requests) for row in rows] == [("alice", 3)]


def test_every_column_is_a_field_of_a_row() -> None:
    assert {*USAGE_COLUMNS} <= {*UsageRow.__struct_fields__}
