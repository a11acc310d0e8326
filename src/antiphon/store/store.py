"""What a store of turns is: a protocol, the turn, and the limits every backend keeps.

A turn is one stored response: its own input items and its output items, as documents nobody has
touched. Instructions are not part of it (docs/adr/0012-save-before-the-terminal-event.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.errors import StoreRefused
from antiphon.wire.items import Document

Clock: TypeAlias = Callable[[], int]
"""The time in whole seconds. It may be called from any thread."""


class Turn(Struct, frozen=True, kw_only=True):
    """One stored response. `response` is all of it, as the client saw it at the end."""

    id: str
    previous_response_id: str | None = None
    created_at: int
    status: str
    model: str
    provider: str
    client: str = ""
    """The name of the key that it was asked for with."""
    input: tuple[Document, ...] = ()
    output: tuple[Document, ...] = ()
    response: Document
    expires_at: int | None = None
    """Left out, the store sets it by its limits."""


class StoreLimits(Struct, frozen=True, kw_only=True):
    """What a store keeps, and for how long. None is no limit of this store's own."""

    ttl_s: int | None = 30 * 24 * 3600
    max_turn_bytes: int = 16 * 1024 * 1024
    max_turns: int | None = None
    """Above this many turns, or bytes, the oldest go."""
    max_bytes: int | None = None
    max_chain: int | None = None
    """How many turns may hang together."""

    def expiry(self, now: int) -> int | None:
        """When a turn that is saved or renewed now will expire."""
        return None if self.ttl_s is None else now + self.ttl_s

    def is_waning(self, expires_at: int | None, now: int) -> bool:
        """Half of a turn's life is over: using it then renews it, so a chain in use never ends."""
        return (
            self.ttl_s is not None
            and expires_at is not None
            and expires_at - now <= self.ttl_s // 2
        )


class Store(Protocol):
    """Turns by response id. Errors are `StoreError`; those of a chain are `InvalidRequest`."""

    async def open(self) -> None:
        """Make ready; what cannot work is told here and now."""

    async def save(self, turn: Turn) -> None:
        """Keep a turn, in place of one with the same id; on return it outlives a crash."""

    async def load(self, response_id: str) -> Turn | None:
        """The turn, or None when it is not here or has expired."""

    async def delete(self, response_id: str) -> bool:
        """Forget a turn; False when there was none."""

    async def chain(self, response_id: str) -> list[Turn]:
        """The turn and all before it, oldest first, whatever became of each."""

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        """Items by their own ids, those of them that a turn here has.

        What a model said goes before what a client repeated, and the newer turn before the older.
        The ids of the former are ours, and nobody can guess one. A client may choose those of the
        latter as it likes: they are found only for `client`, if they are its own.
        """

    async def close(self) -> None:
        """Finish what was begun, and let go of files and threads."""


_decode = msgspec.json.Decoder(Turn).decode


def encode_turn(turn: Turn, limits: StoreLimits) -> bytes:
    """The turn as bytes, if it fits."""
    try:
        body = msgspec.json.encode(turn)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreRefused(f"Response {turn.id!a} cannot be stored: {error}") from error
    most = limits.max_turn_bytes
    if limits.max_bytes is not None:
        most = min(most, limits.max_bytes)
    if len(body) > most:
        raise StoreRefused(
            f"Response '{turn.id}' takes {len(body):,} bytes, and a stored one at most {most:,}."
        )
    return body


def decode_turn(body: bytes, expires_at: int | None) -> Turn:
    """The turn from its bytes; its expiry may have moved since they were written."""
    return msgspec.structs.replace(_decode(body), expires_at=expires_at)
