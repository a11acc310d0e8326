"""References in a request: items the client only names, and where a stored turn has them.

A client that trusts us to keep its turns sends `{"type": "item_reference", "id": …}` instead of
an item. Each is replaced by the item it names, one for one, so that every position in the input
stays what the client counts. One that names nothing we know is left as it came. Reasoning that
comes back by its id and without its seal is such a reference, too. All together must not weigh
more than a client could have sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import InvalidRequest, StoreError
from antiphon.store.store import Store, Turn
from antiphon.wire.items import Document
from antiphon.wire.request import Request

MAX_BYTES = 64 * 1024 * 1024


class Place(NamedTuple):
    """Where in its turn an item stands. What the model said sorts before what a client repeats."""

    is_input: bool
    position: int


class _Listing(Struct):
    """A stored turn, of which only the items asked for are read."""

    input: tuple[Raw, ...] = ()
    output: tuple[Raw, ...] = ()


_list = msgspec.json.Decoder(_Listing).decode


async def resolved(request: Request, store: Store, client: str = "") -> Request:
    """The request of a client, with the items that its references name."""
    named = [_sought(item) for item in request.input]
    sought = {id for id in named if id is not None}
    if not sought:
        return request
    try:
        found = await store.load_items(sought, client=client)
    except StoreError:
        if any(referred(item) is not None for item in request.input):
            raise
        return request  # a thread goes on without its seals
    _refuse_repetition([id for id in named if id is not None], found)
    items = [
        item if id is None else _found(item, found.get(id))
        for item, id in zip(request.input, named, strict=True)
    ]
    return msgspec.structs.replace(request, input=tuple(items))


def _refuse_repetition(named: Sequence[str], found: Mapping[str, Document]) -> None:
    """A few bytes may name a large item, and name it again and again."""
    if len(named) > len(set(named)):
        sizes = {id: len(msgspec.json.encode(item)) for id, item in found.items()}
        if sum(sizes.get(id, 0) for id in named) > MAX_BYTES:
            raise _too_much()


def _too_much() -> InvalidRequest:
    return InvalidRequest(
        "The items that the input refers to are too large together.",
        param="input",
        code="request_too_large",
        status=413,
    )


def _sought(item: Document) -> str | None:
    """The id to look for. Some clients repeat a thought, but not the seal that came with it."""
    match item:
        case {"type": "reasoning", "id": str(id)} if not item.get("encrypted_content"):
            return id
    return referred(item)


def _found(item: Document, stored: Document | None) -> Document:
    if stored is None or (referred(item) is None and stored.get("type") != item["type"]):
        return item
    return stored


def referred(item: Mapping[str, Any]) -> str | None:
    """The id that a reference names; None for an item. References may come without a type."""
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    id = item.get("id")
    return id if kind == "item_reference" and isinstance(id, str) else None


def places(turn: Turn) -> dict[str, Place]:
    """Where the items of a turn stand, by their ids. A reference is not an item."""
    return {
        **{item["id"]: Place(True, at) for at, item in enumerate(turn.input) if _is_named(item)},
        **{item["id"]: Place(False, at) for at, item in enumerate(turn.output) if _is_named(item)},
    }


def _is_named(item: Document) -> bool:
    return isinstance(item.get("id"), str) and referred(item) is None


class Picked:
    """Items of stored turns, read without the rest of them."""

    def __init__(self) -> None:
        self.items: dict[str, Document] = {}
        self._room = MAX_BYTES

    def add(self, body: bytes, wanted: Mapping[str, Place]) -> None:
        listing = _list(body)
        for id, (is_input, position) in wanted.items():
            item = bytes((listing.input if is_input else listing.output)[position])
            self._room -= len(item)
            if self._room < 0:
                raise _too_much()
            self.items[id] = msgspec.json.decode(item)
