"""Locks of conversations: one response at a time continues a conversation, in any process.

A lock begins before the history is read, and ends in the transaction that ends the response; or
when its run is left without an end, or when the process that holds it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from typing import Any, Self

from antiphon.core.request import Request
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller, Prepared, Services
from antiphon.errors import InvalidRequest, StoreError
from antiphon.store.conversation import conversation_not_found

LEASE_S = 10.0
RENEW_S = 2.0


class ConversationLocks:
    """The locks that this process holds, and their lease."""

    def __init__(self, services: Services) -> None:
        self._store = services.store
        self._holder = services.runtime.new_id("lock")
        self._held: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unlocking: dict[str, asyncio.Task[None]] = {}
        """Locks that are being ended, by conversation id."""
        self._left: dict[str, str] = {}
        """Conversations that could not be unlocked, by the response that had the lock."""
        self._is_closed = False

    def close(self) -> None:
        """Renew no lock any more, and end none again: those that are left end with their lease."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def prepare(
        self, engine: Engine, request: Request, caller: Caller, held: ExitStack
    ) -> Prepared:
        """Prepare a request with a conversation, which is locked until `held` is closed; raises
        `InvalidRequest` if another response continues it."""
        assert request.conversation is not None
        response_id = engine.services.runtime.new_id("resp")
        await self._acquire(request.conversation, response_id, caller.client)
        held.enter_context(ConversationLock(self, request.conversation, response_id))
        return await engine.prepare(request, caller, response_id=response_id)

    def hand_over(self, response_id: str) -> None:
        """Leave the lock to the run of a background response: its end releases it."""
        self._drop(response_id)

    def _drop(self, response_id: str) -> None:
        self._held.discard(response_id)
        if not self._held and not self._left and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self, conversation_id: str, response_id: str) -> None:
        """End a lock soon, if it was not ended with its response. May be called twice."""
        if response_id in self._held:
            self._drop(response_id)
            task = self._start(self._unlock(conversation_id, response_id))
            self._unlocking[conversation_id] = task

    async def _acquire(self, conversation_id: str, response_id: str, client: str) -> None:
        if (unlocking := self._unlocking.get(conversation_id)) is not None:
            await asyncio.wait((unlocking,))  # the client has heard of the end already
        if not self._held:
            await self._store.runs.renew(self._holder, LEASE_S)
        self._held.add(response_id)
        try:
            conversations = self._store.conversations
            locked = await conversations.lock(
                conversation_id, response_id, self._holder, client=client
            )
            if not locked:
                raise _refusal(conversation_id, is_locked=locked is not None)
        except BaseException:
            self.release(conversation_id, response_id)
            raise
        self._schedule_renewal()

    def _schedule_renewal(self) -> None:
        is_needed = bool(self._held or self._left) and not self._is_closed
        if self._timer is None and is_needed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(RENEW_S, self._begin_renewal)

    def _begin_renewal(self) -> asyncio.Task[None]:
        self._timer = None  # now, not in the task: another lock may set a timer before it runs
        return self._start(self._renew())

    def _start(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _renew(self) -> None:
        with suppress(StoreError):  # the next renewal may be in time
            if self._held:
                await self._store.runs.renew(self._holder, LEASE_S)
            await self._unlock_left()
        self._schedule_renewal()

    async def _unlock_left(self) -> None:
        for response_id, conversation_id in tuple(self._left.items()):
            await self._store.conversations.unlock(conversation_id, response_id)
            del self._left[response_id]

    async def _unlock(self, conversation_id: str, response_id: str) -> None:
        try:
            await self._store.conversations.unlock(conversation_id, response_id)
        except StoreError:  # the lease goes on for the other locks of this process
            self._left[response_id] = conversation_id
            self._schedule_renewal()
        finally:
            if self._unlocking.get(conversation_id) is asyncio.current_task():
                del self._unlocking[conversation_id]


class ConversationLock:
    """The lock of one conversation, released when it is left."""

    def __init__(self, locks: ConversationLocks, conversation_id: str, response_id: str) -> None:
        self._locks = locks
        self._conversation_id = conversation_id
        self._response_id = response_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._locks.release(self._conversation_id, self._response_id)


def _refusal(conversation_id: str, *, is_locked: bool) -> InvalidRequest:
    if not is_locked:
        return conversation_not_found(conversation_id)
    return InvalidRequest(
        f"Another response is being generated for the conversation '{conversation_id}'. Send the"
        " request again when it has ended.",
        param="conversation",
        code="conversation_locked",
    )
