"""One request of the protocol: the time it may take, what HTTP did for it, and nothing in the log.

The `Exchange` of a request is in a context variable: the client package runs each request in the
context of its sender. By the same variable, log records of the client package and its HTTP client
are dropped: they contain messages, arguments, session ids and URLs. Records of other users of the
same packages in this process are not touched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from types import TracebackType

from antiphon.core.mcp.values import McpProblem


class Exchange:
    """What HTTP did for one request of the protocol."""

    def __init__(self, on_failure: Callable[[], None] | None = None) -> None:
        self.status: int | None = None
        self.problem: McpProblem | None = None
        self.is_sent = False
        """Whether anything may have reached the server."""
        self.is_session_lost = False
        self._on_failure = on_failure

    def begin(self) -> None:
        self.is_sent = True

    def note(
        self, status: int, problem: McpProblem | None, *, is_session_lost: bool = False
    ) -> None:
        self.status = status
        self.problem = problem
        self.is_session_lost = is_session_lost
        if problem is not None and self._on_failure is not None:
            self._on_failure()


current_exchange: ContextVar[Exchange | None] = ContextVar("current_exchange", default=None)


class Deadline:
    """Cancels the block that it surrounds; raises `TimeoutError` then."""

    def __init__(self, idle_s: float, total_s: float) -> None:
        now = asyncio.get_running_loop().time()
        self._idle_s = idle_s
        self._end = now + total_s
        self._timer = asyncio.timeout_at(min(now + idle_s, self._end))
        self._is_open = False

    async def __aenter__(self) -> None:
        await self._timer.__aenter__()
        self._is_open = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        await self._timer.__aexit__(kind, error, trace)

    async def extend(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Take a report of progress, in the form of the client package."""
        self._move(asyncio.get_running_loop().time() + self._idle_s)

    def expire(self) -> None:
        """End the block now: what it waits for cannot come."""
        self._move(asyncio.get_running_loop().time())

    def _move(self, when: float) -> None:
        if self._is_open and not self._timer.expired():
            self._timer.reschedule(min(when, self._end))


_PACKAGES = ("client", "httpcore2", "httpx2", "mcp")


@cache
def silence_sessions() -> None:
    """Filter the loggers of the packages, which exist as soon as these are imported."""
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in _PACKAGES:
            logging.getLogger(name).addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return current_exchange.get() is None
