"""Rows of a store in a form that does not depend on its backend, and what can be done with them.

`seq` numbers are kept in a copy: they are the order of turns and items, and link the tables.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey

PAGE = 500
"""Rows that are copied at a time."""


class TurnRow(NamedTuple):
    """A turn; its ids and the ids of its items are in its body."""

    seq: int
    expires_at: int | None
    owner: str | None
    client: str
    body: bytes


class RunRow(NamedTuple):
    """A run that has not ended, or whose event log is kept."""

    turn: int
    status: str
    holder: str | None
    token: int
    last_seq: int
    is_background: bool
    is_streamed: bool
    is_cancel_requested: bool
    request: bytes
    log_expires_at: int | None


class BatchRow(NamedTuple):
    turn: int
    first_seq: int
    last_seq: int
    frames: bytes


class ConversationRow(NamedTuple):
    seq: int
    id: str
    owner: str
    created_at: int
    expires_at: int | None
    metadata: bytes


class ConversationItemRow(NamedTuple):
    """An item of a conversation; its id is in its body."""

    seq: int
    conversation: int
    body: bytes


class CallStateRow(NamedTuple):
    """Sealed state of a provider, by client and call."""

    seq: int
    owner: str
    call: str
    expires_at: int | None
    body: str


class StoredUsage(NamedTuple):
    """Counts of usage, with the names of `UsageKey` and `COUNTS`."""

    key: UsageKey
    counts: Counts


Row = (
    StoredUsage | TurnRow | RunRow | BatchRow | ConversationRow | ConversationItemRow | CallStateRow
)
TABLES: tuple[type[Any], ...] = (
    TurnRow,
    RunRow,
    BatchRow,
    ConversationRow,
    ConversationItemRow,
    CallStateRow,
    StoredUsage,
)
"""In the order in which they are copied: a row links to rows of earlier tables."""


USAGE_COLUMNS = (*UsageKey._fields, *COUNTS)


def read_usage(values: Sequence[Any]) -> StoredUsage:
    """Return the row for the values of `USAGE_COLUMNS`."""
    width = len(UsageKey._fields)
    return StoredUsage(UsageKey(*values[:width]), tuple(values[width:]))


class StoreState(Struct, frozen=True, kw_only=True):
    """What a store contains."""

    name: str
    version: int
    """Version of its schema; 0: nothing is there yet."""
    newest_version: int
    responses: int = 0
    running: int = 0
    """Responses that have not ended."""
    conversations: int = 0
    usage_rows: int = 0

    @property
    def is_empty(self) -> bool:
        return self.responses == self.conversations == self.usage_rows == 0


class StoreAdmin(Protocol):
    """Work on one store, which gateways may use at the same time. Raises `StoreError`."""

    async def read_state(self) -> StoreState:
        """Read its state; changes nothing."""

    async def migrate(self) -> tuple[int, int]:
        """Migrate its schema; return the versions before and after."""

    async def prune(self, now: int) -> int:
        """Delete what has expired; return the number of responses, logs and conversations."""

    def read_pages(self) -> AsyncIterator[Sequence[Row]]:
        """Read all rows as of one moment, a table after the other."""

    async def write_pages(self, pages: AsyncIterator[Sequence[Row]]) -> int:
        """Write rows into a store that is empty: all of them or none; return their number."""
