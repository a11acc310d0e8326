"""Ids of tool calls for clients of Chat Completions: all that most of them return of a call.

An id leads back to the provider's own, and to the item of the call, by which the gateway keeps the
state of its provider. Where nothing may be stored, the id also carries this state, sealed. It is
unique, as providers repeat theirs (`call_0`) in every turn.
"""

from __future__ import annotations

import base64
import zlib
from typing import NamedTuple

import msgspec
from msgspec import Struct

from antiphon.dialects.anthropic.message_ids import unwrap_call_id

_PLAIN = "call_ap1"
_WITH_STATE = "call_aps"
_MAX_OWN_CHARS = 1024
"""A longer id of a provider is passed on as it is."""
_MAX_CONTENT_BYTES = 4096


class SealedStates(NamedTuple):
    """State of the provider, one text for each reasoning item."""

    before: tuple[str, ...] = ()
    """Directly in front of the call."""
    before_text: tuple[str, ...] = ()
    """In front of the text that precedes the call."""


NO_STATES = SealedStates()


class CallKey(Struct, frozen=True, array_like=True):
    """What an id stands for."""

    call_id: str
    """The id that the provider gave to the call."""
    item: str | None = None
    """The id of its item."""
    sealed: SealedStates = NO_STATES


_decode = msgspec.json.Decoder(CallKey).decode


def write_call_id(call_id: str, item: str, sealed: SealedStates = NO_STATES) -> str:
    """Return the id of a call for a client."""
    if len(call_id) > _MAX_OWN_CHARS:
        return call_id
    call_id = call_id.encode("utf-8", "replace").decode()  # a lone surrogate is no text
    if sealed == NO_STATES:
        return _PLAIN + _to_text(msgspec.json.encode((call_id, item)))
    content = msgspec.json.encode(CallKey(call_id, item, sealed))
    return _WITH_STATE + _to_text(zlib.compress(content, 9))


def read_call_id(text: str) -> CallKey:
    """Read an id that a client returns. One that it has from Messages leads to the provider's own,
    too; one that another server made stays as it is."""
    prefix = text[: len(_PLAIN)]
    if prefix not in (_PLAIN, _WITH_STATE):
        return CallKey(unwrap_call_id(text))
    try:
        content = _to_bytes(text[len(_PLAIN) :])
        if prefix == _WITH_STATE:
            content = zlib.decompressobj().decompress(content, _MAX_CONTENT_BYTES)
        return _decode(content)
    except (ValueError, zlib.error, RecursionError):
        return CallKey(text)


def _to_text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _to_bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
