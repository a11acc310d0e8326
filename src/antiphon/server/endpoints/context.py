"""Arguments of an endpoint: the shared service, the HTTP request, and its sender."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from antiphon.config import ServerConfig
from antiphon.core.faults.fault import internal_fault
from antiphon.engine.engine import Engine
from antiphon.engine.fault_report import report_fault
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError
from antiphon.pipeline.log import Entry
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.store_check import StoreCheck
from antiphon.store.quoted_text import RequestTexts, read_texts
from antiphon.wire.body import BodyLimits
from antiphon.wire.items import Document


@dataclass
class Service:
    """State shared by all endpoints."""

    engine: Engine
    config: ServerConfig
    ready: bool = True
    """Whether new responses are accepted; false while the process shuts down."""
    body_limits: BodyLimits = field(init=False)

    def __post_init__(self) -> None:
        names = BodyLimits.__struct_fields__
        self.body_limits = BodyLimits(**{name: getattr(self.config, name) for name in names})
        services = self.engine.services
        self.store_check = StoreCheck(services.store, services.runtime.monotonic, services.emit)

    def report_failure(
        self, error: Exception, request_id: str, received: Received | None = None
    ) -> None:
        """Log a failure of the gateway itself: a known error with its reason, or a bug without
        what its message quotes of the request."""
        services = self.engine.services
        if isinstance(error, AntiphonError):
            facts = {"request_id": request_id, "code": error.code, "reason": error.message}
            services.emit(Entry("request.failed", "error", facts))
        else:
            texts = (received or Received()).texts()
            report = report_fault(internal_fault(error), services.redactor, texts)
            facts = {"request_id": request_id, **report.facts}
            services.emit(Entry("gateway.bug", "error", facts))


@dataclass(slots=True)
class Received:
    """What is known of a request by the time that it is rejected."""

    client: str = ""
    document: Document | None = None
    """The decoded body; None if it could not be decoded."""
    is_large: bool = False

    def texts(self) -> RequestTexts:
        """Return the texts of the request, which messages must not quote."""
        if self.is_large:
            return RequestTexts(too_large=True)
        body = b"" if self.document is None else msgspec.json.encode(self.document)
        return read_texts(body, names=True)


@dataclass(frozen=True, slots=True)
class Context:
    """One authenticated HTTP request on its way to an endpoint."""

    service: Service
    http: HTTPRequest
    caller: Caller
    received: Received = field(default_factory=Received)


Endpoint: TypeAlias = Callable[[Context], Awaitable[HTTPResponse]]
