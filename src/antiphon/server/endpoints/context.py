"""Arguments of an endpoint: the shared service, the HTTP request, and its sender."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.config import Config
from antiphon.core.faults.fault import internal_fault
from antiphon.engine.engine import Engine
from antiphon.engine.fault_report import report_fault
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError
from antiphon.pipeline.log import Entry
from antiphon.runs.attach import AttachTable
from antiphon.runs.conversation_locks import ConversationLocks
from antiphon.runs.live_runs import LiveRuns
from antiphon.server.auth import Authenticator
from antiphon.server.clients import make_profile_resolver
from antiphon.server.http import HTTPRequest, HTTPResponse, WebSocketSession
from antiphon.server.store_check import StoreCheck
from antiphon.store.quoted_text import RequestTexts, read_texts
from antiphon.wire.body import BodyLimits
from antiphon.wire.items import Document

_MAX_NAME = 200


class MetricsSource(Protocol):
    """Counts requests, and answers those who collect metrics."""

    engine: Engine
    """Whose state the gauges show."""

    async def scrape(self) -> bytes:
        """Return all series in the text format of Prometheus."""

    def close(self) -> None: ...


class ProcessState:
    """What endpoints share whatever the configuration: live runs, locks, open WebSockets."""

    def __init__(self, engine: Engine, config: Config) -> None:
        services = engine.services
        self.live = LiveRuns(engine, config.background)
        self.attach = AttachTable(config.attach, self.live)
        self.conversation_locks = ConversationLocks(services)
        self.store_check = StoreCheck(services.store, services.runtime.monotonic, services.emit)
        self.sessions: dict[WebSocketSession, None] = {}
        """WebSockets that are open, in the order in which they were opened."""
        self.ready = True
        """Whether new responses are accepted; false while the process shuts down."""
        self.is_retiring = False
        """Whether connections are closed with their next answer."""
        self.metrics: MetricsSource | None = None
        """None: metrics are switched off."""
        self.reload: Reload | None = None
        """Reads the configuration again; None where it cannot change."""
        self.current: Service
        """The service of the configuration in effect, for the next request of a WebSocket."""


class Service:
    """Everything that endpoints use, of one configuration. It does not change: a request uses the
    one that it began with, from its API key to its last event."""

    def __init__(self, engine: Engine, config: Config, state: ProcessState) -> None:
        """Raises `ConfigError` for settings that cannot be used."""
        self.engine = engine
        self.configuration = config
        self.config = config.server
        self.state = state
        self.authenticator = Authenticator(config.server.api_keys)
        self.resolve_profile = make_profile_resolver(config)
        names = BodyLimits.__struct_fields__
        self.body_limits = BodyLimits(**{name: getattr(self.config, name) for name in names})
        self.live, self.attach = state.live, state.attach
        self.attaching = self.attach.profiles
        self.conversation_locks = state.conversation_locks
        self.store_check, self.sessions = state.store_check, state.sessions

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

    @property
    def model(self) -> str:
        """The model that was asked for, as far as the trace keeps its name."""
        name = (self.document or {}).get("model")
        return name[:_MAX_NAME] if isinstance(name, str) else ""

    def texts(self) -> RequestTexts:
        """Return the texts of the request, which messages must not quote. The name of the model is
        none of them: the trace has it."""
        if self.is_large:
            return RequestTexts(too_large=True)
        document = dict(self.document or {})
        if document.get("model") == self.model:
            del document["model"]
        return read_texts(msgspec.json.encode(document), names=True)


class Context(Struct, frozen=True):
    """One authenticated HTTP request on its way to an endpoint."""

    service: Service
    http: HTTPRequest
    caller: Caller
    received: Received = msgspec.field(default_factory=Received)
    ids: Mapping[str, str] = {}
    """Ids in the path, by their names in `server/routes.py`."""


Reload: TypeAlias = Callable[[], Awaitable["Reloaded"]]


class Reloaded(Struct, frozen=True, kw_only=True):
    """A configuration that has taken effect."""

    file: str | None
    """The name of the file; None: the gateway runs without one."""
    needs_restart: Sequence[str] = ()
    """Settings that have changed and take effect with the next start."""
    replaces_workers: bool = False
    """Whether the file takes effect as the workers are replaced, one after the other."""


Endpoint: TypeAlias = Callable[[Context], Awaitable[HTTPResponse]]
