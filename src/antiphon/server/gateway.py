"""The gateway as a process: what it keeps, whatever its configuration, and the setup in effect."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.errors import StoreError
from antiphon.runs.attach import AttachTable
from antiphon.runs.conversation_locks import ConversationLocks
from antiphon.runs.live_runs import LiveRuns
from antiphon.server.auth import keeps_client
from antiphon.server.http import WebSocketSession
from antiphon.server.setup import Setup
from antiphon.server.ui.page_state import PageState
from antiphon.server.websocket.lanes import WaitingRequests
from antiphon.server.websocket.recent_turns import RememberedBytes
from antiphon.stages.log import Entry
from antiphon.store.store import Store

CHECK_EVERY_S = 1.0
TIMEOUT_S = 3.0
_QUIET_S = 60.0
_MAX_REJECTIONS = 256
_MAX_RECORDED = 600  # rejections of one client in a minute


class StoreCheck:
    """Knows whether the store could be written when it was last checked, and logs each change."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        emit: Callable[[Entry], None],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.store = store
        self._clock = clock
        self._emit = emit
        self._timeout_s = timeout_s
        self._checked_at: float | None = None
        self._available = True

    async def is_available(self) -> bool:
        """Whether turns can be saved. Probes between two checks get the result of the first."""
        now = self._clock()
        if self._checked_at is None or now - self._checked_at >= CHECK_EVERY_S:
            self._checked_at = now
            self._report(await self._find_problem())
        return self._available

    async def _find_problem(self) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.store.check()
        except TimeoutError:
            return f"{self.store.name}: no response within {self._timeout_s:g} s."
        except StoreError as error:
            return error.message
        return ""

    def _report(self, problem: str) -> None:
        if self._available == (not problem):
            return
        self._available = not problem
        if problem:
            self._emit(Entry("store.unavailable", "error", {"reason": problem}))
        else:
            self._emit(Entry("store.available", "info", {"store": self.store.name}))


class RejectionLog:
    """Logs rejected requests; of equal ones, one in a minute and how many there were before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._minute = 0
        self._recorded: Counter[str] = Counter()
        self._quiet: dict[tuple[str, ...], tuple[float, int]] = {}
        """By what equal requests share: until when they are only counted, and how many were."""

    def admits(self, client: str) -> bool:
        """Whether a rejection is recorded in log and trace. No limit of a client counts rejections,
        and those without a key have no name: their rows would take the place of all others."""
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute = minute
            self._recorded.clear()
        self._recorded[client] += 1
        return self._recorded[client] <= _MAX_RECORDED

    def log(self, emit: Callable[[Entry], None], facts: Mapping[str, Any]) -> None:
        key = tuple(str(facts[name]) for name in ("client", "code", "reason"))
        now = self._clock()
        until, count = self._quiet.get(key, (0.0, 0))
        if now < until:
            self._quiet[key] = (until, count + 1)
            return
        if len(self._quiet) >= _MAX_REJECTIONS:
            self._quiet.clear()  # the reasons name what clients have sent: bounded
        self._quiet[key] = (now + _QUIET_S, 0)
        repeated = {"repeated": count} if count else {}
        emit(Entry("request.rejected", "info", {**facts, **repeated}))


class MetricsSource(Protocol):
    """Counts requests, and shows the figures."""

    async def scrape(self) -> bytes:
        """Return all series in the text format of Prometheus."""

    def close(self) -> None: ...


class OpenWebSockets:
    """The WebSockets that are open, in the order in which they were opened."""

    def __init__(self) -> None:
        self.sessions: dict[WebSocketSession, None] = {}
        self.waiting = WaitingRequests()
        """Requests on them that wait for others."""
        self.remembered = RememberedBytes()
        """Responses on them that can be continued."""

    def stop(self) -> None:
        """Close each as soon as its responses have ended."""
        for session in self.sessions:
            session.stop()

    def revoke(self, is_revoked: Callable[[str], bool]) -> None:
        """Close those of clients whose keys were removed."""
        for session in self.sessions:
            if is_revoked(session.client):
                session.revoke()


class Reloaded(Struct, frozen=True, kw_only=True):
    """A configuration that has taken effect."""

    file: str | None
    """The name of the file; None: the gateway runs without one."""
    needs_restart: Sequence[str] = ()
    """Settings that have changed and take effect with the next start."""
    replaces_workers: bool = False
    """Whether the file takes effect as the workers are replaced, one after the other."""


class Reloading(Protocol):
    """How a process reads its configuration again."""

    async def reload(self, process: GatewayProcess) -> Reloaded:
        """Use the file for new requests; raises `ConfigError` for a file that cannot be used, and
        then nothing has changed."""


class GatewayProcess:
    """A running gateway: live runs, locks, open WebSockets, and the setup in effect."""

    def __init__(
        self,
        setup: Setup,
        *,
        environment: Mapping[str, str] | None = None,
        reloading: Reloading | None = None,
    ) -> None:
        """`environment` is that of the process; None: it writes no files of its own. `reloading`:
        None where the configuration cannot change."""
        config = setup.config
        services = setup.engine.services
        self.setup = setup
        self.live = LiveRuns(setup.engine, config.background)
        self.attach = AttachTable(config.attach, self.live)
        self.conversation_locks = ConversationLocks(services)
        self.store_check = StoreCheck(services.store, services.runtime.monotonic, services.emit)
        self.rejections = RejectionLog(services.runtime.monotonic)
        self.websockets = OpenWebSockets()
        self.page = PageState(environment, services.runtime)
        self.metrics: MetricsSource | None = None
        """None: metrics are switched off, or the process has not started."""
        self.is_ready = True
        """Whether new responses are accepted; false while the process shuts down."""
        self.is_retiring = False
        """Whether each connection is closed with its next response."""
        self._reloading = reloading

    @property
    def file_to_reload(self) -> str | None:
        """The name of the configuration file; None where there is nothing to reload."""
        source = self.setup.config.source
        return None if self._reloading is None or source is None else source.name or None

    def new_request_id(self) -> str:
        return self.setup.engine.services.runtime.new_id("req")

    async def reload(self) -> Reloaded:
        """Read the configuration again; raises `ConfigError`, and then nothing has changed."""
        assert self._reloading is not None
        return await self._reloading.reload(self)

    async def reconfigure(self, config: Config) -> None:
        """Serve new requests by another configuration; those that have begun keep theirs.

        Raises `ConfigError`, and then nothing has changed."""
        before = self.setup
        self.setup = await before.follow(config)
        self.live.background.use_engine(self.setup.engine)
        if before.server.admin_key != config.server.admin_key:
            self.page.revoke()
        self.websockets.revoke(
            lambda client: not keeps_client(before.server, config.server, client)
        )

    async def start(self) -> None:
        """Count requests; take over what earlier processes have left in the store."""
        if self.setup.config.metrics.enabled:
            self.metrics = _start_metrics(lambda: self.setup.engine)
        await self.live.start()

    async def close(self) -> None:
        """Stop the tasks behind the endpoints, before the engine is closed."""
        await self.live.close()
        self.conversation_locks.close()
        if self.metrics is not None:
            self.metrics.close()

    def retire(self) -> None:
        """Have every connection closed with its next response, so that clients open new ones."""
        self.is_retiring = True

    def stop_accepting(self) -> None:
        """Reject new responses from now on; those that have begun go on."""
        self.is_ready = False
        self.websockets.stop()
        self.page.stop()


def _start_metrics(find_engine: Callable[[], Engine]) -> MetricsSource:
    # Imported late: the library of metrics takes a tenth of a second to load.
    from antiphon.observe.metrics import EngineMetrics

    metrics = EngineMetrics(find_engine)
    metrics.start()
    return metrics
