"""Conversations: stored lists of items that responses continue (docs/adr/0047-conversations.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from msgspec import Struct

from antiphon.core.items import Document
from antiphon.dialects.responses.listed_item import list_items
from antiphon.errors import HistoryTooLarge, InvalidRequest
from antiphon.store.turn import StoreLimits, Turn, encode_item

_WITH_OUTPUT = frozenset(("completed", "incomplete"))


class Conversation(Struct, frozen=True, kw_only=True):
    """One conversation, without its items."""

    id: str
    created_at: int
    metadata: Mapping[str, str] = {}
    client: str = ""
    """Its owner, as of a turn."""


class ItemPage(NamedTuple):
    """Some items of a conversation, in the requested order."""

    items: list[Document]
    has_more: bool


class ConversationHistory(NamedTuple):
    """The items of a conversation that a request continues, oldest first."""

    items: list[Document]
    is_cut: bool
    """Whether the oldest ones were left out."""


class ConversationStore(Protocol):
    """Conversations by id, found by their owner alone. Every item has an id.

    A method returns None or False if there is no such conversation or item.
    """

    async def create(self, conversation: Conversation, items: Sequence[Document]) -> None: ...

    async def load(self, conversation_id: str, *, client: str = "") -> Conversation | None: ...

    async def update(
        self, conversation_id: str, metadata: Mapping[str, str], *, client: str = ""
    ) -> Conversation | None:
        """Replace the metadata."""

    async def delete(self, conversation_id: str, *, client: str = "") -> bool:
        """Delete a conversation with its items. Responses that were part of it stay."""

    async def append_items(
        self, conversation_id: str, items: Sequence[Document], *, client: str = ""
    ) -> Conversation | None:
        """Append items; raises `InvalidRequest` if it has an item of the same id."""

    async def list_items(
        self,
        conversation_id: str,
        *,
        after: str | None = None,
        is_descending: bool = False,
        limit: int | None = None,
        client: str = "",
    ) -> ItemPage | None:
        """Return items that come after one of them; raises `InvalidRequest` if it is unknown.

        A page has at most `limit` items, at most as many as a history may have, and at least one.
        Without a `limit`, it has all of them, or `HistoryTooLarge` is raised."""

    async def load_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Document | None: ...

    async def delete_item(
        self, conversation_id: str, item_id: str, *, client: str = ""
    ) -> Conversation | None: ...

    async def lock(
        self, conversation_id: str, response_id: str, holder: str, *, client: str = ""
    ) -> bool | None:
        """Reserve a conversation for one response until it is finished or unlocked, or the lease of
        the holder expires; False if another response has it. Who begins or claims the run of the
        response becomes the holder; while it is queued, no lease is needed."""

    async def unlock(self, conversation_id: str, response_id: str) -> None:
        """End the reservation of a response, if it has it."""

    async def add_turn(self, conversation_id: str, turn: Turn) -> None:
        """Add a turn as `RunStore.finish` does, for a response that is not stored itself."""


def page_size(limit: int | None, limits: StoreLimits) -> int:
    """Return how many items a page has at most."""
    return limits.max_history_items if limit is None else min(limit, limits.max_history_items)


def count_page(sizes: Sequence[int], limit: int | None, limits: StoreLimits) -> int:
    """Return how many of the next items make a page. `sizes` are those of one item more than
    `page_size`, if there are so many; raises `HistoryTooLarge` as `list_items` does."""
    most = page_size(limit, limits)
    max_bytes = limits.max_history_bytes
    if limit is None and len(sizes) > most:
        raise HistoryTooLarge(most, "items", "conversation")
    if limit is None and sum(sizes) > max_bytes:
        raise HistoryTooLarge(max_bytes, "bytes", "conversation")
    totals = accumulate(sizes[:most])
    return max(sum(total <= max_bytes for total in totals), min(len(sizes), 1))


async def load_conversation(
    conversations: ConversationStore, conversation_id: str, *, client: str = "", truncate: bool
) -> ConversationHistory | None:
    """Return the items of a conversation, or None if there is none; raises `HistoryTooLarge` beyond
    the limits of a history. With `truncate`, the oldest items are left out instead."""
    if not truncate:
        page = await conversations.list_items(conversation_id, client=client)
        return None if page is None else ConversationHistory(page.items, is_cut=False)
    page = await conversations.list_items(
        conversation_id, is_descending=True, limit=sys.maxsize, client=client
    )
    return None if page is None else ConversationHistory(page.items[::-1], is_cut=page.has_more)


async def load_items_before(
    conversations: ConversationStore, turn: Turn, *, client: str = "", truncate: bool = False
) -> list[Document]:
    """Return the items that the conversation of a turn had when it began, as far as they were not
    deleted; none if it does not belong to a conversation, or continues another response."""
    conversation_id = turn.conversation_id
    is_first = turn.previous_response_id is None
    if conversation_id is None or turn.conversation_end is None or not is_first:
        return []
    history = await load_conversation(
        conversations, conversation_id, client=client, truncate=truncate
    )
    items = [] if history is None else history.items
    return items[: _find_beginning(turn, [item["id"] for item in items])]


def _find_beginning(turn: Turn, ids: list[str]) -> int:
    """Return how many of these items the conversation had when a turn began: those up to the last
    one of that time or, if it was deleted, those before the turn's own."""
    if turn.conversation_end in ids:
        return ids.index(turn.conversation_end) + 1
    own = {item["id"] for item in list_items([*turn.input, *turn.output], turn.id)}
    return next((index for index, id in enumerate(ids) if id in own), 0)


def encode_turn_items(turn: Turn, limits: StoreLimits) -> dict[str, bytes]:
    """Return input and output of a finished turn as encoded items by id; of items with the same
    id, the first. A turn that failed or was cancelled has none: its request will be repeated."""
    if turn.status not in _WITH_OUTPUT:
        return {}
    items = list_items([*turn.input, *turn.output], turn.id)
    bodies: dict[str, bytes] = {}
    for item in items:
        if item["id"] not in bodies:
            bodies[item["id"]] = encode_item(item, limits)
    return bodies


def encode_items(items: Iterable[Document], limits: StoreLimits) -> dict[str, bytes]:
    """Return items of a request as encoded items by id; raises if two have the same id."""
    bodies: dict[str, bytes] = {}
    for item in items:
        if item["id"] in bodies:
            raise duplicate_item(item["id"])
        bodies[item["id"]] = encode_item(item, limits)
    return bodies


def conversation_not_found(conversation_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"Conversation with id '{conversation_id[:80]}' not found.",
        param="conversation",
        status=404,
    )


def duplicate_item(item_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"The conversation has an item with the id '{item_id}' already. Send the item without"
        " `id`, or leave it out.",
        param="items",
    )


def unknown_after(item_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"`after` must be the id of an item in the list, not {item_id[:80]!r}.",
        param="after",
        code="invalid_value",
    )
