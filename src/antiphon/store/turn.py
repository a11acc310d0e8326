"""The stored turn, its encoding, where its items are, and the limits that every backend enforces.

A turn is one stored response: its own input items and its output items, as unmodified JSON
objects. Instructions are not part of it (docs/adr/0012-save-before-the-terminal-event.md). The
output is stored once: the response object has an empty one, which `Turn.response` fills
(docs/adr/0098-a-turn-stores-its-output-once.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from antiphon.core.items import Document
from antiphon.core.response import Response, text_of_output
from antiphon.errors import StoreRefused

Clock: TypeAlias = Callable[[], int]
"""Returns the time in whole seconds since the epoch. May be called from any thread."""
ExactClock: TypeAlias = Callable[[], float]
"""Of leases: whole seconds would take up to one second of them."""


UNFINISHED = frozenset(("queued", "in_progress"))
"""Statuses of responses that have not ended."""


class Turn(Struct, frozen=True, kw_only=True, rename={"encoded": "response"}):
    """One stored response."""

    id: str
    previous_response_id: str | None = None
    created_at: int
    status: str
    model: str
    provider: str
    client: str = ""
    """Its owner: the name of the client key that the request was authenticated with. Empty: no
    owner, found by every client."""
    conversation_end: str | None = None
    """The id of the last item that its conversation had before it, if it has one."""
    input: tuple[Document, ...] = ()
    output: tuple[Document, ...] = ()
    encoded: Raw
    """The response object as JSON, without its output: see `encode_response`."""
    expires_at: int | None = None
    """None: the store sets it from `StoreLimits.ttl_s`."""

    @property
    def response(self) -> Document:
        """The final Response object as sent to the client. It is decoded at each use."""
        response: Document = msgspec.json.decode(self.encoded)
        if self.output and response.get("output") == []:
            response["output"] = [*self.output]
            if response.get("output_text") == "":
                response["output_text"] = text_of_output(self.output)
        return response

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the response belongs to."""
        conversation = _decode_conversation(self.encoded).conversation
        return None if conversation is None else conversation["id"]

    def with_response(self, response: Document) -> Turn:
        """Return the turn with another response object, which has the same id."""
        return structs.replace(
            self,
            status=response["status"],
            output=tuple(response["output"]),
            encoded=encode_response_object(response, response["output"]),
        )


class StoreLimits(Struct, frozen=True, kw_only=True):
    """Retention limits of a store. None is no limit, or the backend's default."""

    ttl_s: int | None = 30 * 24 * 3600
    max_turn_bytes: int = 16 * 1024 * 1024
    max_turns: int | None = None
    """Above this many turns, or `max_bytes`, the oldest turns are evicted."""
    max_bytes: int | None = None
    max_chain: int | None = None
    """Maximum number of turns in one chain."""
    max_history_items: int = 20_000
    """Maximum number of items in the history of a request: a chain, or a conversation."""
    max_history_bytes: int = 64 * 1024 * 1024
    """Maximum size of this history as JSON."""
    max_call_states: int = 10_000
    """Maximum number of calls of one client whose state is kept."""
    log_ttl_s: int = 3600
    """How long the event log of a response is kept after its end."""

    def expiry(self, now: int) -> int | None:
        """Return when a turn that is saved or renewed now expires."""
        return None if self.ttl_s is None else now + self.ttl_s

    def expiry_of(self, turn: Turn, now: int) -> int | None:
        """Return when a turn that is saved now expires: never before it has ended."""
        if turn.status in UNFINISHED:
            return None
        return self.expiry(now) if turn.expires_at is None else turn.expires_at

    def needs_renewal(self, expires_at: int | None, now: int) -> bool:
        """Whether half of a turn's lifetime is over: reading it then renews it, so that a chain in
        use never expires."""
        return (
            self.ttl_s is not None
            and expires_at is not None
            and expires_at - now <= self.ttl_s // 2
        )


class RawItems(Struct):
    """The items of a stored turn, which are not decoded."""

    input: tuple[Raw, ...] = ()
    output: tuple[Raw, ...] = ()


class _OfConversation(Struct):
    """The only field of a response object that is read of it."""

    conversation: Document | None = None


_decode = msgspec.json.Decoder(Turn).decode
_decode_conversation = msgspec.json.Decoder(_OfConversation).decode
decode_raw_items = msgspec.json.Decoder(RawItems).decode


def encode_response(response: Response) -> Raw:
    """Encode the response object of a turn without its output, which the turn itself has, and
    without the text of it; raises `StoreRefused` if it is not encodable."""
    text = UNSET if response.output_text is UNSET else ""
    shell = structs.replace(response, output=(), output_text=text)
    return Raw(_encode_json(shell, f"Response {response.id!a}"))


def encode_response_object(response: Document, output: Sequence[Document]) -> Raw:
    """Encode a response object without what `Turn.response` derives from this output."""
    shell: dict[str, Any] = {**response}
    if "output" in shell and [*shell["output"]] == [*output]:
        shell["output"] = []
        if "output_text" in shell and shell["output_text"] == text_of_output(output):
            shell["output_text"] = ""
    return Raw(_encode_json(shell, "The response object"))


def encode_turn(turn: Turn, limits: StoreLimits) -> bytes:
    """Encode a turn as JSON; raises `StoreRefused` if it is too large or not encodable."""
    return _encode(turn, f"Response {turn.id!a}", limits)


def encode_item(item: Document, limits: StoreLimits) -> bytes:
    """Encode an item of a conversation as JSON; raises `StoreRefused` as `encode_turn` does."""
    return _encode(item, f"Item {item['id']!a}", limits)


def _encode_json(value: object, name: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreRefused(f"{name} cannot be stored: {error}") from error


def _encode(value: object, name: str, limits: StoreLimits) -> bytes:
    body = _encode_json(value, name)
    max_bytes = limits.max_turn_bytes
    if limits.max_bytes is not None:
        max_bytes = min(max_bytes, limits.max_bytes)
    if len(body) > max_bytes:
        raise StoreRefused(
            f"{name} cannot be stored: {len(body):,} bytes exceed the limit of"
            f" {max_bytes:,}. Send `store: false`, or raise `max_turn_bytes` in [store]."
        )
    return body


def decode_turn(body: bytes, expires_at: int | None) -> Turn:
    """Decode a stored turn; `expires_at` may have been renewed since the bytes were written."""
    return msgspec.structs.replace(_decode(body), expires_at=expires_at)


# Items of a turn


class ItemLocation(NamedTuple):
    """Where in its turn an item is. Output items sort before input items that repeat them."""

    is_input: bool
    position: int


def read_reference_id(item: Mapping[str, Any]) -> str | None:
    """Return the id of an `item_reference`; None for any other item. `type` is optional in it."""
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    id = item.get("id")
    return id if kind == "item_reference" and isinstance(id, str) else None


def key_of_call(call_id: str) -> str:
    """Return the key by which the index of items has a call: providers choose the ids of calls."""
    return f"call:{call_id}"


def locate_items(turn: Turn) -> dict[str, ItemLocation]:
    """Return the location of each item of a turn by its id. References are not items. Calls that
    came with state of their provider are also located by `key_of_call`."""
    found: dict[str, ItemLocation] = {}
    has_state = False
    for is_input, items in ((True, turn.input), (False, turn.output)):
        for index, item in enumerate(items):
            id = item.get("id")
            if isinstance(id, str) and read_reference_id(item) is None:
                found[id] = ItemLocation(is_input, index)
            has_state = has_state or (not is_input and bool(item.get("encrypted_content")))
    return {**_locate_calls(turn.output), **found} if has_state else found


def _locate_calls(output: Sequence[Document]) -> dict[str, ItemLocation]:
    return {
        key_of_call(item["call_id"]): ItemLocation(is_input=False, position=index)
        for index, item in enumerate(output)
        if isinstance(item.get("call_id"), str)
    }
