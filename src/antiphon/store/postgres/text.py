"""Ids and names as PostgreSQL text, which has no NUL characters and no lone surrogates.

An index entry has at most 2,704 bytes, so a long id is replaced by its hash.
"""

from __future__ import annotations

from hashlib import sha256

_MAX_CHARACTERS = 500
_ESCAPE = "\x01"
_NUL = "\x01\x02"
_HASH = "\x01\x03"


def encode_text(text: str) -> str:
    """Return the text that is stored for an id; different ids have different ones."""
    if len(text) > _MAX_CHARACTERS:
        return _HASH + sha256(text.encode("utf-8", "replace")).hexdigest()
    if text.isascii() and text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    return text.replace(_ESCAPE, _ESCAPE * 2).replace("\x00", _NUL)


def encode_optional_text(text: str | None) -> str | None:
    return None if text is None else encode_text(text)


def decode_text(stored: str) -> str:
    """Return the id for a stored text; of a long id, only the hash is known."""
    if _ESCAPE not in stored or stored.startswith(_HASH):
        return stored
    parts = stored.split(_ESCAPE * 2)
    return _ESCAPE.join(part.replace(_NUL, "\x00") for part in parts)
