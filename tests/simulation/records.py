"""Records of a world: what clients sent and received, what upstreams saw, and the time line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Document = dict[str, Any]
Outcome = Literal["", "complete", "vanished", "cut", "unreachable"]
"""`vanished`: the client closed; `cut`: the gateway closed before the end of its answer."""

QUESTION = re.compile(rb"qx(\d+)-(\w+?)x")
"""The number and the tenant of an exchange, in the text of its request."""
ANSWER = re.compile(r"ax(\d+)-(\w+?)-(\d+)x")
"""The exchange, its tenant and the number of the upstream call, in the text of an answer."""
TERMINAL = ("response.completed", "response.failed", "response.incomplete")


@dataclass
class Exchange:
    """One request of a client and the answer to it."""

    number: int
    tenant: str
    process: str
    """The gateway process that it was sent to."""
    request: Document
    began: float
    behaviour: str = "reads"
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    outcome: Outcome = ""
    ended: float = 0.0
    closed_at: float | None = None
    """When the client vanished."""
    stored: Document | None = None
    """What the store held when the client received the terminal event."""
    head_at: float | None = None
    """When the head of the answer arrived."""
    last_byte_at: float = 0.0
    longest_silence_s: float = 0.0
    """The longest time without a byte before the end of the body."""
    paused_s: float = 0.0
    """How long the client did not read."""
    is_probe: bool = False
    knows_foreign: bool = False
    """Whether the request names a response of another tenant."""
    _events: list[Document] | None = None

    @property
    def is_stream(self) -> bool:
        return bool(self.request.get("stream"))

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")

    @property
    def events(self) -> list[Document]:
        """The events of a streamed answer, as far as they arrived."""
        if self._events is None or not self.ended:
            frames = [bytes(frame) for frame in self.body.split(b"\n\n")[:-1]]
            found = [frame.partition(b"data: ")[2] for frame in frames if b"data: " in frame]
            self._events = [msgspec.json.decode(each) for each in found if each != b"[DONE]"]
        return self._events

    @property
    def response(self) -> Document | None:
        """The final response as the client was told; None if it was not."""
        if self.status != 200 or (not self.is_stream and self.outcome != "complete"):
            return None
        if not self.is_stream:
            document: Document = msgspec.json.decode(self.body)
            return document
        events = self.events
        if events and events[-1]["type"] in TERMINAL:
            response: Document = events[-1]["response"]
            return response
        return None

    @property
    def result(self) -> str:
        """The outcome in one word, for the summary."""
        if self.outcome != "complete":
            return self.outcome or "unfinished"
        if self.status != 200:
            return f"HTTP {self.status}"
        return str((self.response or {}).get("status", "no terminal event"))


@dataclass
class UpstreamCall:
    """One request that an upstream received."""

    number: int
    provider: str
    key: str
    exchange: int
    tenants: tuple[str, ...]
    """Every tenant whose text is in the request."""
    began: float
    path: str
    body: bytes
    fault: str = ""
    is_recorded: bool = False
    """Whether the answer comes from the corpus."""
    answered_at: float | None = None
    """When the whole error answer, or the first byte of another one, was sent."""
    rests_until: float = 0.0
    """Until when the key must not be used after this answer."""
    finished_at: float | None = None
    """When the upstream had sent its answer, or had closed."""
    lost_at: float | None = None
    """When its connection was over."""


@dataclass
class History:
    """Everything that the oracles read."""

    exchanges: list[Exchange] = field(default_factory=list)
    calls: list[UpstreamCall] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    """The time line: time, actor, what happened."""
    log: list[tuple[str, Any]] = field(default_factory=list)
    """Log entries with the name of their process."""

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def calls_of(self) -> dict[int, list[UpstreamCall]]:
        """Upstream calls by exchange."""
        found: dict[int, list[UpstreamCall]] = {}
        for call in self.calls:
            found.setdefault(call.exchange, []).append(call)
        return found
