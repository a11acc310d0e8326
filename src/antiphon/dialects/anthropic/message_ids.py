"""Ids of a Messages client: of messages and of tool calls. Both lead back to the canonical ids.

A call id of a provider is kept if it is one that Anthropic could have made. Any other is wrapped:
clients keep calls by their ids, and providers repeat theirs (`call_0`) in every turn. The wrapped
id is unique, since it has a digest of the response's id, and contains the provider's own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

RESPONSE_PREFIX = "resp_"
MESSAGE_PREFIX = "msg_"
"""The beginnings of ids, here and in the format of the client."""
_OWN = re.compile(r"toolu_[A-Za-z0-9_-]{16,}")
_WRAPPED = "toolu_ap1"
_DIGEST_CHARS = 22  # 128 bits in base64
_MAX_ID_BYTES = 256


def message_id(response: str) -> str:
    """The id of a message, from that of its response."""
    return MESSAGE_PREFIX + response.removeprefix(RESPONSE_PREFIX)


def response_id(message: str) -> str:
    """The id of the response that was sent as this message."""
    return RESPONSE_PREFIX + message.removeprefix(MESSAGE_PREFIX)


def wrap_call_id(call_id: str, response: str, position: int) -> str:
    """The id of a call for a client; `position` is that of its item in the response."""
    if _OWN.fullmatch(call_id) and not call_id.startswith(_WRAPPED):
        return call_id
    seed = f"{response} {position} {call_id}".encode("utf-8", "surrogatepass")
    digest = base64.urlsafe_b64encode(hashlib.sha256(seed).digest())[:_DIGEST_CHARS].decode()
    original = call_id.encode("utf-8", "surrogatepass")
    if len(original) > _MAX_ID_BYTES:
        return _WRAPPED + digest
    return _WRAPPED + digest + base64.urlsafe_b64encode(original).decode().rstrip("=")


def unwrap_call_id(call_id: str) -> str:
    """The id that the provider gave to a call; an id that was not wrapped stays."""
    encoded = call_id[len(_WRAPPED) + _DIGEST_CHARS :]
    if not call_id.startswith(_WRAPPED) or not encoded:
        return call_id
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        original = base64.b64decode(padded, altchars=b"-_", validate=True).decode(
            "utf-8", "surrogatepass"
        )
    except (binascii.Error, UnicodeError):
        return call_id
    return original or call_id
