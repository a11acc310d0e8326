"""Streaming body: one reader of a run, which renders its events, with keep-alives in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from antiphon.config import ServerConfig
from antiphon.dialects.client_dialect import EventBatch, Renderer
from antiphon.engine.runtime import InactivityTimer
from antiphon.runs.live_run import EventSource
from antiphon.server.http import Write

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_LONG_BYTES = 64 * 1024


class EventStream:
    """The events of one run as a `StreamingBody`, in the format of its client.

    In silence a keep-alive is written every `keepalive_s`."""

    def __init__(
        self,
        source: EventSource,
        renderer: Renderer,
        config: ServerConfig,
        report: Callable[[Exception], None],
    ) -> None:
        """`report` is called with a failure of the gateway itself after the body has begun."""
        self._source = source
        self._renderer = renderer
        self._config = config
        self._report = report
        self._write: Write = _write_nowhere
        self._now = asyncio.get_running_loop().time
        self._timer: InactivityTimer | None = None
        self._keepalive: asyncio.Task[None] | None = None
        self._has_sent_keepalive = False
        self._writing = False
        self._last_number = source.after
        self._rendered_bytes = 0
        self._ended = False
        self._is_complete = False

    async def write_to(self, write: Write) -> None:
        self._write = write
        self._timer = InactivityTimer(self._config.keepalive_s, self._on_silence, repeat=True)
        try:
            await self._source.follow(self)
            if ending := self._renderer.close():
                await write(ending)
            self._is_complete = True
        except ConnectionError:
            raise  # the client is gone
        except Exception as error:
            self._report(error)
            raise

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        """Render a batch, and write it at once. The events that end a long response repeat its text
        several times: each of them is rendered when the client has taken the one before."""
        assert self._timer is not None
        if is_last:
            self._ended = True  # nothing may follow, however slowly the client reads
            self._timer.cancel()
            if self._rendered_bytes > _LONG_BYTES and len(batch.events) > 1:
                for number, event in enumerate(batch.events, batch.first):
                    await self.send(EventBatch(number, (event,)), is_last)
                return
        self._last_number = batch.first + len(batch.events) - 1
        if data := self._renderer.feed(batch):
            self._rendered_bytes += len(data)
            self._writing = True
            await self._write(data)
            self._writing = False
            self._timer.touched_at = self._now()

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
        if self._timer is not None and not self._ended:
            self._timer.cancel()
        if self._keepalive is not None:
            self._keepalive.cancel()
        if not self._is_complete:
            await self._source.leave()

    def _on_silence(self) -> None:
        if not self._writing and (self._keepalive is None or self._keepalive.done()):
            self._keepalive = asyncio.get_running_loop().create_task(self._write_keepalive())

    async def _write_keepalive(self) -> None:
        if self._ended or self._writing:  # since the timer called
            return
        diagnostic = self._renderer.keepalive_diagnostic
        if diagnostic is not None and not self._has_sent_keepalive:
            self._source.add_diagnostic(diagnostic)
        self._has_sent_keepalive = True
        data = self._renderer.keepalive(self._last_number)
        with suppress(ConnectionError):  # a client that is gone is noticed elsewhere
            await self._write(data)


async def _write_nowhere(data: bytes) -> None:
    raise AssertionError("`write_to` has not been called")


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; its exception, if any, counts as handled."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
