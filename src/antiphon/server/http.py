"""HTTP requests and responses as plain values, independent of any web framework."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Send bytes to the client; returns when the client is ready for more."""


@dataclass(frozen=True, slots=True)
class HTTPRequest:
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

    @classmethod
    def with_body(
        cls,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        remote: str = "127.0.0.1",
    ) -> HTTPRequest:
        """Make a request whose body is already in memory."""

        async def read_body(feed: Callable[[bytes], None]) -> None:
            feed(body)

        return cls(method, path, headers, remote, read_body)


class StreamingBody(Protocol):
    """Response body that is produced while it is sent.

    Whoever holds it calls `close` in the end, also if nothing was ever written.
    """

    async def write_to(self, write: Write) -> None:
        """Write the whole body. May be called once."""

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Read the whole body instead of having it written; closes it when left."""

    async def close(self) -> None:
        """Release what the body holds. May be called more than once."""


@dataclass(slots=True)
class HTTPResponse:
    """One HTTP response. Header names are lower-case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | StreamingBody = b""
    close_connection: bool = False
    """The connection must not be used for another request."""


def json_response(
    document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTTPResponse:
    body = msgspec.json.encode(document)
    return HTTPResponse(status, {"content-type": "application/json", **(headers or {})}, body)
