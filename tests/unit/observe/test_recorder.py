"""The usage recorder: ended requests become rows, many at a time, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from antiphon.core.response import InputTokensDetails, OutputTokensDetails, ResponseUsage
from antiphon.engine.accounting import Accounting
from antiphon.engine.fault_report import FaultReport
from antiphon.engine.report import RunReport
from antiphon.errors import StoreError
from antiphon.observe.recorder import KEEP_HOURS, UsageRecorder, count_requests
from antiphon.stages.log import Entry
from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey
from tests.support.stores import UsageRows

pytestmark = pytest.mark.anyio

USAGE = ResponseUsage(
    input_tokens=7,
    input_tokens_details=InputTokensDetails(2, 1),
    output_tokens=5,
    output_tokens_details=OutputTokensDetails(3),
    total_tokens=12,
)
HOUR_MS = 3600 * 1000


def ended(**changes: Any) -> RunReport:
    values: dict[str, Any] = {
        "request_id": "req_1",
        "received_at_ms": 20_000 * HOUR_MS + 5,
        "client": "me",
        "provider": "up",
        "model": "m",
        "status": "completed",
        "usage": USAGE,
        "cost": 42,
        "first_event_ms": 20.0,
    }
    return RunReport(**(values | changes))


class Broken(UsageRows):
    is_broken = True

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        if self.is_broken:
            raise StoreError("turns.db: the disk is full")
        await super().add(rows)


class Undeletable(UsageRows):
    is_broken = True

    async def delete_before(self, hour: int) -> None:
        if self.is_broken:
            raise StoreError("turns.db: the database is locked")
        await super().delete_before(hour)


class Stuck(UsageRows):
    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        await asyncio.Event().wait()


class Gated(UsageRows):
    def __init__(self) -> None:
        super().__init__()
        self.is_waiting = asyncio.Event()
        self.gate = asyncio.Event()

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        self.is_waiting.set()
        await self.gate.wait()
        await super().add(rows)


def named(counts: Sequence[int]) -> dict[str, int]:
    return {name: value for name, value in zip(COUNTS, counts, strict=True) if value}


def test_a_request_is_one_row() -> None:
    [(key, counts)] = count_requests([ended()]).items()
    assert key == UsageKey(20_000, "me", "m", "up")
    assert named(counts) == {
        "requests": 1,
        "input_tokens": 7,
        "cached_tokens": 2,
        "cache_write_tokens": 1,
        "output_tokens": 5,
        "reasoning_tokens": 3,
        "cost": 42,
        "first_event_03": 1,
    }


def test_a_failure_without_output_used_nothing() -> None:
    request = ended(status="failed", usage=None, cost=0, first_event_ms=None)
    [counts] = count_requests([request]).values()
    assert named(counts) == {"requests": 1, "failures": 1}


def test_an_unknown_cost_is_counted_as_unknown() -> None:
    [counts] = count_requests([ended(cost=None)]).values()
    assert named(counts)["unpriced"] == 1
    assert "cost" not in named(counts)


def test_requests_of_one_hour_client_and_model_are_added_up() -> None:
    failed = ended(status="failed", usage=None, cost=None, first_event_ms=None)
    later = ended(received_at_ms=20_001 * HOUR_MS)
    first, second = count_requests([ended(), failed, later, ended()]).items()
    assert (first[0].hour, second[0].hour) == (20_000, 20_001)
    assert named(second[1])["requests"] == 1
    assert named(first[1]) == {
        "requests": 3,
        "failures": 1,
        "input_tokens": 14,
        "cached_tokens": 4,
        "cache_write_tokens": 2,
        "output_tokens": 10,
        "reasoning_tokens": 6,
        "cost": 84,
        "unpriced": 1,
        "first_event_03": 2,
    }


async def written(*requests: RunReport) -> dict[str, int]:
    """Requests by the name of the model that they are counted under."""
    table, accounting = UsageRows(), Accounting()
    recorder = UsageRecorder(table, accounting, lambda entry: None)
    recorder.start()
    for each in requests:
        accounting.record(each)
    await recorder.flush()
    return {key.model: counts[0] for key, counts in (await table.read(0, 30_000)).items()}


async def test_a_model_that_no_provider_has_is_not_counted_under_the_name_that_clients_chose() -> (
    None
):
    failure = FaultReport(code="model_not_found")
    unknown = {"status": "failed", "usage": None, "failure": failure}
    names = await written(*(ended(model=f"x{n}", **unknown) for n in range(3)), ended())
    assert names == {"other": 3, "m": 1}


async def test_names_of_models_are_bounded_in_number_and_length() -> None:
    names = await written(*(ended(model=f"x{n}") for n in range(1100)), ended(model="x0" * 500))
    assert len(names) == 1001
    assert (names["x0"], names["other"]) == (1, 101)


async def test_all_requests_that_ended_are_written_at_once() -> None:
    table, accounting = UsageRows(), Accounting()
    recorder = UsageRecorder(table, accounting, lambda entry: None)
    recorder.start()
    for _ in range(5):
        accounting.record(ended())
    accounting.record(ended(client="you"))
    await recorder.flush()
    rows = await table.read(0, 30_000)
    assert {key.client: named(counts)["requests"] for key, counts in rows.items()} == {
        "me": 5,
        "you": 1,
    }
    assert not accounting.ended


async def test_what_a_broken_store_did_not_take_is_written_later() -> None:
    table, accounting, log = Broken(), Accounting(), list[Entry]()
    recorder = UsageRecorder(table, accounting, log.append)
    recorder.start()
    accounting.record(ended())
    await recorder.flush()
    assert [(entry.event, entry.level) for entry in log] == [("usage.not_written", "warning")]
    table.is_broken = False
    accounting.record(ended())
    await recorder.close()
    [counts] = (await table.read(0, 30_000)).values()
    assert named(counts)["requests"] == 2


async def test_after_the_end_nothing_is_counted() -> None:
    table, accounting = UsageRows(), Accounting()
    recorder = UsageRecorder(table, accounting, lambda entry: None)
    recorder.start()
    await recorder.close()
    accounting.record(ended())
    assert not accounting.ended


async def test_a_store_that_does_not_answer_delays_the_end_only_a_little() -> None:
    log: list[Entry] = []
    accounting = Accounting()
    recorder = UsageRecorder(Stuck(), accounting, log.append, close_s=0.01)
    recorder.start()
    accounting.record(ended())
    await recorder.close()
    assert [entry.event for entry in log] == ["usage.not_written"]


async def test_rows_older_than_a_year_are_deleted() -> None:
    table, accounting = UsageRows(), Accounting()
    recorder = UsageRecorder(table, accounting, lambda entry: None)
    recorder.start()
    accounting.record(ended(received_at_ms=(20_000 - KEEP_HOURS - 1) * HOUR_MS))
    accounting.record(ended())
    await recorder.flush()
    assert [key.hour for key in await table.read(0, 30_000)] == [20_000]


async def test_rows_that_were_written_are_not_written_again_if_old_ones_cannot_be_deleted() -> None:
    table, accounting, log = Undeletable(), Accounting(), list[Entry]()
    recorder = UsageRecorder(table, accounting, log.append)
    recorder.start()
    accounting.record(ended(received_at_ms=(20_000 - KEEP_HOURS - 1) * HOUR_MS))
    accounting.record(ended())
    await recorder.flush()
    table.is_broken = False
    accounting.record(ended())
    await recorder.flush()
    [counts] = (await table.read(0, 30_000)).values()
    assert named(counts)["requests"] == 2
    assert [entry.event for entry in log] == ["usage.not_deleted"]


async def test_requests_are_counted_also_if_who_asked_for_it_leaves_while_they_are_written() -> (
    None
):
    table, accounting = Gated(), Accounting()
    recorder = UsageRecorder(table, accounting, lambda entry: None)
    recorder.start()
    accounting.record(ended())
    flushing = asyncio.ensure_future(recorder.flush())  # for a reload, whose client leaves
    await table.is_waiting.wait()
    flushing.cancel()
    await asyncio.wait((flushing,))
    table.gate.set()
    accounting.record(ended())
    await recorder.close()
    [counts] = (await table.read(0, 30_000)).values()
    assert named(counts)["requests"] == 2
