"""Response stream: the events of one response as an asynchronous iterator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self, cast

import msgspec

from antiphon import types
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Event
from antiphon.dialects.responses.render import event_to_dict
from antiphon.engine.run import Run
from antiphon.library.typed_errors import typed_errors
from antiphon.stages.pipeline import terminal


class ResponseStream:
    """The events of one response, as plain dictionaries like those on the wire.

    Leaving the `async with` block before the end closes the connection to the provider.
    """

    def __init__(
        self,
        prepare: Callable[[], Awaitable[Run]],
        note_diagnostics: Callable[[str, Sequence[Diagnostic]], None],
    ) -> None:
        self._prepare = prepare
        self._note_diagnostics = note_diagnostics
        self._resources = AsyncExitStack()
        self._run: Run | None = None
        self._events: AsyncGenerator[Event, None] | None = None
        self._sequence_number = 0
        self._response: types.Response | None = None

    async def __aenter__(self) -> Self:
        run = await self._prepare()
        async with AsyncExitStack() as resources:
            await resources.enter_async_context(run)
            with typed_errors():
                await run.open()
            self._run = run
            self._events = self._read_events(run)
            resources.push_async_callback(self._events.aclose)
            self._resources = resources.pop_all()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._resources.aclose()

    async def __aiter__(self) -> AsyncIterator[types.Event]:
        async for event in self.typed():
            yield cast("types.Event", event_to_dict(event, self._sequence_number - 1))

    async def typed(self) -> AsyncIterator[Event]:
        """Iterate over the events as structs of `antiphon.core.events` instead of dictionaries."""
        if self._events is None:
            raise RuntimeError(
                "Enter the stream first: `async with gateway.stream(…) as stream`, or `with` of a"
                " BlockingGateway."
            )
        async for event in self._events:
            self._sequence_number += 1
            yield event

    async def response(self) -> types.Response:
        """Read to the end, whatever was consumed before, and return the finished response."""
        async for _ in self.typed():
            pass
        assert self._response is not None
        return self._response

    async def _read_events(self, run: Run) -> AsyncGenerator[Event, None]:
        while batch := await run.next_events():
            ending = terminal(batch)
            if ending is not None:
                self._response = msgspec.to_builtins(ending.response)
                self._note_diagnostics(ending.response.id, run.diagnostics)
            for event in batch:
                yield event
