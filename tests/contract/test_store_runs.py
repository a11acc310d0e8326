"""The contract of `RunStore`, checked for every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.errors import ChainUnfinished, LeaseLost, StoreError, StoreRefused
from antiphon.store.run_log import (
    BEFORE_FIRST,
    FIRST_TOKEN,
    PAGE_BATCHES,
    ClaimedRun,
    EventPage,
    LoggedBatch,
    RunStart,
)
from antiphon.store.store import Store, Turn
from tests.support.store_backends import Backend
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio

RUNNING = RunStart(holder="p1", is_background=True, is_streamed=True)
QUEUED = RunStart(holder=None, is_background=True, is_streamed=True, request=b'{"x": 1}')
FOREGROUND = RunStart(holder="p1")


def started(id: str, status: str = "in_progress", **changes: Any) -> Turn:
    response = {"id": id, "object": "response", "status": status}
    return turn(id, status=status, output=(), response=response, **changes)


def batch(first: int, last: int) -> LoggedBatch:
    frames = b"".join(b'data: {"sequence_number":%d}\n\n' % n for n in range(first, last + 1))
    return LoggedBatch(first, last, frames)


def numbers(batches: Sequence[LoggedBatch]) -> list[int]:
    return [n for one in batches for n in range(one.first_seq, one.last_seq + 1)]


async def page(store: Store, id: str, after: int = BEFORE_FIRST, client: str = "") -> EventPage:
    found = await store.runs.read_events(id, after, client=client)
    assert found is not None
    return found


# --- beginning and ending -------------------------------------------------------------------------


async def test_a_response_is_found_from_its_first_moment_to_its_end(backend: Backend) -> None:
    store = await backend.open(ttl_s=None)
    await store.runs.renew("p1", 10)
    token = await store.runs.begin(started("r1"), RUNNING)
    assert token == FIRST_TOKEN
    assert await store.load("r1") == started("r1")
    assert await page(store, "r1") == ("in_progress", BEFORE_FIRST, ())
    await store.runs.append("r1", token, [batch(0, 1), batch(2, 2)])
    assert await page(store, "r1") == ("in_progress", 2, (batch(0, 1), batch(2, 2)))
    await store.runs.finish(turn("r1"), token, [batch(3, 5)])
    assert await store.load("r1") == turn("r1")
    assert await page(store, "r1", after=2) == ("completed", 5, (batch(3, 5),))


async def test_a_response_that_has_not_ended_cannot_be_continued(backend: Backend) -> None:
    store = await backend.open()
    token = await store.runs.begin(started("r1"), RUNNING)
    with pytest.raises(ChainUnfinished):
        await store.chain("r1")
    await store.runs.finish(turn("r1"), token)
    assert [one.id for one in await store.chain("r1")] == ["r1"]


async def test_a_reader_gets_the_batches_that_end_after_its_number(backend: Backend) -> None:
    store = await backend.open()
    token = await store.runs.begin(started("r1"), RUNNING)
    batches = [batch(0, 4), batch(5, 9), batch(10, 10)]
    await store.runs.append("r1", token, batches)
    for after, expected in [(-1, 3), (0, 3), (3, 3), (4, 2), (9, 1), (10, 0), (99, 0)]:
        found = await page(store, "r1", after)
        assert found.batches == tuple(batches[3 - expected :])
        assert found.last_seq == 10


async def test_a_long_log_is_read_page_by_page(backend: Backend) -> None:
    store = await backend.open()
    count = 2 * PAGE_BATCHES + 1
    token = await store.runs.begin(started("r1"), RUNNING)
    await store.runs.finish(turn("r1"), token, [batch(n, n) for n in range(count)])
    read: list[int] = []
    sizes = []
    while len(read) < count:
        found = await page(store, "r1", read[-1] if read else BEFORE_FIRST)
        read += numbers(found.batches)
        sizes.append(len(found.batches))
        assert found.last_seq == count - 1
    assert read == list(range(count))
    assert sizes == [PAGE_BATCHES, PAGE_BATCHES, 1]


@pytest.mark.parametrize("wrong", [batch(2, 3), batch(4, 5), batch(0, 0)])
async def test_a_number_is_neither_left_out_nor_given_twice(
    backend: Backend, wrong: LoggedBatch
) -> None:
    store = await backend.open()
    token = await store.runs.begin(started("r1"), RUNNING)
    await store.runs.append("r1", token, [batch(0, 2)])
    for write in (
        store.runs.append("r1", token, [wrong]),
        store.runs.finish(turn("r1"), token, [batch(3, 4), wrong]),
    ):
        with pytest.raises(StoreError, match="of response 'r1' do not follow event"):
            await write
    assert await page(store, "r1") == ("in_progress", 2, (batch(0, 2),))
    loaded = await store.load("r1")
    assert loaded is not None
    assert loaded.status == "in_progress"


async def test_a_run_that_has_ended_cannot_be_written(backend: Backend) -> None:
    store = await backend.open()
    token = await store.runs.begin(started("r1"), RUNNING)
    await store.runs.finish(turn("r1"), token, [batch(0, 0)])
    for write in (
        store.runs.append("r1", token, [batch(1, 1)]),
        store.runs.finish(turn("r1", status="failed"), token, [batch(1, 1)]),
        store.runs.append("unknown", token, [batch(0, 0)]),
        store.runs.finish(turn("unknown"), token),
    ):
        with pytest.raises(LeaseLost):
            await write
    assert await page(store, "r1") == ("completed", 0, (batch(0, 0),))
    assert await store.load("unknown") is None


async def test_a_turn_that_is_too_large_does_not_end_its_run(backend: Backend) -> None:
    store = await backend.open(max_turn_bytes=1000)
    token = await store.runs.begin(started("r1"), RUNNING)
    with pytest.raises(StoreRefused):
        await store.runs.finish(turn("r1", text="x" * 1000), token, [batch(0, 0)])
    await store.runs.finish(turn("r1", status="failed"), token, [batch(0, 0)])
    assert (await page(store, "r1")).status == "failed"


async def test_only_streamed_responses_keep_their_log(backend: Backend) -> None:
    store = await backend.open()
    start = RunStart(holder="p1", is_background=True)
    token = await store.runs.begin(started("r1"), start)
    await store.runs.finish(turn("r1"), token)
    assert await store.runs.read_events("r1", -1) is None
    assert await store.load("r1") is not None


@pytest.mark.parametrize("holder", ["p1", None])
async def test_a_response_that_is_not_streamed_has_no_log(
    backend: Backend, holder: str | None
) -> None:
    store = await backend.open()
    await store.runs.begin(started("r1"), RunStart(holder=holder, is_background=True))
    assert await store.runs.read_events("r1", BEFORE_FIRST) is None
    assert await store.runs.request_cancel("r1") == "in_progress"


async def test_a_log_is_kept_for_its_time_and_the_response_longer(
    backend: Backend, clock: Clock
) -> None:
    store = await backend.open(log_ttl_s=100)
    token = await store.runs.begin(started("r1"), RUNNING)
    clock.now += 1000  # a log is kept while its run goes on
    await store.runs.finish(turn("r1"), token, [batch(0, 0)])
    clock.now += 99
    assert (await page(store, "r1")).last_seq == 0
    clock.now += 1
    assert await store.runs.read_events("r1", -1) is None
    assert await store.load("r1") is not None
    assert await store.runs.request_cancel("r1") == "completed"


# --- beginning later ------------------------------------------------------------------------------


async def test_a_short_response_is_saved_by_its_end(backend: Backend) -> None:
    store = await backend.open(ttl_s=None)
    store.runs.begin_later(started("r1"), FOREGROUND)
    await store.runs.finish(turn("r1"), FIRST_TOKEN)
    assert await store.load("r1") == turn("r1")
    with pytest.raises(LeaseLost):
        await store.runs.finish(turn("r1", status="failed"), FIRST_TOKEN)


async def test_a_response_deleted_before_it_was_written_is_not_saved_by_its_end(
    backend: Backend,
) -> None:
    store = await backend.open()
    store.runs.begin_later(started("r1", client="me"), FOREGROUND)
    assert await store.delete("r1", client="them") is False
    assert await store.delete("r1", client="me") is True
    with pytest.raises(LeaseLost):
        await store.runs.finish(turn("r1", client="me"), FIRST_TOKEN)
    assert await store.load("r1", client="me") is None


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_a_response_does_not_expire_before_it_has_ended(
    backend: Backend, clock: Clock, status: str
) -> None:
    store = await backend.open(ttl_s=100)
    start = QUEUED if status == "queued" else RUNNING
    token = await store.runs.begin(started("r1", status), start)
    clock.now += 1000
    await store.save(turn("other"))  # deletes what has expired
    assert await store.load("r1") == started("r1", status)
    assert (await store.runs.renew("p1", 10)).deleted == ()
    await store.runs.finish(turn("r1"), token)
    clock.now += 99
    assert await store.load("r1") is not None
    clock.now += 1
    assert await store.load("r1") is None


# --- queued responses -----------------------------------------------------------------------------


async def test_queued_responses_are_claimed_once_and_oldest_first(backend: Backend) -> None:
    store = await backend.open(ttl_s=None)
    for id in ("r1", "r2", "r3"):
        await store.runs.begin(started(id, "queued"), QUEUED)
    first = await store.runs.claim("p1", 2)
    assert [claimed.turn.id for claimed in first] == ["r1", "r2"]
    assert first[0] == ClaimedRun(
        started("r1"),
        RunStart(holder="p1", is_background=True, is_streamed=True, request=b'{"x": 1}'),
        FIRST_TOKEN + 1,
        BEFORE_FIRST,
        False,
    )
    assert await store.load("r1") == started("r1")
    assert await store.load("r3") == started("r3", "queued")
    second = await store.runs.claim("p2", 2)
    assert [claimed.turn.id for claimed in second] == ["r3"]
    assert await store.runs.claim("p2", 2) == []


async def claim_ids(store: Store, limit: int) -> list[str]:
    return [claimed.turn.id for claimed in await store.runs.claim("p1", limit)]


async def test_places_are_given_to_clients_in_turn(backend: Backend) -> None:
    store = await backend.open()
    for number in range(5):
        await store.runs.begin(started(f"a{number}", "queued", client="a"), QUEUED)
    for number in range(2):
        await store.runs.begin(started(f"b{number}", "queued", client="b"), QUEUED)
    await store.runs.begin(started("n0", "queued"), QUEUED)
    assert await claim_ids(store, 5) == ["a0", "b0", "n0", "a1", "b1"]
    assert await claim_ids(store, 5) == ["a2", "a3", "a4"]


async def test_who_has_places_already_waits_for_those_who_have_none(backend: Backend) -> None:
    store = await backend.open()
    for number in range(3):
        await store.runs.begin(started(f"a{number}", client="a"), RUNNING)
        await store.runs.begin(started(f"f{number}", client="b"), FOREGROUND)
    for number in range(3, 6):
        await store.runs.begin(started(f"a{number}", "queued", client="a"), QUEUED)
    for number in range(2):
        await store.runs.begin(started(f"b{number}", "queued", client="b"), QUEUED)
    assert await claim_ids(store, 1) == ["b0"]
    for number in range(3):
        await store.runs.finish(turn(f"a{number}", client="a"), FIRST_TOKEN)
    assert await claim_ids(store, 2) == ["a3", "a4"]  # one each before the second of the other
    assert await claim_ids(store, 1) == ["b1"]


async def end_claimed(store: Store, limit: int = 1) -> list[str]:
    """Claim and end queued responses, so that their places are free again."""
    claimed = await store.runs.claim("p1", limit)
    for each in claimed:
        ended = turn(each.turn.id, client=each.turn.client)
        await store.runs.finish(ended, each.token)
    return [each.turn.id for each in claimed]


async def test_a_single_place_goes_to_the_client_that_was_served_longest_ago(
    backend: Backend,
) -> None:
    store = await backend.open()
    for number in range(5):
        await store.runs.begin(started(f"a{number}", "queued", client="a"), QUEUED)
    for number in range(2):
        await store.runs.begin(started(f"b{number}", "queued", client="b"), QUEUED)
    assert [await end_claimed(store) for _ in range(2)] == [["a0"], ["b0"]]
    await store.runs.begin(started("n0", "queued"), QUEUED)
    order = [id for _ in range(5) for id in await end_claimed(store)]
    assert order == ["n0", "a1", "b1", "a2", "a3"]
    await store.runs.begin(started("b2", "queued", client="b"), QUEUED)
    assert await end_claimed(store) == ["b2"]


async def test_the_last_free_place_is_shared_while_others_hold_the_rest(backend: Backend) -> None:
    store = await backend.open()
    await store.runs.begin(started("c0", client="c"), RUNNING)
    for number in range(4):
        await store.runs.begin(started(f"a{number}", "queued", client="a"), QUEUED)
    await store.runs.begin(started("b0", "queued", client="b"), QUEUED)
    await store.runs.begin(started("c1", "queued", client="c"), QUEUED)
    order = [id for _ in range(6) for id in await end_claimed(store)]
    assert order == ["a0", "b0", "a1", "a2", "a3", "c1"]  # c has the other place


async def test_a_cancelled_response_takes_no_turn_of_its_client(backend: Backend) -> None:
    store = await backend.open()
    for id, client in (("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b")):
        await store.runs.begin(started(id, "queued", client=client), QUEUED)
    assert await end_claimed(store) == ["a0"]
    (claimed,) = await store.runs.claim("p1", 1, response_id="b0")
    await store.runs.finish(turn("b0", status="cancelled", client="b"), claimed.token)
    assert await end_claimed(store) == ["b1"]


async def test_items_of_a_claimed_response_are_still_found(backend: Backend) -> None:
    store = await backend.open()
    item = {"type": "message", "id": "in_1", "role": "user", "content": "Hello?"}
    await store.runs.begin(started("r1", "queued", input=(item,)), QUEUED)
    await store.runs.claim("p1", 1)
    assert await store.load_items(["in_1"]) == {"in_1": item}


async def test_the_token_from_before_a_claim_is_refused(backend: Backend) -> None:
    store = await backend.open()
    old = await store.runs.begin(started("r1", "queued"), QUEUED)
    (claimed,) = await store.runs.claim("p1", 1)
    with pytest.raises(LeaseLost):
        await store.runs.append("r1", old, [batch(0, 0)])
    await store.runs.append("r1", claimed.token, [batch(0, 0)])


async def test_one_queued_response_can_be_claimed_to_cancel_it(backend: Backend) -> None:
    store = await backend.open()
    for id in ("r1", "r2", "r3"):
        await store.runs.begin(started(id, "queued"), QUEUED)
    assert await store.runs.request_cancel("r2") == "queued"
    (claimed,) = await store.runs.claim("p1", 1, response_id="r2")
    assert (claimed.turn.id, claimed.is_cancel_requested) == ("r2", True)
    await store.runs.finish(turn("r2", status="cancelled"), claimed.token, [batch(0, 0)])
    assert await store.runs.claim("p1", 1, response_id="r2") == []
    assert await store.runs.request_cancel("r2") == "cancelled"
    assert [one.turn.id for one in await store.runs.claim("p1", 9)] == ["r1", "r3"]


# --- leases ---------------------------------------------------------------------------------------


async def test_a_run_is_taken_over_when_the_lease_of_its_holder_expires(
    backend: Backend, clock: Clock
) -> None:
    store = await backend.open(ttl_s=None)
    await store.runs.renew("p1", 10)
    token = await store.runs.begin(started("r1"), RUNNING)
    await store.runs.append("r1", token, [batch(0, 2)])
    await store.runs.renew("p2", 100)
    clock.now += 9
    assert await store.runs.claim_expired("p2", 10) == []
    clock.now += 1
    (expired,) = await store.runs.claim_expired("p2", 10)
    assert (expired.turn, expired.last_seq) == (started("r1"), 2)
    assert await store.runs.claim_expired("p2", 10) == []
    for late in (
        store.runs.append("r1", token, [batch(3, 3)]),
        store.runs.finish(turn("r1"), token, [batch(3, 3)]),
    ):
        with pytest.raises(LeaseLost):
            await late
    await store.runs.finish(turn("r1", status="failed"), expired.token, [batch(3, 3)])
    assert await page(store, "r1", after=2) == ("failed", 3, (batch(3, 3),))


async def test_a_renewed_lease_and_a_run_that_has_ended_do_not_expire(
    backend: Backend, clock: Clock
) -> None:
    store = await backend.open()
    await store.runs.renew("p1", 10)
    await store.runs.begin(started("r1"), RUNNING)
    await store.runs.begin(started("queued", "queued"), QUEUED)
    token = await store.runs.begin(started("r2"), RUNNING)
    await store.runs.finish(turn("r2"), token, [batch(0, 0)])
    for _ in range(3):
        clock.now += 9
        await store.runs.renew("p1", 10)
        assert await store.runs.claim_expired("p2", 10) == []


async def test_a_lease_of_zero_seconds_ends_at_once(backend: Backend) -> None:
    store = await backend.open()
    await store.runs.renew("p1", 10)
    await store.runs.begin(started("r1"), RUNNING)
    await store.runs.renew("p1", 0)
    (expired,) = await store.runs.claim_expired("p2", 10)
    assert expired.turn.id == "r1"


async def test_who_takes_over_a_run_must_hold_a_lease_itself(
    backend: Backend, clock: Clock
) -> None:
    store = await backend.open()
    await store.runs.begin(started("r1"), RUNNING)
    (first,) = await store.runs.claim_expired("p2", 10)
    (second,) = await store.runs.claim_expired("p3", 10)
    with pytest.raises(LeaseLost):
        await store.runs.finish(turn("r1", status="failed"), first.token)
    await store.runs.finish(turn("r1", status="failed"), second.token)
    assert await store.runs.claim_expired("p4", 10) == []


# --- cancelling and deleting ----------------------------------------------------------------------


async def test_the_holder_of_a_run_is_told_to_cancel_it(backend: Backend) -> None:
    store = await backend.open()
    for holder in ("p1", "p2"):
        await store.runs.renew(holder, 10)
    token = await store.runs.begin(started("r1", client="me"), RUNNING)
    assert await store.runs.request_cancel("r1", client="them") is None
    assert await store.runs.request_cancel("r2", client="me") is None
    assert await store.runs.renew("p1", 10) == ((), ())
    assert await store.runs.request_cancel("r1", client="me") == "in_progress"
    for _ in range(2):
        assert await store.runs.renew("p1", 10) == (("r1",), ())
    assert await store.runs.renew("p2", 10) == ((), ())
    await store.runs.finish(turn("r1", client="me", status="cancelled"), token)
    assert await store.runs.renew("p1", 10) == ((), ())
    assert await store.runs.request_cancel("r1", client="me") == "cancelled"


async def test_the_holder_of_a_run_is_told_once_that_it_was_deleted(backend: Backend) -> None:
    store = await backend.open()
    await store.runs.renew("p1", 10)
    token = await store.runs.begin(started("r1"), RUNNING)
    await store.runs.append("r1", token, [batch(0, 0)])
    assert await store.delete("r1") is True
    assert await store.runs.renew("p1", 10) == ((), ("r1",))
    assert await store.runs.renew("p1", 10) == ((), ())
    assert await store.runs.read_events("r1", -1) is None
    for write in (
        store.runs.append("r1", token, [batch(1, 1)]),
        store.runs.finish(turn("r1"), token, [batch(1, 1)]),
    ):
        with pytest.raises(LeaseLost):
            await write
    assert await store.load("r1") is None


async def test_a_deleted_response_leaves_no_queued_run_and_no_log(backend: Backend) -> None:
    store = await backend.open()
    await store.runs.begin(started("queued", "queued"), QUEUED)
    token = await store.runs.begin(started("ended"), RUNNING)
    await store.runs.finish(turn("ended"), token, [batch(0, 0)])
    for id in ("queued", "ended"):
        assert await store.delete(id) is True
        assert await store.runs.read_events(id, -1) is None
    assert await store.runs.claim("p1", 9) == []
    await store.save(turn("ended"))
    assert await store.runs.read_events("ended", -1) is None


async def test_a_log_is_read_only_by_the_owner_of_its_response(backend: Backend) -> None:
    store = await backend.open()
    await store.runs.begin(started("r1", client="me"), RUNNING)
    for other in ("", "them"):
        assert await store.runs.read_events("r1", -1, client=other) is None
    assert (await page(store, "r1", client="me")).status == "in_progress"
    assert await store.runs.read_events("\ud800", -1) is None


async def test_one_refused_write_does_not_fail_the_others(backend: Backend) -> None:
    store = await backend.open()
    tokens = [await store.runs.begin(started(f"r{n}"), RUNNING) for n in range(20)]
    writes = (
        store.runs.append(f"r{n}", token + n % 2, [batch(0, 0)]) for n, token in enumerate(tokens)
    )
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(result, LeaseLost) for result in results] == [n % 2 == 1 for n in range(20)]
    assert [(await page(store, f"r{n}")).last_seq for n in range(20)] == [0, -1] * 10


# --- several processes ----------------------------------------------------------------------------


async def test_two_processes_share_the_queue_and_the_logs(shared_backend: Backend) -> None:
    one, two = await shared_backend.open(), await shared_backend.open()
    for number in range(40):
        await one.runs.begin(started(f"r{number}", "queued"), QUEUED)

    async def claim_all(store: Store, holder: str) -> list[str]:
        claimed = []
        while found := await store.runs.claim(holder, 3):
            claimed += [run.turn.id for run in found]
            for run in found:
                end = turn(run.turn.id)
                await store.runs.finish(end, run.token, [batch(0, 1)])
        return claimed

    claimed = await asyncio.gather(claim_all(one, "p1"), claim_all(two, "p2"))
    assert sorted(claimed[0] + claimed[1]) == sorted(f"r{number}" for number in range(40))
    for number in range(40):
        assert await page(two, f"r{number}") == ("completed", 1, (batch(0, 1),))


async def test_a_process_sees_and_fences_the_runs_of_another(
    shared_backend: Backend, clock: Clock
) -> None:
    one, two = await shared_backend.open(), await shared_backend.open()
    await one.runs.renew("p1", 10)
    token = await one.runs.begin(started("r1"), RUNNING)
    await one.runs.append("r1", token, [batch(0, 0)])
    assert (await page(two, "r1")).last_seq == 0
    assert await two.runs.request_cancel("r1") == "in_progress"
    assert (await one.runs.renew("p1", 10)).cancelled == ("r1",)
    clock.now += 10
    (expired,) = await two.runs.claim_expired("p2", 1)
    with pytest.raises(LeaseLost):
        await one.runs.append("r1", token, [batch(1, 1)])
    await two.runs.finish(turn("r1", status="failed"), expired.token, [batch(1, 1)])
    assert await page(one, "r1") == ("failed", 1, (batch(0, 0), batch(1, 1)))
