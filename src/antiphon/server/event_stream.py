"""Streaming body of server-sent events: one response, batch by batch, with keep-alives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, suppress

from antiphon.config import ServerConfig
from antiphon.core.client_profile import Profile, keepalive_as_comment
from antiphon.core.faults.fault import FaultType
from antiphon.engine.run import Run
from antiphon.engine.timer import InactivityTimer
from antiphon.errors import UpstreamError
from antiphon.server.http import Write
from antiphon.wire.events import TERMINAL_EVENTS, Event, Keepalive
from antiphon.wire.sse import DONE, SSEEncoder

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_COMMENT = b": keep-alive\n\n"


class EventStream:
    """The events of one run as a `StreamingBody`, ended by `data: [DONE]`.

    In silence a keep-alive is written every `keepalive_s`: an event, because some clients count
    nothing else as a sign of life, or a comment for clients that reject unknown event types.
    """

    def __init__(
        self,
        run: Run,
        profile: Profile,
        config: ServerConfig,
        report: Callable[[Exception], None],
    ) -> None:
        """`report` is called with a failure of the gateway itself after the body has begun."""
        self._run = run
        self._profile = profile
        self._config = config
        self._report = report
        self._resources = AsyncExitStack()
        self._opening: asyncio.Task[None] | None = None
        self._first: list[Event] = []
        self._batches: AsyncGenerator[list[Event], None] | None = None
        self._encoder = SSEEncoder()
        self._timer: InactivityTimer | None = None
        self._keepalive: asyncio.Task[None] | None = None
        self._comments_noted = False
        self._writing = False
        self._ended = False

    async def open(self) -> None:
        """Wait until the answer may begin: for the first event, or for `commit_after_s`.

        Until then the diagnostics may change, and a fault is raised as `UpstreamError`, so that it
        becomes an HTTP error. Afterwards a fault is a `response.failed` event.
        """
        await self._resources.enter_async_context(self._run)
        opening = self._opening = asyncio.get_running_loop().create_task(self._run.open())
        await asyncio.wait((opening,), timeout=self._config.commit_after_s)
        if not opening.done():  # a slow provider must not leave the client without a byte
            self._first = self._run.start()
            self._batches = self._events_after(opening)
            return
        try:
            opening.result()
        except UpstreamError as error:
            if error.fault.type is not FaultType.context_length:
                raise
            # Clients compact a thread only if they learn of the overflow inside of a stream.
            self._batches = self._events_after(opening)
        else:
            self._batches = self._run.events()
        self._first = await anext(self._batches)

    async def write_to(self, write: Write) -> None:
        try:
            await self._write_events(write)
        except ConnectionError:
            raise  # the client is gone
        except Exception as error:
            self._report(error)
            raise

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        taken = asyncio.Semaphore(0)  # the writer waits until the reader asks for more

        async def write(data: bytes) -> None:
            queue.put_nowait(data)
            await taken.acquire()

        writing = asyncio.ensure_future(self.write_to(write))
        writing.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (data := await queue.get()) is not None:
                yield data
                taken.release()
            await writing
        finally:
            await _cancel(writing)
            await self.close()

    async def close(self) -> None:
        async with self._resources:
            if self._timer is not None:
                self._timer.cancel()
            if self._keepalive is not None:
                self._keepalive.cancel()
            if self._opening is not None:
                await _cancel(self._opening)
            if self._batches is not None:
                await self._batches.aclose()

    async def _events_after(self, opening: asyncio.Task[None]) -> AsyncGenerator[list[Event], None]:
        """Yield the events of a run whose faults cannot be HTTP errors any more."""
        try:
            await opening
        except UpstreamError as error:
            yield await self._run.fail(error.fault)
            return
        async with aclosing(self._run.events()) as batches:
            async for events in batches:
                yield events

    async def _write_events(self, write: Write) -> None:
        assert self._batches is not None
        self._timer = timer = InactivityTimer(
            self._config.keepalive_s, lambda: self._on_silence(write), repeat=True
        )
        await self._write_batch(write, self._first, timer)
        async for events in self._batches:
            await self._write_batch(write, events, timer)
        await write(DONE)

    async def _write_batch(self, write: Write, events: list[Event], timer: InactivityTimer) -> None:
        """Encode a batch and write it at once."""
        if isinstance(events[-1], TERMINAL_EVENTS):
            self._ended = True  # nothing may follow, however slowly the client reads
            timer.cancel()
        self._writing = True
        await write(self._encoder.feed(events))
        self._writing = False
        timer.touch()

    def _on_silence(self, write: Write) -> None:
        if not self._writing and (self._keepalive is None or self._keepalive.done()):
            task = self._write_keepalive(write)
            self._keepalive = asyncio.get_running_loop().create_task(task)

    async def _write_keepalive(self, write: Write) -> None:
        if self._ended:  # since the timer called
            return
        if self._profile.keepalive == "event":
            data = self._encoder.feed([Keepalive()])
        else:
            data = _COMMENT
            if not self._comments_noted:
                self._comments_noted = True
                self._run.add_diagnostic(keepalive_as_comment(self._profile))
        with suppress(ConnectionError):  # a client that is gone is noticed elsewhere
            await write(data)


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; its exception, if any, counts as handled."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
