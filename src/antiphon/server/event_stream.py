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


class _EventWriter(InactivityTimer):
    """Renders the events of one stream, and writes them; in silence a keep-alive every `limit_s`.
    There is none while events are being written, or after the last of them."""

    __slots__ = (
        "_has_ended",
        "_has_sent",
        "_is_writing",
        "_last_number",
        "_rendered_bytes",
        "_renderer",
        "_sending",
        "_source",
        "_write",
    )

    def __init__(
        self, source: EventSource, renderer: Renderer, write: Write, limit_s: float
    ) -> None:
        super().__init__(limit_s, self._on_silence, repeat=True)
        self._source = source
        self._renderer = renderer
        self._write = write
        self._last_number = source.after
        self._rendered_bytes = 0
        self._is_writing = False
        self._has_ended = False
        self._has_sent = False
        self._sending: asyncio.Task[None] | None = None

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        """Render a batch, and write it at once. The events that end a long response repeat its text
        several times: each of them is rendered when the client has taken the one before.

        Nothing may come between or after the last events, however slowly the client reads."""
        if is_last:
            self._has_ended = True
            self.cancel()
            if self._rendered_bytes > _LONG_BYTES and len(batch.events) > 1:
                for number, event in enumerate(batch.events, batch.first):
                    await self.send(EventBatch(number, (event,)), is_last)
                return
        if data := self._renderer.feed(batch):
            self._rendered_bytes += len(data)
            self._last_number = batch.first + len(batch.events) - 1
            self._is_writing = True
            await self._write(data)
            self._is_writing = False
            self.touched_at = self._loop.time()

    def close(self) -> None:
        if not self._has_ended:
            self.cancel()
        if self._sending is not None:
            self._sending.cancel()

    def _on_silence(self) -> None:
        if not self._is_writing and (self._sending is None or self._sending.done()):
            self._sending = self._loop.create_task(self._send_keepalive())

    async def _send_keepalive(self) -> None:
        if self._has_ended or self._is_writing:  # since the timer called
            return
        diagnostic = self._renderer.keepalive_diagnostic
        if diagnostic is not None and not self._has_sent:
            self._source.add_diagnostic(diagnostic)
        self._has_sent = True
        data = self._renderer.keepalive(self._last_number)
        with suppress(ConnectionError):  # a client that is gone is noticed elsewhere
            await self._write(data)


class EventStream:
    """The events of one run as a `StreamingBody`, in the format of its client."""

    __slots__ = ("_config", "_is_complete", "_renderer", "_report", "_source", "_writer")

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
        self._writer: _EventWriter | None = None
        self._is_complete = False

    async def write_to(self, write: Write) -> None:
        keepalive_s = self._config.keepalive_s
        self._writer = _EventWriter(self._source, self._renderer, write, keepalive_s)
        try:
            await self._source.follow(self._writer)
            if ending := self._renderer.close():
                await write(ending)
            self._is_complete = True
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
            try:
                await _cancel(writing)
            finally:  # a reader may be cancelled once more: anyio does it at every await
                await self.close()

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if not self._is_complete:
            await self._source.leave()


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; its exception, if any, counts as handled."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
