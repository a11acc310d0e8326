"""Arguments of an endpoint: the shared service, the HTTP request, and its sender."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from antiphon.config import ServerConfig
from antiphon.core.faults.fault import internal_fault
from antiphon.engine.engine import Engine
from antiphon.engine.fault_report import report_fault
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError
from antiphon.pipeline.log import Entry
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.store_check import StoreCheck
from antiphon.store.quoted_text import read_texts


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

    def report_failure(self, error: Exception, request_id: str, body: bytes = b"") -> None:
        """Log a failure of the gateway itself: a known error with its reason, or a bug without
        what its message quotes of the request (`body`)."""
        services = self.engine.services
        if isinstance(error, AntiphonError):
            facts = {"request_id": request_id, "code": error.code, "reason": error.message}
            services.emit(Entry("request.failed", "error", facts))
        else:
            texts = read_texts(body, names=True)
            report = report_fault(internal_fault(error), services.redactor, texts)
            facts = {"request_id": request_id, **report.facts}
            services.emit(Entry("gateway.bug", "error", facts))


@dataclass(slots=True)
class Received:
    """What is known of a request by the time that it is rejected."""

    client: str = ""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Context:
    """One authenticated HTTP request on its way to an endpoint."""

    service: Service
    http: HTTPRequest
    caller: Caller
    received: Received = field(default_factory=Received)


Endpoint: TypeAlias = Callable[[Context], Awaitable[HTTPResponse]]
