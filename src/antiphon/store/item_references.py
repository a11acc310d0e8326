"""Resolution of `item_reference` input items to the stored items they name.

A client that relies on stored turns sends `{"type": "item_reference", "id": …}` instead of an
item. Each reference is replaced by exactly one item, so that indexes into `input` stay the same.
Items of turns are found first, then those that were put into a conversation.
An input item that was sent without an id may be referenced by the id that it has in lists. A
reference to an unknown id rejects the request: without the item it would have another meaning. A
reasoning item that has an id but no `encrypted_content` counts as a reference, too, but may stay
as it is. All referenced items together may not exceed `MAX_BYTES`, the size of a request body.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.dialects.responses.listed_item import list_items, source_of_listed
from antiphon.errors import InvalidRequest, StoreError
from antiphon.store.chain import TurnSource
from antiphon.store.turn import ItemLocation, decode_raw_items, read_reference_id

MAX_BYTES = 64 * 1024 * 1024
_MAX_LISTED = 64  # responses that are searched for items that have an id only in lists


async def resolve_references(request: Request, turns: TurnSource, client: str = "") -> Request:
    """Return the request with its references replaced by the items they name."""
    items = await resolve_items(request.input, turns, client)
    return request if items is request.input else msgspec.structs.replace(request, input=items)


async def resolve_items(
    given: tuple[Document, ...], turns: TurnSource, client: str = "", *, param: str = "input"
) -> tuple[Document, ...]:
    """Return items with references replaced by the items they name; `param` is where they are."""
    lookup_ids = [_read_lookup_id(item) for item in given]
    wanted = {id for id in lookup_ids if id is not None}
    if not wanted:
        return given
    required = {id for item in given if (id := read_reference_id(item)) is not None}
    try:
        found = await turns.load_items(wanted, client=client)
        if required - found.keys():
            found |= await _load_listed(required - found.keys(), turns, client)
    except StoreError:
        if required:
            raise
        return given  # only reasoning without encrypted_content: the request works without it
    _reject_unknown(given, found, param)
    _limit_repeated_references([id for id in lookup_ids if id is not None], found)
    return tuple(
        item if id is None else _substitute(item, found.get(id))
        for item, id in zip(given, lookup_ids, strict=True)
    )


async def _load_listed(
    wanted: Collection[str], turns: TurnSource, client: str
) -> dict[str, Document]:
    """Return items that were sent without an id by the ids they have in lists."""
    sources = {id: None for id in map(source_of_listed, sorted(wanted)) if id is not None}
    found: dict[str, Document] = {}
    for response_id in islice(sources, _MAX_LISTED):
        turn = await turns.load(response_id, client=client)
        listed = [] if turn is None else list_items(turn.input, turn.id)
        found |= {item["id"]: item for item in listed if item["id"] in wanted}
        if sum(len(msgspec.json.encode(item)) for item in found.values()) > MAX_BYTES:
            raise _references_too_large()
    return found


def _reject_unknown(items: Sequence[Document], found: Mapping[str, Document], param: str) -> None:
    for index, item in enumerate(items):
        id = read_reference_id(item)
        if id is not None and id not in found:
            raise InvalidRequest(
                f"`{param}[{index}]` refers to the item {id!r}, which is not stored: its response"
                " was created with `store`: false, or has expired. Send the item itself.",
                param=f"{param}[{index}].id",
            )


def _limit_repeated_references(ids: Sequence[str], found: Mapping[str, Document]) -> None:
    """Count a large item as often as it is referenced: a small request must not expand at will."""
    if len(ids) > len(set(ids)):
        sizes = {id: len(msgspec.json.encode(item)) for id, item in found.items()}
        if sum(sizes.get(id, 0) for id in ids) > MAX_BYTES:
            raise _references_too_large()


def _references_too_large() -> InvalidRequest:
    return InvalidRequest(
        f"The items referenced in `input` exceed {MAX_BYTES:,} bytes in total."
        " Reference fewer items.",
        param="input",
        code="request_too_large",
        status=413,
    )


def _read_lookup_id(item: Document) -> str | None:
    """Return the id to look up, or None for a complete item.

    Some clients send a reasoning item back without the `encrypted_content` it came with.
    """
    match item:
        case {"type": "reasoning", "id": str(id)} if not item.get("encrypted_content"):
            return id
    return read_reference_id(item)


def _substitute(item: Document, stored: Document | None) -> Document:
    if stored is None or (read_reference_id(item) is None and stored.get("type") != item["type"]):
        return item
    return stored


class ItemCollector:
    """Items of stored turns, decoded without the rest of each turn, and those of conversations, up
    to `MAX_BYTES`."""

    def __init__(self) -> None:
        self.items: dict[str, Document] = {}
        self._bytes_left = MAX_BYTES

    def add(self, body: bytes, wanted: Mapping[str, ItemLocation]) -> None:
        turn = decode_raw_items(body)
        for id, (is_input, position) in wanted.items():
            self.add_item(id, bytes((turn.input if is_input else turn.output)[position]))

    def add_item(self, id: str, item: bytes) -> None:
        """Add an item that is stored by itself, in a conversation."""
        self._bytes_left -= len(item)
        if self._bytes_left < 0:
            raise _references_too_large()
        self.items[id] = msgspec.json.decode(item)


class OutputCollector:
    """The output of stored turns by the calls in them, up to `MAX_BYTES`: what would exceed it is
    left out, as if it were not stored."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[Document]] = {}
        self._bytes_left = MAX_BYTES

    def add(self, body: bytes, call_ids: Iterable[str]) -> None:
        if self._bytes_left < len(body):
            return
        self._bytes_left -= len(body)
        output: list[Document] = [*map(msgspec.json.decode, decode_raw_items(body).output)]
        self.outputs |= dict.fromkeys(call_ids, output)
