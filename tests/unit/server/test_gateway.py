"""Availability of the store: checked by writing, not too often, and logged when it changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from antiphon.errors import StoreError
from antiphon.server.gateway import CHECK_EVERY_S, RejectionLog, StoreCheck
from antiphon.stages.log import Entry
from antiphon.store.sqlite.store import SQLiteStore


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class BrokenStore(SQLiteStore):
    """A store that fails as long as it has a reason to."""

    def __init__(self) -> None:
        super().__init__(None, now=lambda: 0)
        self.reason = ""
        self.checks = 0

    async def check(self) -> None:
        self.checks += 1
        if self.reason:
            raise StoreError(self.reason)


async def test_the_store_is_checked_at_most_once_per_interval() -> None:
    store, clock = BrokenStore(), Clock()
    check = StoreCheck(store, clock, lambda entry: None)
    for _ in range(3):
        assert await check.is_available()
    assert store.checks == 1
    store.reason = "turns.db: disk full"
    clock.now += CHECK_EVERY_S / 2
    assert await check.is_available()
    clock.now += CHECK_EVERY_S / 2
    assert not await check.is_available()
    assert store.checks == 2


async def test_each_change_is_logged_once_with_its_reason() -> None:
    store, clock = BrokenStore(), Clock()
    log: list[Entry] = []
    check = StoreCheck(store, clock, log.append)
    for reason in ("", "turns.db: disk full", "turns.db: disk full", "", ""):
        store.reason = reason
        clock.now += CHECK_EVERY_S
        assert await check.is_available() is (not reason)
    assert [(entry.event, entry.level, entry.facts) for entry in log] == [
        ("store.unavailable", "error", {"reason": "turns.db: disk full"}),
        ("store.available", "info", {"store": "memory"}),
    ]


class HangingStore(SQLiteStore):
    async def check(self) -> None:
        await asyncio.Event().wait()


async def test_a_store_that_does_not_answer_is_not_available() -> None:
    log: list[Entry] = []
    check = StoreCheck(HangingStore(None, now=lambda: 0), Clock(), log.append, timeout_s=0.0)
    assert not await check.is_available()
    assert log[0].facts == {"reason": "memory: no response within 0 s."}


async def test_checking_a_file_leaves_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    store = SQLiteStore(path, now=lambda: 0)
    await store.open()
    await store.check()
    assert store.name == "turns.db"
    path.rename(tmp_path / "moved.db")
    await store.check()  # a new file, because the directory is there
    assert path.exists()
    await store.close()


def test_equal_rejections_are_logged_once_a_minute_with_their_number() -> None:
    clock = Clock()
    log: list[Entry] = []
    rejections = RejectionLog(clock)
    wrong_route = {"client": "alice", "code": "not_found", "reason": "No route for GET /x."}
    for _ in range(3):
        rejections.log(log.append, wrong_route)
    rejections.log(log.append, {**wrong_route, "client": "bob"})
    clock.now = 61.0
    rejections.log(log.append, wrong_route)
    assert [entry.facts for entry in log] == [
        wrong_route,
        {**wrong_route, "client": "bob"},
        {**wrong_route, "repeated": 2},
    ]


def test_rejections_of_one_client_are_recorded_up_to_a_number_a_minute() -> None:
    clock = Clock()
    rejections = RejectionLog(clock)
    clock.now = 100.0
    assert [rejections.admits("") for _ in range(601)] == [True] * 600 + [False]
    assert rejections.admits("alice")
    clock.now = 120.0
    assert rejections.admits("")
