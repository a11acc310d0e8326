"""One request and its answer: from an open upstream to a saved turn.

1. Until the first meaningful event nothing has been told to the client, so a fault is an
   `UpstreamError` and may become an HTTP error. After it, a fault is a `response.failed`.
2. One read of the network, one feed, one batch of events: nothing is awaited per token.
3. The turn is saved before its terminal event leaves.
4. However it ends, the upstream is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import msgspec

from antiphon.core.faults import ProviderFault, timeout_fault
from antiphon.core.plan import Plan
from antiphon.engine.journey import Journey
from antiphon.engine.timer import SilenceTimer
from antiphon.engine.upstream import Upstream, UpstreamAnswer, UpstreamError
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.stage import terminal
from antiphon.providers.registry import Provider
from antiphon.wire.events import Completed, Created, Event, Failed, Incomplete, InProgress
from antiphon.wire.response import Response

_GRACE_S = 2.0  # how long usage may lag behind a finish reason
_ERROR_BODY_LIMIT = 1024 * 1024


@dataclass(frozen=True)
class Parts:
    """What an exchange is made of."""

    provider: Provider
    upstream: Upstream
    plan: Plan
    bridge: Bridge
    journey: Journey
    save: Callable[[Response], Awaitable[bool]]
    finished: Callable[[Exchange], None]
    clock: Callable[[], float]


class Exchange:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._bridge = parts.bridge
        self._answer: UpstreamAnswer | None = None
        self._early: list[Event] = []
        self._stopped: ProviderFault | None = None
        self._silence: SilenceTimer | None = None
        self._deadline: SilenceTimer | None = None
        self._closed = False
        self._journey = parts.journey

    @property
    def plan(self) -> Plan:
        return self._parts.plan

    # Streamed

    async def open(self) -> None:
        """Ask the provider, and wait until it has said something; raises `UpstreamError`."""
        timeouts = self._parts.provider.timeouts
        try:
            async with asyncio.timeout(timeouts.first_token_s):
                await self._ask(stream=True)
                while not self._is_meaningful():
                    events = await self._pump()  # meanwhile `start` may have taken the early ones
                    self._early += events
        except TimeoutError as error:
            raise self._unopened(timeout_fault("first_token")) from error
        if self._bridge.fault is not None and not _has_output(self._early):
            raise self._unopened(self._bridge.fault)
        self._silence = SilenceTimer(timeouts.idle_s, lambda: self._time_out("idle"))
        self._deadline = SilenceTimer(timeouts.total_s, lambda: self._time_out("total"))

    def start(self) -> list[Event]:
        """Begin the answer before the provider has: it is slow, and the client should know."""
        self._early += self._bridge.start()
        early, self._early = self._early, []
        return self._journey.stages.feed(early)

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events, as they come, to the terminal one. Closes the exchange when left."""
        try:
            early, self._early = self._early, []
            if early:
                yield await self._released(early)
            while not self._bridge.ended:
                events = await self._pump()
                if events:
                    yield await self._released(events)
        finally:
            self.close()

    async def fail(self, fault: ProviderFault) -> list[Event]:
        """Tell a fault of the opening inside of a stream: whatever is still untold, and the end."""
        early, self._early = self._early, []
        return await self._released(early + self._bridge.fail(fault))

    # Whole

    async def whole(self) -> Response:
        """The finished response; raises `UpstreamError`."""
        try:
            async with asyncio.timeout(self._parts.provider.timeouts.total_s):
                await self._ask(stream=False)
                assert self._answer is not None
                events = await self._read_whole(self._answer)
        except TimeoutError as error:
            raise self._unopened(timeout_fault("total")) from error
        except UpstreamError as error:
            raise self._unopened(self._stopped or error.fault) from error
        if self._bridge.fault is not None:
            raise self._unopened(self._bridge.fault)
        ending = terminal(await self._released(events))
        assert ending is not None
        return ending.response

    async def _read_whole(self, answer: UpstreamAnswer) -> list[Event]:
        body = self._journey.raw.feed(await answer.read())
        if "event-stream" in answer.headers.get("content-type", ""):
            return self._bridge.feed(body) + self._bridge.close()
        return self._bridge.answer(body)

    # Ending

    def stop(self, fault: ProviderFault) -> None:
        """End the answer from outside: hang up, and let whoever reads find out why."""
        self._stopped = self._stopped or fault
        if self._answer is not None:
            self._answer.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for timer in (self._silence, self._deadline):
            if timer is not None:
                timer.cancel()
        if self._answer is not None:
            self._answer.close()
        self._parts.finished(self)

    # Inside

    async def _ask(self, *, stream: bool) -> None:
        parts = self._parts
        outbound = parts.provider.dialect.encode(parts.plan, stream=stream)
        key = parts.provider.api_keys[0] if parts.provider.api_keys else ""
        began = parts.clock()
        try:
            self._answer = await parts.upstream.open(parts.provider, outbound, key)
            self._journey.upstream_latency_ms = round((parts.clock() - began) * 1000, 1)
            self._journey.upstream_status = self._answer.status
            if self._answer.status >= 300:
                body = (await self._answer.read())[:_ERROR_BODY_LIMIT]
                status, headers = self._answer.status, self._answer.headers
                raise UpstreamError(parts.provider.dialect.classify(status, headers, body))
        except UpstreamError as error:
            raise self._unopened(error.fault) from error

    def _unopened(self, fault: ProviderFault) -> UpstreamError:
        """What to raise while a fault can still be an HTTP error; whoever asked then closes us."""
        self._journey.fault = fault
        if self._answer is not None:
            self._answer.close()
        return UpstreamError(fault)

    def _is_meaningful(self) -> bool:
        return self._bridge.ended or _has_output(self._early) or self._bridge.finishing

    async def _pump(self) -> list[Event]:
        """One read of the network, and what it makes the client see."""
        assert self._answer is not None
        try:
            chunk = await self._answer.next()
        except UpstreamError as error:
            return self._broken(self._stopped or error.fault)
        if self._stopped is not None:
            return self._broken(self._stopped)
        if not chunk:
            return self._bridge.close()
        events = self._bridge.feed(self._journey.raw.feed(chunk))
        if self._silence is not None:
            self._silence.touch()
            if self._bridge.finishing:
                self._silence.reset(_GRACE_S)
        return events

    def _broken(self, fault: ProviderFault) -> list[Event]:
        """The upstream broke off. If it had said why it stopped, the answer is whole."""
        if self._bridge.finishing and not self._bridge.ended:
            return self._bridge.close()
        return self._bridge.fail(fault)

    def _time_out(self, kind: str) -> None:
        self.stop(timeout_fault("total" if kind == "total" else "idle"))

    async def _released(self, events: list[Event]) -> list[Event]:
        """Through the stages; what must be saved is saved before it leaves."""
        stages = self._journey.stages
        events = stages.feed(events)
        if stages.fault is not None and not self._bridge.ended:
            events = events + stages.feed(self._bridge.fail(stages.fault))
        self._journey.fault = self._bridge.fault or stages.fault
        finished = self._journey.persist.take()
        if finished is not None and not await self._parts.save(finished):
            events = [*events[:-1], _forgotten(events[-1])]
        return events


def _forgotten(ending: Event) -> Event:
    """The same end, but it says that nobody can continue from it."""
    assert isinstance(ending, Completed | Incomplete | Failed)
    response = msgspec.structs.replace(ending.response, store=False)
    return msgspec.structs.replace(ending, response=response)


def _has_output(events: list[Event]) -> bool:
    return any(not isinstance(event, Created | InProgress | Failed) for event in events)
