"""What a speaker is: one provider's side of the session, and a client that knows only this one.

The native client is written from the provider's own format, and keeps everything that the provider
wants back. What a gateway sends must be what this client would have sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from antiphon.core.plan.plan import Capabilities
from antiphon.dialects.dialect import Dialect
from tests.support.scripted_providers.session import Call, Turn

Body = dict[str, Any]


class Speaker(Protocol):
    name: str
    capabilities: Capabilities
    content_type: str
    history_key: str
    """Where the history stands in a request: last."""

    @property
    def dialect(self) -> Dialect: ...

    def streamed(self, turn: Turn) -> bytes:
        """The answer of a turn, as it comes over the wire."""

    def words(self, turn: Turn) -> str:
        """What is said in a turn; not every model speaks beside its calls."""

    def states(self, turn: Turn) -> list[str]:
        """What is opaque in the answer of a turn, and has to come back."""

    def problems(self, body: bytes) -> list[str]:
        """Why the provider would refuse a request."""

    # The native client

    def leading(self) -> list[Body]: ...
    def asked(self, text: str) -> list[Body]: ...
    def answered(self, turn: Turn) -> list[Body]: ...
    def results(self, turn: Turn) -> list[Body]: ...


def native_history(speaker: Speaker, turns: Sequence[Turn]) -> list[Body]:
    """What a native client sends to get the answer of the last of these turns."""
    history = speaker.leading()
    for place, turn in enumerate(turns):
        if place:
            history += speaker.answered(turns[place - 1])
        history += speaker.asked(turn.user) if turn.user else speaker.results(turns[place - 1])
    return history


def native_tail(speaker: Speaker, turns: Sequence[Turn]) -> bytes:
    """The last bytes of such a request: the history, and the end of the body."""
    history = msgspec.json.encode(native_history(speaker, turns))
    return b'"%b":%b}' % (speaker.history_key.encode(), history)


def halves(text: str) -> list[str]:
    """A text in two pieces, as streams have it."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def numbered(turn: Turn, prefix: str) -> list[tuple[str, Call]]:
    """The calls of a turn with the ids that a provider gives them."""
    return [(f"{prefix}{turn.number}{place}", call) for place, call in enumerate(turn.calls)]


def parsed(call: Call) -> Any:
    return msgspec.json.decode(call.arguments)


def sse(*documents: Any, named: bool = False) -> bytes:
    frames = []
    for document in documents:
        name = f"event: {document['type']}\n".encode() if named else b""
        frames.append(name + b"data: " + msgspec.json.encode(document) + b"\n\n")
    return b"".join(frames)
