"""Source of a stream: the provider that answers, and the protocols of what reads its bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.core.deltas import Delta
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.faults.messages import describe
from antiphon.core.stream.blocks import Seal
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.framing.sse import Frame


class Framer(Protocol):
    """Incremental framing: chunks of bytes in, complete frames out."""

    def feed(self, chunk: bytes) -> list[Frame]: ...
    def close(self) -> list[Frame]: ...


class StreamDecoder(Protocol):
    """Incremental decoding of one streamed response: frames in, deltas out."""

    ended: bool
    """The provider has marked the end of the stream; nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]: ...
    def close(self) -> list[Delta]: ...


class ReadingDialect(Protocol):
    """The half of a dialect that reads what a provider sends."""

    def framer(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> Framer:
        """What splits a stream into frames of at most `max_bytes`."""
        ...

    def decoder(self) -> StreamDecoder: ...
    def decode(self, body: bytes) -> list[Delta]:
        """The deltas of a body that is not streamed."""
        ...

    def for_client(self, client_format: str) -> ReadingDialect:
        """What reads responses for clients of this format: if it is the provider's own, content
        blocks that other formats do not have are kept, and so are members without another name."""
        ...


class Source(Struct, frozen=True):
    """The provider and model that an attempt calls, as far as reading their output needs it."""

    dialect: ReadingDialect
    guards: Sequence[str] = ()
    """The markup that this model is known to leak into its text."""
    seal: Seal | None = None
    """Encrypts the provider state of output items; without it, state is dropped."""
    describe: Callable[[ProviderFault], str] = describe
    """Makes the message of a fault for the client."""
