"""Arguments of an endpoint of the page: the shared service, the HTTP request, and its query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest
from antiphon.server.endpoints.context import ProcessState, Received, Service
from antiphon.server.endpoints.query import Query
from antiphon.server.http import HTTPRequest, HTTPResponse

_MAX_BODY = 64 * 1024
T = TypeVar("T")


@dataclass(frozen=True)
class PageService:
    """State shared by all endpoints of the page."""

    state: ProcessState
    environment: Mapping[str, str]
    started_at_ms: int
    stopping: asyncio.Event

    @property
    def service(self) -> Service:
        """That of the configuration in effect."""
        return self.state.current

    @property
    def config(self) -> Config:
        return self.service.configuration

    @property
    def engine(self) -> Engine:
        return self.service.engine

    @property
    def trace_path(self) -> Path | None:
        """The trace file; None if requests are not traced."""
        store = self.engine.services.tracer.store
        return store.path if store is not None else None


@dataclass(frozen=True)
class PageRequest:
    """One request to the page's API, from somebody who may use it."""

    page: PageService
    service: Service
    """That of the configuration by which the request is answered, from its access to its end."""
    http: HTTPRequest
    caller: Caller
    received: Received
    id: str = ""
    """The id in the path."""

    @property
    def query(self) -> Query:
        return Query(self.http.query)

    async def read_trace(self, read: Callable[[Path], T], default: T) -> T:
        """Read the trace in a thread; `default` if requests are not traced."""
        path = self.page.trace_path
        return default if path is None else await asyncio.to_thread(read, path)

    async def read_json(self) -> dict[str, Any]:
        """Read a small JSON object from the body."""
        if self.http.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise InvalidRequest("The content type must be application/json.", status=415)
        pieces: list[bytes] = []
        await self.http.read_body(pieces.append)
        try:
            document = msgspec.json.decode(b"".join(pieces)[:_MAX_BODY])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest("The request body is not valid JSON.") from error
        if not isinstance(document, dict):
            raise InvalidRequest("The request body must be a JSON object.")
        return document


PageEndpoint: TypeAlias = Callable[[PageRequest], Awaitable[HTTPResponse]]
