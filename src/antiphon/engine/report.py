"""Report of a run: who requested it, who served it and what that took, frozen at its end.

Its observers get it once: the trace, usage, limits, metrics and spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.response import ResponseUsage
from antiphon.engine.fault_report import FaultReport, ProviderWords
from antiphon.providers.prices import Price


class TraceContext(Protocol):
    """Ids of a request in a distributed trace."""

    def begin_attempt(self) -> Mapping[str, str]:
        """Return the headers that an attempt sends to its provider."""

    def end_attempt(self) -> int:
        """Return the span id of the attempt that was begun last, or a new one."""


class AttemptReport(Struct, frozen=True, kw_only=True):
    """One call of a provider: it failed, or its output has begun."""

    number: int
    provider: str
    model: str
    key_name: str
    """The number of the key in the configuration, never the key."""
    dialect: str = ""
    price: Price | None = None
    status: int | None = None
    """The provider's HTTP status; None if there was no response."""
    latency_ms: int = 0
    at_ms: float = 0.0
    """When it failed or had its first output, since the run began."""
    round: int = 0
    """The number of the round, from 0."""
    span_id: int = 0
    fault_type: str | None = None
    fault_code: str | None = None
    reason: str | None = None
    """The provider's own words, without secrets and quotes of the request."""
    words: ProviderWords = ProviderWords()
    """What else it said."""


class ServerCallReport(Struct, frozen=True, kw_only=True):
    """One call of an MCP server: a list of its tools, or a call of one."""

    server: str
    """The label of the server."""
    tool: str | None = None
    """None: a list of the server's tools."""
    item_id: str
    error: str | None = None
    """The type of the error; None: there was none."""
    reason: str | None = None
    """Why the server could not be used, in our own words."""
    result_bytes: int = 0
    """Size of the result of a tool; of a list, the number of tools."""
    duration_ms: float = 0.0


class RunReport(Struct, frozen=True, kw_only=True):
    """What happened in a run."""

    request_id: str
    received_at_ms: int
    client: str
    provider: str
    """The provider that served it; of a run that failed, the last one tried."""
    model: str
    status: str
    format: str = "responses"
    """The format that the client speaks."""
    response_id: str = ""
    requested_model: str = ""
    finish_reason: str | None = None
    """Why the model stopped, in the provider's own word; None if it sent none."""
    failure: FaultReport | None = None
    """Why the response failed; None if it did not."""
    diagnostics: Sequence[Diagnostic] = ()
    usage: ResponseUsage | None = None
    cost: int | None = 0
    """In billionths of a US dollar; None: tokens were used, and their price is unknown."""
    events: int = 0
    attempts: Sequence[AttemptReport] = ()
    served_by: AttemptReport | None = None
    """The attempt whose output the response has; without one, the last that failed."""
    server_calls: Sequence[ServerCallReport] = ()
    """Calls of MCP servers, in the order of their ends."""
    rounds: Sequence[float] = (0.0,)
    """When each round began, in milliseconds since the run began."""
    first_event_ms: float | None = None
    duration_ms: float = 0.0
    upstream_latency_ms: float | None = None
    """Time of the last attempt to the head of the provider's response."""
    load_ms: float | None = None
    """Time to load the history from the store; None: nothing was loaded."""
    save_ms: float | None = None
    """Time to save the response in the store; None: nothing was saved."""
    context: TraceContext | None = None

    @property
    def is_failed(self) -> bool:
        return self.status == "failed"

    @property
    def code(self) -> str | None:
        """The error code of a response that failed."""
        return None if self.failure is None else self.failure.code
