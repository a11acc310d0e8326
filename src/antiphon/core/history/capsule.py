"""Capsules: provider state that is encrypted into `encrypted_content` and sent to the client.

1. A capsule holds what its provider needs in the next turn: reasoning text, signatures, blobs.
2. It is bound to the provider and model that made it; only the gateway can decrypt it.
3. It is bound to its owner, the client key it was made for (ADR 0036).
4. Opening never raises: it returns the reason instead, and the plan works without the state.
5. It expires after `[capsule] ttl_s`, unless it holds a compacted history: its thread has nothing
   else to continue from.

A sealed capsule is `ap2.` and, in base64url: 4 bytes that name the key, a 12-byte nonce, and the
AES-GCM ciphertext of the compressed JSON. The authenticated data are `ap2.` and the owner. Capsules
with `ap1.`, of earlier versions, have no owner: any client can use them until they expire.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.deltas import ReasoningState
from antiphon.core.stream.compaction_item import COMPACTION

if TYPE_CHECKING:  # imported with the first capsule: 6 MB that most gateways never need
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PREFIX = "ap2."
_PREFIX_WITHOUT_OWNER = "ap1."
_NONCE_BYTES = 12
_KEY_ID_BYTES = 4
_MAX_BYTES = 16 * 1024 * 1024  # of one decompressed capsule: protects against zip bombs


class Capsule(Struct, frozen=True, kw_only=True):
    """The state of one reasoning item, and the provider and model that made it."""

    issuer: str
    model: str
    sealed_at: int
    text: str = ""
    states: tuple[ReasoningState, ...] = ()


class Unopened(StrEnum):
    """Why a capsule could not be opened."""

    FOREIGN = "foreign"  # not a capsule: `encrypted_content` of another server
    TAMPERED = "tampered"  # modified, truncated, or sealed for another owner
    UNKNOWN_KEY = "unknown_key"  # sealed with a key that is no longer configured
    EXPIRED = "expired"


Opened: TypeAlias = Capsule | Unopened

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Capsule).decode


class Sealer:
    """Seals with the first key and opens with any: key rotation puts a new one in front."""

    def __init__(
        self,
        keys: Sequence[str],
        *,
        new_nonce: Callable[[int], bytes],
        now: Callable[[], int],
        ttl_s: int | None = None,
    ) -> None:
        derived = [hashlib.sha256(b"antiphon capsule\0" + key.encode()).digest() for key in keys]
        self._keys = {_key_id(key): key for key in derived}
        self._ciphers: dict[bytes, AESGCM] = {}
        self._current = _key_id(derived[0])
        self._new_nonce = new_nonce
        self._now = now
        self._ttl_s = ttl_s

    def seal(
        self, owner: str, issuer: str, model: str, states: Sequence[ReasoningState], text: str
    ) -> str:
        """Return `encrypted_content` that only `owner`, a client key by its name, can use."""
        capsule = Capsule(
            issuer=issuer, model=model, sealed_at=self._now(), text=text, states=tuple(states)
        )
        nonce = self._new_nonce(_NONCE_BYTES)
        packed = zlib.compress(_encode(capsule))
        sealed = self._cipher(self._current).encrypt(nonce, packed, _authenticated(owner))
        return _PREFIX + base64.urlsafe_b64encode(self._current + nonce + sealed).decode()

    def open(self, owner: str, text: str) -> Opened:
        """Open the capsule in `encrypted_content`, or return why it cannot be opened."""
        if text.startswith(_PREFIX):
            authenticated = _authenticated(owner)
        elif text.startswith(_PREFIX_WITHOUT_OWNER):
            authenticated = _PREFIX_WITHOUT_OWNER.encode()
        else:
            return Unopened.FOREIGN
        try:
            data = base64.b64decode(text[len(_PREFIX) :].encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return Unopened.TAMPERED
        key_id = data[:_KEY_ID_BYTES]
        if key_id not in self._keys:
            return Unopened.UNKNOWN_KEY
        return self._decrypt(self._cipher(key_id), data[_KEY_ID_BYTES:], authenticated)

    def _cipher(self, key_id: bytes) -> AESGCM:
        if key_id not in self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._ciphers[key_id] = AESGCM(self._keys[key_id])
        return self._ciphers[key_id]

    def _decrypt(self, cipher: AESGCM, data: bytes, authenticated: bytes) -> Opened:
        from cryptography.exceptions import InvalidTag

        try:
            nonce = data[:_NONCE_BYTES]
            sealed = data[_NONCE_BYTES:]
            packed = cipher.decrypt(nonce, sealed, authenticated)
            capsule = _decode(zlib.decompressobj().decompress(packed, _MAX_BYTES))
        except (InvalidTag, ValueError, zlib.error, msgspec.DecodeError):
            return Unopened.TAMPERED
        return Unopened.EXPIRED if self._has_expired(capsule) else capsule

    def _has_expired(self, capsule: Capsule) -> bool:
        if self._ttl_s is None or capsule.sealed_at + self._ttl_s >= self._now():
            return False
        return all(state.scheme != COMPACTION for state in capsule.states)


def is_capsule(text: str) -> bool:
    """Whether a text looks like a capsule; only opening it tells whether it is one of ours."""
    return text.startswith((_PREFIX, _PREFIX_WITHOUT_OWNER))


def _authenticated(owner: str) -> bytes:
    return _PREFIX.encode() + owner.encode()


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_KEY_ID_BYTES]


Unseal: TypeAlias = Callable[[str], Opened]
