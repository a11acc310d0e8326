"""Locks of conversations: refused, released, handed over."""

from __future__ import annotations

import asyncio
import json

import pytest

from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest
from antiphon.runs.conversation_locks import ConversationLocks
from antiphon.store.conversation import Conversation
from antiphon.wire.request import Request
from tests.support.applications import OpenApplication, open_application

CALLER = Caller("me", "req_1")


def request(conversation: str = "conv_1", model: str = "echo/echo") -> Request:
    body = {"model": model, "input": "Hello?", "conversation": conversation}
    return Request.parse(json.dumps(body).encode())


async def make_locks(opened: OpenApplication) -> ConversationLocks:
    store = opened.engine.services.store
    await store.conversations.create(Conversation(id="conv_1", created_at=0, client="me"), [])
    return ConversationLocks(opened.engine.services)


async def unlocked(locks: ConversationLocks) -> None:
    """Let the unlocking that was started come to its end."""
    while locks._tasks:
        await asyncio.wait(locks._tasks)


async def test_a_conversation_is_refused_while_a_run_has_it() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        run = await locks.create(opened.engine, request(), CALLER)
        for other in (locks, ConversationLocks(opened.engine.services)):
            with pytest.raises(InvalidRequest) as caught:
                await other.create(opened.engine, request(), CALLER)
            assert (caught.value.status, caught.value.wire_code) == (400, "conversation_locked")
        async with run:  # and left without an end
            pass
        await locks.create(opened.engine, request(), CALLER)  # at once: its client knows of the end


async def test_an_unknown_conversation_is_not_found() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        with pytest.raises(InvalidRequest) as caught:
            await locks.create(opened.engine, request("conv_2"), CALLER)
        assert (caught.value.status, caught.value.param) == (404, "conversation")


async def test_a_request_that_is_rejected_leaves_no_lock() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        with pytest.raises(InvalidRequest):
            await locks.create(opened.engine, request(model="nobody/nothing"), CALLER)
        await unlocked(locks)
        await locks.create(opened.engine, request(), CALLER)


async def test_a_lock_that_was_handed_over_is_not_released_with_the_run() -> None:
    async with open_application() as opened:
        locks = await make_locks(opened)
        run = await locks.create(opened.engine, request(), CALLER)
        locks.hand_over(run.prepared.response.id)
        async with run:
            pass
        await unlocked(locks)
        with pytest.raises(InvalidRequest):
            await locks.create(opened.engine, request(), CALLER)
        await opened.engine.services.store.save(
            run.prepared.make_turn(run.prepared.response, "echo"), conversation_id="conv_1"
        )
        await locks.create(opened.engine, request(), CALLER)
