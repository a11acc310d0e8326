"""HTTP requests and responses as plain values, independent of any web framework."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Send bytes to the client; returns when the client is ready for more."""


class HTTPRequest(Struct, frozen=True):
    """One HTTP request. The body is read on demand: not before authentication has succeeded.

    Headers are looked up by lower-case names; a case-insensitive mapping or a dictionary with
    lower-case keys will do.
    """

    method: str
    path: str
    """Percent-decoded, without the query."""
    headers: Mapping[str, str]
    remote: str
    """IP address of the peer."""
    read_body: Callable[[Callable[[bytes], None]], Awaitable[None]]
    """Read the whole body, and pass on each decompressed piece as it arrives; raises
    `InvalidRequest` if the body cannot be decompressed or does not arrive in time."""
    query: str = ""
    """The query string as it was sent, without the question mark."""

    @classmethod
    def with_body(
        cls,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        remote: str = "127.0.0.1",
        query: str = "",
    ) -> HTTPRequest:
        """Make a request whose body is already in memory."""

        async def read_body(feed: Callable[[bytes], None]) -> None:
            feed(body)

        return cls(method, path, headers, remote, read_body, query)


class StreamingBody(Protocol):
    """Response body that is produced while it is sent.

    Its owner calls `close` in the end, also if nothing was ever written.
    """

    async def write_to(self, write: Write) -> None:
        """Write the whole body. May be called once."""

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Read the whole body instead of having it written; closes it when left."""

    async def close(self) -> None:
        """Release what the body holds. May be called more than once."""


class WebSocket(Protocol):
    """A WebSocket whose handshake is over. Its methods raise `ConnectionError` if it is lost."""

    async def receive(self) -> bytes | None:
        """Wait for a text message, in UTF-8; None if the connection is closed. Raises
        `InvalidRequest` for a binary message, after which others may follow."""

    async def send(self, message: bytes) -> None:
        """Send a text message; returns when the client is ready for more."""

    async def ping(self) -> None:
        """Send a ping, if the server allows it."""

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; `receive` then returns None."""


class WebSocketSession(Protocol):
    """What happens on a WebSocket from its handshake to its end."""

    max_message_bytes: int
    client: str
    """The name of the client's API key."""

    async def run(self, socket: WebSocket) -> None:
        """Answer messages until the connection is closed. May be called once."""

    def stop(self) -> None:
        """Close the connection as soon as everything that has begun is over."""

    def revoke(self) -> None:
        """Reject further requests, because the API key was removed, and stop."""


@dataclass(slots=True)
class HTTPResponse:
    """One HTTP response. Header names are lower-case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | StreamingBody = b""
    close_connection: bool = False
    """The connection must not be used for another request."""
    session: WebSocketSession | None = None
    """With status 101: what the connection is used for from now on."""


def json_response(
    document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTTPResponse:
    body = msgspec.json.encode(document)
    return HTTPResponse(status, {"content-type": "application/json", **(headers or {})}, body)
