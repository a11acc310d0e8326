"""In-memory conversations, bounded in number and bytes: the least recently used one is removed
first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.conversation import (
    Conversation,
    ItemPage,
    duplicate_item,
    encode_items,
    encode_turn_items,
    unknown_after,
)
from antiphon.store.turn import Clock, StoreLimits, Turn
from antiphon.wire.items import Document


class _StoredConversation(Struct):
    conversation: Conversation
    expires_at: int | None
    items: dict[str, bytes]
    """Encoded items by id, oldest first."""


class MemoryConversations:
    """A `ConversationStore` in memory. `is_running` says whether a response is queued, or the lease
    of its holder is valid."""

    def __init__(
        self,
        *,
        now: Clock,
        limits: StoreLimits,
        max_conversations: int,
        max_bytes: int,
        is_running: Callable[[str, str], bool],
    ) -> None:
        self._now = now
        self._limits = limits
        self._max_conversations, self._max_bytes = max_conversations, max_bytes
        self._is_running = is_running
        self._entries: OrderedDict[str, _StoredConversation] = OrderedDict()
        self._bytes = 0
        self._locks: dict[str, tuple[str, str]] = {}
        """Response id and holder by conversation id."""

    async def create(self, conversation: Conversation, items: Sequence[Document]) -> None:
        bodies = encode_items(items, self._limits)
        self._drop(conversation.id)
        expires_at = self._limits.expiry(self._now())
        entry = _StoredConversation(conversation, expires_at, {})
        self._entries[conversation.id] = entry
        self._add(entry, bodies)

    async def load(self, conversation_id: str, *, client: str = "") -> Conversation | None:
        entry = self._find(conversation_id, client)
        return None if entry is None else entry.conversation

    async def update(
        self, conversation_id: str, metadata: Mapping[str, str], *, client: str = ""
    ) -> Conversation | None:
        entry = self._find(conversation_id, client)
        if entry is None:
            return None
        entry.conversation = replace(entry.conversation, metadata=dict(metadata))
        return entry.conversation

    async def delete(self, conversation_id: str, *, client: str = "") -> bool:
        if self._find(conversation_id, client) is None:
            return False
        self._drop(conversation_id)
        return True

    async def append_items(
        self, conversation_id: str, items: Sequence[Document], *, client: str = ""
    ) -> Conversation | None:
        entry = self._find(conversation_id, client)
        if entry is None:
            return None
        bodies = encode_items(items, self._limits)
        for item_id in bodies:
            if item_id in entry.items:
                raise duplicate_item(item_id)
        self._add(entry, bodies)
        return entry.conversation

    async def list_items(
        self,
        conversation_id: str,
        *,
        after: str | None = None,
        is_descending: bool = False,
        limit: int | None = None,
        client: str = "",
    ) -> ItemPage | None:
        entry = self._find(conversation_id, client)
        if entry is None:
            return None
        ids = list(entry.items)
        if is_descending:
            ids.reverse()
        if after is not None:
            if after not in entry.items:
                raise unknown_after(after)
            ids = ids[ids.index(after) + 1 :]
        listed = ids if limit is None else ids[:limit]
        items = [msgspec.json.decode(entry.items[id]) for id in listed]
        return ItemPage(items, len(listed) < len(ids))

    async def load_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Document | None:
        entry = self._find(conversation_id, client)
        if entry is None or item_id not in entry.items:
            return None
        item: Document = msgspec.json.decode(entry.items[item_id])
        return item

    async def delete_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Conversation | None:
        entry = self._find(conversation_id, client)
        if entry is None or item_id not in entry.items:
            return None
        self._bytes -= len(entry.items.pop(item_id))
        return entry.conversation

    async def lock(
        self, conversation_id: str, response_id: str, holder: str, *, client: str = ""
    ) -> bool | None:
        if self._find(conversation_id, client) is None:
            return None
        other, other_holder = self._locks.get(conversation_id, (response_id, holder))
        if other != response_id and self._is_running(other, other_holder):
            return False
        self._locks[conversation_id] = (response_id, holder)
        return True

    async def unlock(self, conversation_id: str, response_id: str) -> None:
        self._unlock(conversation_id, response_id)

    def take_locks(self, response_id: str, holder: str) -> None:
        """Give the lock of a response to the new holder of its run."""
        for conversation_id, (locked_by, _) in self._locks.items():
            if locked_by == response_id:
                self._locks[conversation_id] = (response_id, holder)

    def drop_locks(self, response_id: str) -> None:
        """End the lock of a response that was deleted."""
        for conversation_id in [*self._locks]:
            self._unlock(conversation_id, response_id)

    async def add_turn(self, conversation_id: str, turn: Turn) -> None:
        self.put_turn(conversation_id, turn)

    def put_turn(self, conversation_id: str, turn: Turn) -> None:
        """Append a finished turn, if the conversation still exists, and unlock it."""
        entry = self._find(conversation_id, turn.client)
        if entry is not None:
            bodies = encode_turn_items(turn, self._limits)
            new = {id: body for id, body in bodies.items() if id not in entry.items}
            self._add(entry, new)
            self._unlock(conversation_id, turn.id)

    def _unlock(self, conversation_id: str, response_id: str) -> None:
        if self._locks.get(conversation_id, ("", ""))[0] == response_id:
            del self._locks[conversation_id]

    def _add(self, entry: _StoredConversation, bodies: Mapping[str, bytes]) -> None:
        entry.items.update(bodies)
        self._bytes += sum(map(len, bodies.values()))
        while len(self._entries) > self._max_conversations or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _find(self, conversation_id: str, client: str) -> _StoredConversation | None:
        entry, now = self._entries.get(conversation_id), self._now()
        if entry is None or entry.conversation.client not in ("", client):
            return None
        if entry.expires_at is not None and entry.expires_at <= now:
            self._drop(conversation_id)
            return None
        self._entries.move_to_end(conversation_id)
        if self._limits.needs_renewal(entry.expires_at, now):
            entry.expires_at = self._limits.expiry(now)
        return entry

    def _drop(self, conversation_id: str) -> None:
        self._locks.pop(conversation_id, None)
        if entry := self._entries.pop(conversation_id, None):
            self._bytes -= sum(map(len, entry.items.values()))
