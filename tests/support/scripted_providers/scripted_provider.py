"""Scripted provider: one provider's side of the session, and a native client of that provider.

The native client is written from the provider's own format and keeps everything that the provider
expects back. A gateway must send exactly what this client would send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.dialect import Dialect
from tests.support.scripted_providers.session import Call, Turn

Body = dict[str, Any]


class ScriptedProvider(Protocol):
    name: str
    capabilities: Capabilities
    content_type: str
    history_key: str
    """The last field of a request: its history."""

    @property
    def dialect(self) -> Dialect: ...

    def stream_bytes(self, turn: Turn) -> bytes:
        """The response of a turn as a stream of bytes."""

    def output_text(self, turn: Turn) -> str:
        """The text of a turn; not every model writes text beside its calls."""

    def states(self, turn: Turn) -> list[str]:
        """The opaque state in the response of a turn, which has to be sent back."""

    def problems(self, body: bytes) -> list[str]:
        """The reasons why the provider would refuse a request."""

    # The native client

    def system_items(self) -> list[Body]: ...
    def user_items(self, text: str) -> list[Body]: ...
    def assistant_items(self, turn: Turn) -> list[Body]: ...
    def result_items(self, turn: Turn) -> list[Body]: ...


def native_history(scripted: ScriptedProvider, turns: Sequence[Turn]) -> list[Body]:
    """The history that a native client sends to get the response of the last of these turns."""
    history = scripted.system_items()
    for index, turn in enumerate(turns):
        if index:
            history += scripted.assistant_items(turns[index - 1])
        history += (
            scripted.user_items(turn.user) if turn.user else scripted.result_items(turns[index - 1])
        )
    return history


def native_tail(scripted: ScriptedProvider, turns: Sequence[Turn]) -> bytes:
    """The last bytes of such a request: the history and the end of the body."""
    history = msgspec.json.encode(native_history(scripted, turns))
    return b'"%b":%b}' % (scripted.history_key.encode(), history)


def split_in_half(text: str) -> list[str]:
    """A text in two pieces, as in a stream."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def calls_with_ids(turn: Turn, prefix: str) -> list[tuple[str, Call]]:
    """The calls of a turn with the ids that a provider gives them."""
    return [(f"{prefix}{turn.number}{index}", call) for index, call in enumerate(turn.calls)]


def parse_arguments(call: Call) -> Any:
    return msgspec.json.decode(call.arguments)


def sse(*documents: Any, named: bool = False) -> bytes:
    frames = []
    for document in documents:
        name = f"event: {document['type']}\n".encode() if named else b""
        frames.append(name + b"data: " + msgspec.json.encode(document) + b"\n\n")
    return b"".join(frames)
