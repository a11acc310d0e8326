"""Provider state, sealed into `encrypted_content`: a client carries it, nobody else can read it.

1. A capsule holds what its provider wants back next turn: reasoning text, signatures, blobs.
2. It is bound to the provider and model that made it; a stranger gets nothing out of it.
3. Opening never raises. What cannot be opened says why, and the plan degrades by that.

A sealed capsule is `ap1.` and, in base64url: 4 bytes that name the key, a 12-byte nonce, and the
AES-GCM ciphertext of the compressed JSON.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from antiphon.core.stream.deltas import ReasoningState

_PREFIX = "ap1."
_NONCE_BYTES = 12
_KEY_ID_BYTES = 4
_MAX_BYTES = 16 * 1024 * 1024  # of one opened capsule: a small text must not become a flood


class Capsule(Struct, frozen=True, kw_only=True):
    """What one reasoning item of one provider and model wants to be reminded of."""

    issuer: str
    model: str
    sealed_at: int
    text: str = ""
    states: tuple[ReasoningState, ...] = ()


class Unopened(StrEnum):
    """Why a capsule stayed closed."""

    FOREIGN = "foreign"  # not one of ours: another server's blob
    TAMPERED = "tampered"  # ours by its looks, but altered or cut
    UNKNOWN_KEY = "unknown_key"  # sealed with a key we do not have any more
    EXPIRED = "expired"


Opened: TypeAlias = Capsule | Unopened

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Capsule).decode


class Sealer:
    """Seals with the first key, opens with any: adding one in front rotates."""

    def __init__(
        self,
        keys: Sequence[str],
        *,
        new_nonce: Callable[[int], bytes],
        now: Callable[[], int],
        ttl_s: int | None = None,
    ) -> None:
        derived = [hashlib.sha256(b"antiphon capsule\0" + key.encode()).digest() for key in keys]
        self._ciphers = {_key_id(key): AESGCM(key) for key in derived}
        self._current = _key_id(derived[0])
        self._new_nonce = new_nonce
        self._now = now
        self._ttl_s = ttl_s

    def seal(self, issuer: str, model: str, states: Sequence[ReasoningState], text: str) -> str:
        capsule = Capsule(
            issuer=issuer, model=model, sealed_at=self._now(), text=text, states=tuple(states)
        )
        nonce = self._new_nonce(_NONCE_BYTES)
        packed = zlib.compress(_encode(capsule))
        sealed = self._ciphers[self._current].encrypt(nonce, packed, _PREFIX.encode())
        return _PREFIX + base64.urlsafe_b64encode(self._current + nonce + sealed).decode()

    def open(self, text: str) -> Opened:
        """The capsule in `encrypted_content`, or why there is none."""
        if not text.startswith(_PREFIX):
            return Unopened.FOREIGN
        try:
            data = base64.b64decode(text[len(_PREFIX) :].encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return Unopened.TAMPERED
        cipher = self._ciphers.get(data[:_KEY_ID_BYTES])
        if cipher is None:
            return Unopened.UNKNOWN_KEY
        return self._decrypted(cipher, data[_KEY_ID_BYTES:])

    def _decrypted(self, cipher: AESGCM, data: bytes) -> Opened:
        try:
            nonce, sealed = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            packed = cipher.decrypt(nonce, sealed, _PREFIX.encode())
            capsule = _decode(zlib.decompressobj().decompress(packed, _MAX_BYTES))
        except (InvalidTag, ValueError, zlib.error, msgspec.DecodeError):
            return Unopened.TAMPERED
        if self._ttl_s is not None and capsule.sealed_at + self._ttl_s < self._now():
            return Unopened.EXPIRED
        return capsule


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_KEY_ID_BYTES]


Unseal: TypeAlias = Callable[[str], Opened]
