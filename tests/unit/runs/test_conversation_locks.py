"""Locks of conversations: refused, released, handed over."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from antiphon.core.request import Request
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest, StoreUnavailable
from antiphon.runs.conversation_locks import RENEW_S, ConversationLocks
from antiphon.store.conversation import Conversation
from antiphon.store.store import Store
from tests.support.applications import OpenApplication, open_application
from tests.support.loop_clock import loop_clock
from tests.support.request_body import parse_body

CALLER = Caller("me", "req_1")


def make_request(conversation: str = "conv_1", model: str = "echo/echo") -> Request:
    body = {"model": model, "input": "Hello?", "conversation": conversation}
    return parse_body(json.dumps(body).encode())


REQUEST = make_request()


async def make_locks(opened: OpenApplication) -> ConversationLocks:
    store = opened.engine.services.store
    await store.conversations.create(Conversation(id="conv_1", created_at=0, client="me"), [])
    return ConversationLocks(opened.engine.services)


async def unlocked(locks: ConversationLocks) -> None:
    """Let the unlocking that was started come to its end."""
    while locks._tasks:
        await asyncio.wait(locks._tasks)


async def create(
    locks: ConversationLocks, opened: OpenApplication, request: Request = REQUEST
) -> Run:
    """Create the run of a request with a conversation."""
    engine = opened.engine
    with ExitStack() as held:
        run = Run(engine.services, await locks.prepare(engine, request, CALLER, held))
        run.hold(held.pop_all())
        return run


async def test_a_conversation_is_refused_while_a_run_has_it() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        run = await create(locks, opened)
        for other in (locks, ConversationLocks(opened.engine.services)):
            with pytest.raises(InvalidRequest) as caught:
                await create(other, opened)
            assert (caught.value.status, caught.value.wire_code) == (400, "conversation_locked")
        async with run:  # and left without an end
            pass
        await create(locks, opened)  # at once: its client knows of the end


async def test_a_run_that_is_discarded_leaves_no_lock() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        run = await create(locks, opened)
        run.discard()
        assert await create(locks, opened) is not run


async def test_an_unknown_conversation_is_not_found() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        with pytest.raises(InvalidRequest) as caught:
            await create(locks, opened, make_request("conv_2"))
        assert (caught.value.status, caught.value.param) == (404, "conversation")


async def test_a_request_that_is_rejected_leaves_no_lock() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        with pytest.raises(InvalidRequest):
            await create(locks, opened, make_request(model="nobody/nothing"))
        await unlocked(locks)
        await create(locks, opened)


async def test_a_lock_that_was_handed_over_is_not_released_with_the_run() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        run = await create(locks, opened)
        locks.hand_over(run.prepared.response.id)
        async with run:
            pass
        await unlocked(locks)
        with pytest.raises(InvalidRequest):
            await create(locks, opened)
        await opened.engine.services.store.save(
            run.prepared.make_turn(run.prepared.response, "echo"), conversation_id="conv_1"
        )
        await create(locks, opened)


class AwayStore:
    """A store of which no conversation can be unlocked while it is away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_away = True
        self.unlocked = 0
        self.conversations = self

    async def unlock(self, conversation_id: str, response_id: str) -> None:
        self.unlocked += 1
        if self.is_away:
            raise StoreUnavailable("the database is away")
        await self._store.conversations.unlock(conversation_id, response_id)

    def __getattr__(self, name: str) -> Any:
        owner = self._store if hasattr(self._store, name) else self._store.conversations
        return getattr(owner, name)


async def test_a_conversation_that_could_not_be_unlocked_is_unlocked_later() -> None:
    """Its lease does not end while this process has another lock."""
    async with open_application() as opened:
        store: Any = AwayStore(opened.engine.services.store)
        opened.engine.services = replace(opened.engine.services, store=store)
        locks = await make_locks(opened)
        await store.create(Conversation(id="conv_2", created_at=0, client="me"), [])
        with loop_clock() as clock:
            await create(locks, opened, make_request("conv_2"))
            run = await create(locks, opened)
            run.discard()
            await unlocked(locks)
            for _ in range(2):
                await clock.advance(RENEW_S)
                await unlocked(locks)
                with pytest.raises(InvalidRequest):
                    await create(locks, opened)
            store.is_away = False
            await clock.advance(RENEW_S)
            await unlocked(locks)
            assert await create(locks, opened) is not run


async def test_after_the_end_no_conversation_is_unlocked_again() -> None:
    async with open_application() as opened:
        store: Any = AwayStore(opened.engine.services.store)
        opened.engine.services = replace(opened.engine.services, store=store)
        locks = await make_locks(opened)
        with loop_clock() as clock:
            first = await create(locks, opened)
            first.discard()
            await unlocked(locks)
            locks.close()
            await clock.advance(RENEW_S)
            await unlocked(locks)
    assert store.unlocked == 1
