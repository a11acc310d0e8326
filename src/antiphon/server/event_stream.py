"""A response that streams events: headers when the first is there, keep-alives in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from aiohttp import web

from antiphon.engine.timer import InactivityTimer
from antiphon.pipeline.stage import terminal
from antiphon.wire.events import Event, Keepalive
from antiphon.wire.sse import DONE, SSEEncoder

_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_COMMENT = b": keep-alive\n\n"


class EventStream:
    def __init__(
        self,
        request: web.Request,
        headers: Callable[[], Mapping[str, str]],
        *,
        keepalive_s: float,
        commented: Callable[[], None] | None = None,
    ) -> None:
        """Silence is bridged with events: some clients count nothing else as life. `commented` is
        for clients that cannot bear an event of a type that they do not know: silence is bridged
        with comments then, and it is called before the first."""
        self._request = request
        self._headers = headers
        self._keepalive_s = keepalive_s
        self._comments = commented is not None
        self._commented = commented
        self._encoder = SSEEncoder()
        self._timer: InactivityTimer | None = None
        self._background: asyncio.Task[None] | None = None
        self._writing = False
        self.response = web.StreamResponse(headers=_HEADERS)

    @property
    def begun(self) -> bool:
        return self.response.prepared

    async def send(self, events: list[Event]) -> None:
        """One batch, one write. The first one sends the headers."""
        if self._timer is None:
            self.response.headers.update(self._headers())
            await self.response.prepare(self._request)
            self._timer = InactivityTimer(self._keepalive_s, self._fall_silent, repeat=True)
        if terminal(events) is not None:
            self._timer.cancel()  # nothing may follow, however slowly the client reads
        self._writing = True
        await self.response.write(self._encoder.feed(events))
        self._writing = False
        self._timer.touch()

    async def end(self) -> web.StreamResponse:
        await self.response.write(DONE)
        await self.response.write_eof()
        return self.response

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._background is not None:
            self._background.cancel()

    def _fall_silent(self) -> None:
        if not self._writing and (self._background is None or self._background.done()):
            self._background = asyncio.get_running_loop().create_task(self._keep_alive())

    async def _keep_alive(self) -> None:
        if self._commented is not None:
            self._commented()
            self._commented = None
        with suppress(ConnectionError):  # whoever has gone is noticed elsewhere
            await self.response.write(
                _COMMENT if self._comments else self._encoder.feed([Keepalive()])
            )
