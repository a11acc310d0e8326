"""What a client of Messages or Chat Completions has read of a response, and what was wrong with it.

The readers are written from the two formats and share nothing with the renderers of the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Document = dict[str, Any]
Format = Literal["responses", "messages", "chat"]
PATHS: dict[Format, str] = {
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
}


@dataclass
class ReadCall:
    """A tool call, with its arguments as they were sent."""

    id: str
    name: str
    kind: str = "function"
    arguments: str = ""
    is_closed: bool = False

    @property
    def has_arguments(self) -> bool:
        """Whether a client can run it: freeform input is any text."""
        return self.kind == "custom" or isinstance(parse_json(self.arguments), dict)


@dataclass
class Reading:
    """A response in either format, as far as it has arrived."""

    id: str = ""
    """That of the response, without what the format puts in front of it."""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    calls: list[ReadCall] = field(default_factory=list)
    blocks: list[Document] = field(default_factory=list)
    """What a client sends back: content blocks of Messages, the details of reasoning of Chat."""
    reason: str = ""
    """The stop reason or finish reason."""
    is_cut: bool = False
    """Whether the reason is a limit of tokens, or a filter."""
    error: Document | None = None
    """The error in a stream that has begun."""
    usage: Document | None = None
    problems: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    """Arguments of finished calls that are no JSON object."""

    @property
    def status(self) -> str:
        """The status that the response has in the Responses API; empty if it has not ended."""
        if self.error is not None:
            return "failed"
        if not self.reason:
            return ""
        return "incomplete" if self.is_cut else "completed"

    def expect(self, is_right: object, problem: str) -> None:
        if not is_right:
            self.problems.append(problem)

    def as_response(self, *, store: bool) -> Document | None:
        """The response as the rules of the simulation read it; None if it has not ended."""
        if not self.status:
            return None
        calls = [
            {"type": "function_call", "name": call.name, "arguments": call.arguments}
            for call in self.calls
        ]
        message = {"type": "message", "content": [{"type": "output_text", "text": self.text}]}
        return {
            "id": f"resp_{self.id}",
            "status": self.status,
            "store": store,
            "output": [message, *calls],
            "error": self.error,
        }


def read_frames(reading: Reading, frames: Iterable[bytes], read: Callable[[bytes], None]) -> None:
    """Read frame by frame; one that cannot be read at all is a problem, too."""
    for frame in frames:
        try:
            read(frame)
        except UNREADABLE as error:
            reading.problems.append(f"{frame[:60]!r} cannot be read: {error!r}")


UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""What a reader raises where something is not there, or is something else."""


def parse_json(text: str | bytes) -> Any:
    """Decode JSON; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def is_count(value: object) -> bool:
    return type(value) is int and value >= 0
