"""Ended requests: who sent them, who answered them, and what that took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.store.trace.rows import TraceAttempt
from antiphon.wire.response import ResponseUsage


class TraceContext(Protocol):
    """Ids of a request in a distributed trace."""

    def begin_attempt(self) -> Mapping[str, str]:
        """Return the headers that an attempt sends to its provider."""

    def end_attempt(self) -> int:
        """Return the span id of the attempt that was begun last, or a new one."""


class EndedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt of a request: its row in the trace, and its place among the rounds."""

    row: TraceAttempt
    at_ms: float
    """When it failed or had its first output, since the request began."""
    round: int
    """The number of the round, from 0."""
    span_id: int = 0


class EndedRequest(Struct, frozen=True, kw_only=True):
    """A request that has ended: who sent it, who answered it, and what that took."""

    request_id: str
    received_at_ms: int
    client: str
    provider: str
    """The provider that answered; of a request that failed, the last one tried."""
    model: str
    status: str
    usage: ResponseUsage | None = None
    cost: int | None = 0
    """In billionths of a US dollar; None: tokens were used, and their price is unknown."""
    first_event_ms: float | None = None
    response_id: str = ""
    requested_model: str = ""
    duration_ms: float = 0.0
    events: int = 0
    code: str | None = None
    """The error code of a request that failed."""
    attempts: Sequence[EndedAttempt] = ()
    rounds: Sequence[float] = (0.0,)
    """When each round began, in milliseconds since the request began."""
    load_ms: float | None = None
    """Time to load the history from the store; None: nothing was loaded."""
    save_ms: float | None = None
    """Time to save the response in the store; None: nothing was saved."""
    context: TraceContext | None = None

    @property
    def is_failed(self) -> bool:
        return self.status == "failed"


class RequestLimiter(Protocol):
    """Limits of clients, checked before a provider is called and counted after."""

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        """Count a request that begins, and return headers for its response; raises
        `LimitExceeded`. `release` must follow."""

    def release(self, request: EndedRequest) -> None:
        """Count what an admitted request has used. Never blocks."""

    def withdraw(self, client: str, request_id: str) -> None:
        """Count an admitted request as running no longer, whether or not it was released."""
