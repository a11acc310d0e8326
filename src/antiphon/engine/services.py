"""Services of the engine: the long-lived parts that every run uses, and the prepared request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.config import AttemptConfig, CompatibilityConfig
from antiphon.core.client_profile import OTHER, Profile
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.faults.messages import negotiate_locale
from antiphon.core.history.capsule import Sealer, Unseal
from antiphon.core.mcp.toolset import McpRules
from antiphon.core.mcp.values import McpSessions
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.planner import Planner
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.dialects.client_dialect import ClientDialect
from antiphon.dialects.dialect import Dialect
from antiphon.engine.accounting import Accounting, TraceHeaders
from antiphon.engine.health import HealthRegistry
from antiphon.engine.mcp_calls import ClosingConnections
from antiphon.engine.rejections import RejectedModes, RejectedParameters
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Runtime, WorkerThread
from antiphon.engine.tracing import RunTrace, Tracer
from antiphon.engine.upstream import Upstream
from antiphon.framing.limits import DEFAULT_LIMITS, ResponseLimits
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import StageFactory
from antiphon.stages.trace import ClientFormat
from antiphon.store.redact import Redactor
from antiphon.store.store import Store, Turn
from antiphon.store.turn import encode_response


class McpClient(McpRules, Protocol):
    """The client of MCP servers, as one configuration has it."""

    def open_sessions(self) -> McpSessions:
        """Make the connections of one response; they are opened on first use."""


MakeSearch: TypeAlias = Callable[[SearchCall], Awaitable[SearchOutcome]]
"""Never raises: a search that fails is an outcome, too."""


async def find_nothing(call: SearchCall) -> SearchOutcome:
    """Return no results, for a gateway without a search backend (no search tool is declared)."""
    return SearchOutcome()


class Stoppable(Protocol):
    def stop(self, fault: ProviderFault) -> None: ...


class ActiveRuns:
    """Runs that have been entered and not left."""

    def __init__(self) -> None:
        self._runs: dict[Stoppable, None] = {}  # in the order in which they were entered
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: Stoppable) -> None:
        self._runs[run] = None
        self._idle.clear()

    def discard(self, run: Stoppable) -> None:
        self._runs.pop(run, None)
        if not self._runs:
            self._idle.set()

    def stop(self, fault: ProviderFault) -> None:
        """End every run with a fault, the oldest first."""
        for run in tuple(self._runs):
            run.stop(fault)

    async def wait_idle(self) -> None:
        await self._idle.wait()


@dataclass(frozen=True)
class Services:
    """Parts that every run uses. Another configuration replaces some; the others live as long as
    the process."""

    http: Upstream
    in_process: Upstream
    store: Store
    tracer: Tracer
    emit: Callable[[Entry], None]
    sealer: Sealer
    health: HealthRegistry
    search: MakeSearch = find_nothing
    mcp: McpClient | None = None
    """The client of MCP servers; None: the gateway calls none."""
    closing: ClosingConnections = field(default_factory=ClosingConnections)
    """Connections to MCP servers of responses that have ended."""
    attempts: AttemptConfig = field(default_factory=AttemptConfig)
    compatibility: CompatibilityConfig = field(default_factory=CompatibilityConfig)
    compaction_model: str = ""
    """The model that compacts histories; empty: the model of the request."""
    limits: ResponseLimits = DEFAULT_LIMITS
    rejected: RejectedParameters = field(default_factory=RejectedParameters)
    rejected_modes: RejectedModes = field(default_factory=RejectedModes)
    redactor: Redactor = field(default_factory=Redactor)
    """Takes the configured secrets out of log entries."""
    runtime: Runtime = field(default_factory=Runtime)
    active: ActiveRuns = field(default_factory=ActiveRuns)
    accounting: Accounting = field(default_factory=Accounting)
    """Limits of clients, and what they have used."""
    stages: Sequence[StageFactory] = ()
    """Stages of other packages, made for each response."""
    worker: WorkerThread = field(default_factory=WorkerThread)
    """For what takes long in a large request."""


INTERNAL_CLIENT = "antiphon"
"""The client name of runs that the gateway itself creates, such as descriptions of images."""


class Caller(Struct, frozen=True):
    """Who makes a request: the name of the client's key, and the id of the request."""

    client: str
    request_id: str
    profile: Profile = OTHER
    locale: str = "en"
    """The language of fault descriptions."""
    trace_headers: TraceHeaders = ("", "")
    languages: str = ""
    """The client's Accept-Language header."""
    session: str = ""
    """The session that the client's headers name; empty: none."""
    dialect: ClientDialect | None = None
    """The format of the client; None: Responses, whose events the trace records anyway."""


def choose_locale(caller: Caller, dialect: Dialect) -> str:
    """Choose the language of fault descriptions; a plug-in's dialect may have texts of its own."""
    others: frozenset[str] = getattr(dialect, "locales", frozenset())
    return negotiate_locale(caller.languages, caller.locale, others) if others else caller.locale


def describe_fault(target: Target, caller: Caller, fault: ProviderFault) -> str:
    """Describe a fault of a target's provider in a client's language."""
    provider = target.provider
    locale = choose_locale(caller, provider.dialect)
    return provider.dialect.describe(fault, locale=locale, provider=provider.name)


Compact: TypeAlias = Callable[[], Awaitable[Planner | Diagnostic]]
"""Returns the planner that continues from the compacted context, or why it was not compacted."""


class Prepared(Struct, frozen=True, kw_only=True):
    """An accepted request: its targets in the order of attempts, and their planner. Immutable: what
    changes while the response is generated belongs to the run."""

    request: Request
    caller: Caller
    response: Response
    """The response as it will be created: its id, and what it repeats of the request."""
    targets: tuple[Target, ...]
    planner: Planner
    """Has planned the request for each of the targets."""
    first_plan: Plan
    """The plan for the first target."""
    unseal: Unseal
    """Opens the capsules of the caller."""
    compact: Compact | None = None
    """Compacts the context before the first attempt; None: not needed."""
    skipped: Sequence[tuple[Target, str]] = ()
    """Fallbacks that cannot serve this request, and why."""
    load_ms: float | None = None
    """Time to load the history from the store; None: nothing was loaded."""
    conversation_end: str | None = None
    """The id of the last item in the conversation that the response continues."""
    session: str | None = None
    """The thread that the request belongs to; the trace groups by it. A stored response may be
    continued: it begins a session of its own id if it belongs to no other."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of the first plan."""
        return self.first_plan.diagnostics

    def make_turn(self, response: Response, provider: str) -> Turn:
        """Make the turn to store: this request, and its response as it stands."""
        return Turn(
            id=response.id,
            previous_response_id=self.request.previous_response_id,
            created_at=response.created_at,
            status=response.status,
            model=response.model,
            provider=provider,
            client=self.caller.client,
            conversation_end=self.conversation_end,
            input=self.request.input,
            output=tuple(msgspec.to_builtins(response.output)),
            encoded=encode_response(response),
        )

    def facts(self) -> dict[str, Any]:
        """Return the names and numbers that may be logged; never content."""
        plan = self.first_plan
        dialect = self.caller.dialect
        return {
            "request_id": self.caller.request_id,
            "response_id": self.response.id,
            "client": self.caller.client,
            "format": "responses" if dialect is None else dialect.name,
            "model": self.request.model,
            "provider": plan.provider,
            "provider_model": plan.model,
            "stream": self.request.stream,
            "session": self.session,
        }


def make_trace(services: Services, prepared: Prepared) -> RunTrace:
    """Make the trace of a run."""
    caller = prepared.caller
    client = None
    if caller.dialect is not None:
        client = ClientFormat(caller.dialect, prepared.request, caller.profile)
    return RunTrace(
        services.tracer,
        prepared.facts(),
        services.runtime.monotonic,
        services.accounting,
        caller.trace_headers,
        prepared.load_ms,
        client,
    )
