"""Arguments of an endpoint of the page: the exchange, and its query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from antiphon.engine.engine import Engine
from antiphon.errors import InvalidRequest
from antiphon.server.endpoints.query import Query
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPResponse

_MAX_BODY = 64 * 1024
T = TypeVar("T")


@dataclass(frozen=True)
class PageRequest:
    """One request to the page's API, from somebody who may use it."""

    exchange: Exchange
    id: str = ""
    """The id in the path."""

    @property
    def process(self) -> GatewayProcess:
        return self.exchange.process

    @property
    def engine(self) -> Engine:
        """That of the configuration in effect, which live updates follow."""
        return self.process.setup.engine

    @property
    def query(self) -> Query:
        return Query(self.exchange.http.query)

    @property
    def trace_path(self) -> Path | None:
        """The trace file; None if requests are not traced."""
        store = self.engine.services.tracer.store
        return store.path if store is not None else None

    async def read_trace(self, read: Callable[[Path], T], default: T) -> T:
        """Read the trace in a thread; `default` if requests are not traced."""
        path = self.trace_path
        return default if path is None else await asyncio.to_thread(read, path)

    async def read_json(self) -> dict[str, Any]:
        """Read a small JSON object from the body."""
        http = self.exchange.http
        if http.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise InvalidRequest("The content type must be application/json.", status=415)
        body = bytearray()

        def feed(piece: bytes) -> None:
            if len(body) + len(piece) > _MAX_BODY:
                raise InvalidRequest(
                    f"The request body has more than {_MAX_BODY} bytes: the page never sends more.",
                    code="request_too_large",
                    status=413,
                )
            body.extend(piece)

        await http.read_body(feed)
        try:
            document = msgspec.json.decode(body)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest("The request body is not valid JSON.") from error
        if not isinstance(document, dict):
            raise InvalidRequest("The request body must be a JSON object.")
        return document


PageEndpoint: TypeAlias = Callable[[PageRequest], Awaitable[HTTPResponse]]
