"""Blocking gateway for scripts and notebooks: the asynchronous one, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Self, TypeVar, Unpack
from weakref import WeakSet

from antiphon import types
from antiphon.library.gateway import Gateway
from antiphon.library.response_stream import ResponseStream
from antiphon.library.settings import ConfigLike
from antiphon.stages.pipeline import StageFactory
from antiphon.types import CreateRequest

_T = TypeVar("_T")
_CLOSED = "The gateway was closed, and its responses have ended. Open another one."


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._calling = threading.Lock()
        self._calls: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="antiphon-library", daemon=True
        )
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end; an interrupt of the caller cancels it. Raises `RuntimeError`
        if the thread was closed, or is closed before the end."""
        with self._calling:
            if self._is_closed:
                coroutine.close()
                raise RuntimeError(_CLOSED)
            self._calls.add(coroutine)
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            if self._is_closed:
                raise RuntimeError(_CLOSED) from None
            raise
        except BaseException:
            future.cancel()
            raise

    def close(self, closing: Coroutine[Any, Any, None]) -> None:
        """End the calls of other threads, which would wait for ever; run a last coroutine, and end
        the thread."""
        with self._calling:
            self._is_closed = True
            ended = asyncio.run_coroutine_threadsafe(self._end(closing), self._loop)
        try:
            ended.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self, closing: Coroutine[Any, Any, None]) -> None:
        calls = [task for task in asyncio.all_tasks() if task.get_coro() in self._calls]
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        try:
            await closing
        finally:
            await self._loop.shutdown_asyncgens()


class BlockingGateway:
    """A `Gateway` whose methods wait for their results.

    Use it as `with antiphon.BlockingGateway() as gateway`. Without `with`, the first request opens
    it, and `close` closes it.
    """

    def __init__(
        self,
        config: ConfigLike = None,
        *,
        environment: Mapping[str, str] | None = None,
        stages: Sequence[StageFactory] = (),
    ) -> None:
        """The arguments are those of `antiphon.Gateway`."""
        self._gateway = Gateway(config, environment=environment, stages=stages)
        self._starting = threading.Lock()
        self._started: LoopThread | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        self._thread().call(self._gateway.__aenter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and file, and end the thread."""
        with self._starting:
            self._is_closed = True
            thread, self._started = self._started, None
        if thread is not None:
            thread.close(self._gateway.close())

    def _thread(self) -> LoopThread:
        with self._starting:
            if self._is_closed:
                raise RuntimeError(
                    "This gateway is closed. Open another one: antiphon.BlockingGateway(…)."
                )
            if self._started is None:
                self._started = LoopThread()
            return self._started

    def create(
        self, request: Mapping[str, Any] | None = None, /, **fields: Unpack[CreateRequest]
    ) -> types.Response:
        """Create a response and wait for it; the request is a document, keywords, or both."""
        return self._thread().call(self._gateway.create(request, **fields))

    def stream(
        self, request: Mapping[str, Any] | None = None, /, **fields: Unpack[CreateRequest]
    ) -> BlockingStream:
        """Create a response and read its events: `with gateway.stream(…) as stream`."""
        return BlockingStream(self._gateway.stream(request, **fields), self._thread())

    def models(self) -> list[dict[str, Any]]:
        """Return the models that requests can name."""
        self._thread().call(self._gateway.__aenter__())
        return self._gateway.models()

    def diagnostics(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what was degraded or dropped for a response of this gateway."""
        return self._gateway.diagnostics(response)


class BlockingStream:
    """A `ResponseStream` as an ordinary iterator."""

    def __init__(self, stream: ResponseStream, thread: LoopThread) -> None:
        self._stream = stream
        self._thread = thread

    def __enter__(self) -> Self:
        self._thread.call(self._stream.__aenter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.call(self._stream.__aexit__())

    def __iter__(self) -> Iterator[types.Event]:
        events = self._stream.__aiter__()
        while (event := self._thread.call(_next_event(events))) is not None:
            yield event

    def response(self) -> types.Response:
        """Read to the end, whatever was consumed before, and return the finished response."""
        return self._thread.call(self._stream.response())


async def _next_event(events: AsyncIterator[types.Event]) -> types.Event | None:
    return await anext(events, None)


def run(
    request: Mapping[str, Any] | None = None,
    /,
    *,
    config: ConfigLike = None,
    **fields: Unpack[CreateRequest],
) -> types.Response:
    """Create one response and return it, without asyncio: opens a gateway and closes it again."""
    with BlockingGateway(config) as gateway:
        return gateway.create(request, **fields)
