"""References in a request: items the client only names, and where a stored turn has them.

A client that trusts us to keep its turns sends `{"type": "item_reference", "id": …}` instead of
an item. Each is replaced by the item it names, one for one, so that every position in the input
stays what the client counts. One that names nothing we know is left as it came. Reasoning that
comes back by its id and without its seal is such a reference, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import StoreError
from antiphon.store.store import Document, Store, Turn
from antiphon.wire.request import Request


class Place(NamedTuple):
    """Where in its turn an item stands. What the model said sorts before what a client repeats."""

    is_input: bool
    position: int


class _Listing(Struct):
    """A stored turn, of which only the items asked for are read."""

    input: tuple[Raw, ...] = ()
    output: tuple[Raw, ...] = ()


_list = msgspec.json.Decoder(_Listing).decode


async def resolved(request: Request, store: Store) -> Request:
    """The request with the items that its references name."""
    named = [_sought(item) for item in request.input]
    sought = {id for id in named if id is not None}
    if not sought:
        return request
    try:
        found = await store.load_items(sought)
    except StoreError:
        if any(referred(item) is not None for item in request.input):
            raise
        return request  # a thread goes on without its seals
    items = [
        item if id is None else _found(item, found.get(id))
        for item, id in zip(request.input, named, strict=True)
    ]
    return msgspec.structs.replace(request, input=tuple(items))


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


def pick(body: bytes, wanted: Mapping[str, Place]) -> dict[str, Document]:
    """Items of a stored turn, without reading the rest of it."""
    listing = _list(body)
    return {
        id: msgspec.json.decode((listing.input if is_input else listing.output)[position])
        for id, (is_input, position) in wanted.items()
    }
