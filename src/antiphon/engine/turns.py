"""Stored turns: how the turn of a run is saved before its terminal event is sent."""

from __future__ import annotations

from typing import Protocol

from antiphon.core.events import Event
from antiphon.store.store import Store, Turn


class SaveTurn(Protocol):
    """Stores the turn of one run."""

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        """Store a turn together with its last events; return these events as they may be sent.
        Raises `StoreError`."""


class SaveInStore:
    """Saves a turn in the store, and in its conversation."""

    def __init__(self, store: Store, conversation_id: str | None) -> None:
        self._store = store
        self._conversation_id = conversation_id

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        await self._store.save(turn, conversation_id=self._conversation_id)
        return events


class AddToConversation:
    """Adds a turn that is not stored itself to its conversation."""

    def __init__(self, store: Store, conversation_id: str) -> None:
        self._conversations = store.conversations
        self._conversation_id = conversation_id

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        await self._conversations.add_turn(self._conversation_id, turn)
        return events
