"""Arguments of an endpoint: the shared service, the HTTP request, and its sender."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from antiphon.config import ServerConfig
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError
from antiphon.pipeline.log import Entry
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.store_check import StoreCheck


@dataclass
class Service:
    """State shared by all endpoints."""

    engine: Engine
    config: ServerConfig
    ready: bool = True
    """Whether new responses are accepted; false while the process shuts down."""

    def __post_init__(self) -> None:
        services = self.engine.services
        self.store_check = StoreCheck(services.store, services.runtime.monotonic, services.emit)

    def report_failure(self, error: Exception, request_id: str) -> None:
        """Log a failure of the gateway itself. Unexpected errors are logged by type alone: their
        messages may hold what a client sent."""
        if isinstance(error, AntiphonError):
            facts = {"request_id": request_id, "code": error.code, "reason": error.message}
            self.engine.services.emit(Entry("request.failed", "error", facts))
        else:
            facts = {"request_id": request_id, "error": type(error).__name__}
            self.engine.services.emit(Entry("request.crashed", "error", facts))


@dataclass(frozen=True, slots=True)
class Context:
    """One authenticated HTTP request on its way to an endpoint."""

    service: Service
    http: HTTPRequest
    caller: Caller


Endpoint: TypeAlias = Callable[[Context], Awaitable[HTTPResponse]]
