"""The order of logged batches, fencing tokens, and the status of an unfinished turn."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import LeaseLost, StoreError
from antiphon.store.run_log import (
    FIRST_TOKEN,
    LaterRuns,
    LoggedBatch,
    RunStart,
    check_order,
    check_token,
    with_status,
)
from antiphon.store.turn import Turn
from tests.support.tables import table
from tests.support.turns import turn


def test_batches_that_follow_each_other_end_at_the_last_number() -> None:
    batches = [LoggedBatch(0, 3, b""), LoggedBatch(4, 4, b"")]
    assert check_order("r", -1, batches, "file") == 4
    assert check_order("r", 7, [], "file") == 7


@table("batches", [[(1, 1)], [(0, 0), (0, 1)], [(0, 0), (2, 2)], [(0, -1)], [(-1, 0)]])
def test_a_gap_or_an_overlap_names_file_response_and_numbers(
    batches: list[tuple[int, int]],
) -> None:
    with pytest.raises(StoreError) as caught:
        check_order("r", -1, [LoggedBatch(*batch, b"") for batch in batches], "file")
    first, last = batches[-1]
    assert f"file: events {first} to {last} of response 'r' do not follow" in caught.value.message


def test_another_token_or_none_has_lost_the_lease() -> None:
    check_token("r", 2, 2)
    for current in (1, 3, None):
        with pytest.raises(LeaseLost) as caught:
            check_token("r", 2, current)
        assert (caught.value.code, caught.value.response_id) == ("store.lease_lost", "r")


def test_the_status_of_a_turn_is_also_that_of_its_response() -> None:
    changed = with_status(turn("r", response={"id": "r", "status": "queued"}), "in_progress")
    assert (changed.status, changed.response) == (
        "in_progress",
        {"id": "r", "status": "in_progress"},
    )


async def test_whoever_leaves_while_a_run_is_written_does_not_stop_the_write() -> None:
    is_written = asyncio.Event()

    async def begin(turn: Turn, start: RunStart) -> int:
        await is_written.wait()
        return FIRST_TOKEN

    runs = LaterRuns(begin)
    runs.add(turn("r"), RunStart(holder="p"))
    deleting = asyncio.create_task(runs.begin_now("r"))
    await asyncio.sleep(0)
    ending = asyncio.create_task(runs.end("r"))
    await asyncio.sleep(0)
    deleting.cancel()
    await asyncio.wait((deleting,))
    is_written.set()
    assert await ending is True
    await runs.close()
