"""The `ClientDialect` protocol: a format that clients speak, and what it is given.

A client dialect has no state: one object serves every request in its format. The renderer of a
stream has the state of that stream. The run, its event log and its readers know only the protocols
here; the server finds the dialect by the route of the request (ADR 0074).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.core.client_profile import Profile
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Event
from antiphon.core.faults.fault import ProviderFault, is_permanent
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.errors import InvalidRequest, LimitExceeded

NO_HEADERS: Mapping[str, str] = {}


class EventBatch(Struct, frozen=True):
    """Consecutive events of one response. Events are numbered from 0."""

    first: int
    """The number of the first event."""
    events: Sequence[Event]
    frames: bytes | None = None
    """The same events as Responses frames, if they were rendered for the store already."""

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self.first + len(self.events) - 1


class Problem(Struct, frozen=True, kw_only=True):
    """Why a client gets an error and no response, before a format has words for it."""

    status: int
    message: str
    """The text for the client, in its language."""
    kind: str = "invalid_request_error"
    """The `type` that the OpenAI API has for it. A fault has none: see `fault`."""
    code: str | None = None
    param: str | None = None
    """The member of the request that it is about, by the name that the client's format has."""
    fault: ProviderFault | None = None
    """What the provider reported, if the request failed there."""
    is_permanent: bool = False
    """Whether a retry cannot succeed until the client or the operator changes something."""
    retry_after_s: float | None = None
    request_id: str = ""
    """The id of the HTTP request; empty if it has none."""
    headers: Mapping[str, str] = {}
    """Headers that every format has: those of limits, and `allow`."""


class ErrorReply(Struct, frozen=True):
    """An error in the shape of one format."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Renderer(Protocol):
    """Renders the events of one response for one reader. Called in the order of the stream."""

    @property
    def keepalive_diagnostic(self) -> Diagnostic | None:
        """Reported with the first keepalive, if this client gets another form of it than others."""
        ...

    def feed(self, batch: EventBatch) -> bytes:
        """Render the events of one network read; empty if none of them is visible in the format."""
        ...

    def keepalive(self, last_number: int) -> bytes:
        """Render a sign of life. `last_number` is that of the last event; -1: none was sent."""
        ...

    def close(self) -> bytes:
        """Render what follows the terminal event: `data: [DONE]`, or nothing."""
        ...


class ClientDialect(Protocol):
    """A format that clients speak. Pure: documents and events in, bytes out."""

    @property
    def name(self) -> str:
        """The name of the format, in metrics and in the trace."""
        ...

    @property
    def id_header(self) -> str:
        """The response header in which its clients look for the id of their request."""
        ...

    @property
    def streams_overflow(self) -> bool:
        """Whether a stream reports that the context is too long as an event, and not as an HTTP
        error: some clients compact a thread only if they learn of it within a stream."""
        ...

    def parse(
        self,
        document: Document,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        is_large: bool = False,
        is_count: bool = False,
    ) -> Request:
        """Make the canonical request of a body; raises `InvalidRequest`, which names the members of
        this format. `headers` are those of the HTTP request, in lower case. `is_large`: it is
        handled in a thread. `is_count`: its tokens are to be counted, so that less of it is
        required."""
        ...

    def own_name(self, path: str, request: Request) -> str:
        """Return the member of the client's document that a path of the canonical request means, by
        the name that this format has for it; the path itself if there is no other name."""
        ...

    def renderer(self, request: Request, profile: Profile) -> Renderer:
        """Make the renderer of a streamed response."""
        ...

    def whole(self, response: Response, request: Request, profile: Profile) -> bytes:
        """Render a response that is not streamed."""
        ...

    def failure(self, response: Response) -> ErrorReply | None:
        """Render the error that takes the place of a whole response that failed; None if the format
        has a status for such a response."""
        ...

    def error(self, problem: Problem) -> ErrorReply:
        """Render an error before the first byte of a response."""
        ...


def request_problem(error: InvalidRequest) -> Problem:
    """Make the problem of a request that is invalid, or beyond a limit of its client."""
    return Problem(
        status=error.status,
        message=error.message,
        kind=error.kind,
        code=error.wire_code,
        param=error.param,
        is_permanent=isinstance(error, LimitExceeded) and error.permanent,
        headers=error.headers,
    )


def fault_problem(fault: ProviderFault, description: str) -> Problem:
    """Make the problem of a fault; `description` is the text for the client."""
    return Problem(
        status=fault.http_status,
        message=description,
        code=fault.public_code,
        fault=fault,
        is_permanent=is_permanent(fault),
        retry_after_s=fault.retry_after_s,
    )


def whole_seconds(delay_s: float) -> str:
    """The value of a `retry-after` header: never 0, which clients take for no delay at all."""
    return str(max(1, math.ceil(delay_s)))
