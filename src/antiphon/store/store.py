"""The `Store` protocol: turns by response id, with their runs and the conversations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from antiphon.core.items import Document
from antiphon.store.call_states import CallStates
from antiphon.store.conversation import ConversationStore
from antiphon.store.run_log import RunStore
from antiphon.store.turn import Clock, StoreLimits, Turn, decode_turn, encode_turn
from antiphon.store.usage.usage_table import UsageTable

__all__ = ["Clock", "Store", "StoreLimits", "Turn", "decode_turn", "encode_turn"]


class Store(Protocol):
    """Turns by response id. Raises `StoreError`; for broken chains, `InvalidRequest`.

    A turn is found by its owner alone, or by every `client` if it has none: without a `client`,
    only turns without an owner are found (docs/adr/0036-keys-divide-the-store.md).
    """

    @property
    def name(self) -> str:
        """Return the name of its file, without directories."""

    @property
    def runs(self) -> RunStore:
        """Return the runs of responses that have not ended, and the event logs."""

    @property
    def conversations(self) -> ConversationStore:
        """Return the conversations and their items."""

    @property
    def usage(self) -> UsageTable:
        """Return the usage of clients, in the same database."""

    @property
    def call_states(self) -> CallStates:
        """Return the state of providers by call."""

    async def check(self) -> None:
        """Raise `StoreError` if a turn could not be saved now."""

    async def open(self) -> None:
        """Open files and start threads; raises if the store cannot be used."""

    async def save(self, turn: Turn, *, conversation_id: str | None = None) -> None:
        """Insert or replace a turn, and add it to a conversation as `RunStore.finish` does; durable
        on return if the backend is durable."""

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        """Return the turn, or None if it does not exist or has expired."""

    async def delete(self, response_id: str, *, client: str = "") -> bool:
        """Delete a turn with its run, its event log and its lock on a conversation; False if there
        was none."""

    async def chain(
        self, response_id: str, *, client: str = "", truncate: bool = False
    ) -> list[Turn]:
        """Return the turn and its ancestors, oldest first, as `TurnSource.chain` does. Each may
        have ended in any way; one that has not ended raises `ChainUnfinished`."""

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        """Return stored items by item id; unknown ids are left out.

        Output items are preferred to input items, newer turns to older ones.
        """

    async def load_outputs(
        self, call_ids: Collection[str], *, client: str = ""
    ) -> dict[str, list[Document]]:
        """Return the output of the newest turn with each of these calls, by call id. A turn without
        state of its provider is not found, and unknown calls are left out."""

    async def close(self) -> None:
        """Finish pending writes, close files and end threads."""
