"""Blocking gateway for scripts and notebooks: the asynchronous one, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from antiphon.library.gateway import Gateway, open_gateway
from antiphon.library.response_stream import ResponseStream
from antiphon.library.settings import ConfigLike
from antiphon.stages.stage import StageFactory

_T = TypeVar("_T")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="antiphon-library", daemon=True
        )
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end; an interrupt of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self.call(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def open_blocking(
    config: ConfigLike = None,
    *,
    environment: Mapping[str, str] | None = None,
    stages: Sequence[StageFactory] = (),
) -> Iterator[BlockingGateway]:
    """Open a gateway without asyncio: `with antiphon.open_blocking() as gateway`."""
    thread = LoopThread()
    try:
        opening = open_gateway(config, environment=environment, stages=stages)
        gateway = thread.call(_enter(opening))
        try:
            yield BlockingGateway(gateway, thread)
        finally:
            thread.call(_leave(opening))
    finally:
        thread.close()


async def _enter(context: Any) -> Gateway:
    gateway: Gateway = await context.__aenter__()
    return gateway


async def _leave(context: Any) -> None:
    await context.__aexit__(None, None, None)


class BlockingGateway:
    """A `Gateway` whose methods wait for their results."""

    def __init__(self, gateway: Gateway, thread: LoopThread) -> None:
        self._gateway = gateway
        self._thread = thread

    def create(self, request: Mapping[str, Any] | None = None, /, **fields: Any) -> dict[str, Any]:
        """Create a response and wait for it; the request is a document, keywords, or both."""
        return self._thread.call(self._gateway.create(request, **fields))

    def stream(self, request: Mapping[str, Any] | None = None, /, **fields: Any) -> BlockingStream:
        """Create a response and read its events: `with gateway.stream(…) as stream`."""
        return BlockingStream(self._gateway.stream(request, **fields), self._thread)

    def models(self) -> list[dict[str, Any]]:
        """Return the models that requests can name."""
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

    def __iter__(self) -> Iterator[dict[str, Any]]:
        events = self._stream.__aiter__()
        while (event := self._thread.call(_next_event(events))) is not None:
            yield event

    def response(self) -> dict[str, Any]:
        """Read to the end, whatever was consumed before, and return the finished response."""
        return self._thread.call(self._stream.response())


async def _next_event(events: Any) -> dict[str, Any] | None:
    event: dict[str, Any] | None = await anext(events, None)
    return event


def run(
    request: Mapping[str, Any] | None = None, /, *, config: ConfigLike = None, **fields: Any
) -> dict[str, Any]:
    """Create one response and return it, without asyncio: opens a gateway and closes it again."""
    with open_blocking(config) as gateway:
        return gateway.create(request, **fields)
