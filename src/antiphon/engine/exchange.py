"""One request and its answer: from an open upstream to a saved turn.

1. Until the first meaningful event nothing has been told to the client, so a fault is an
   `UpstreamError` and may become an HTTP error. After it, a fault is a `response.failed`.
2. One read of the network, one feed, one batch of events: nothing is awaited per token.
3. The turn is saved before its terminal event leaves.
4. However it ends, the upstream is closed.
5. An answer may take several rounds: searches are made and the provider is asked again until it is
   whole. In each round, nothing is told before the provider has said something.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import (
    FaultType,
    ProviderFault,
    internal_fault,
    protocol_fault,
    timeout_fault,
)
from antiphon.core.plan.follow_up import FollowUp
from antiphon.engine.attempts import Attempts
from antiphon.engine.journey import Journey
from antiphon.engine.runtime import Runtime
from antiphon.engine.searches import Search, Searches
from antiphon.engine.timer import InactivityTimer
from antiphon.engine.tracing import Attempted
from antiphon.engine.upstream import UpstreamAnswer, UpstreamError, error_body
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.stage import terminal
from antiphon.wire.events import Completed, Created, Event, Failed, Incomplete, InProgress
from antiphon.wire.items import Item, Message, OutputText
from antiphon.wire.response import Response

_GRACE_S = 2.0  # how long usage may lag behind a finish reason
_T = TypeVar("_T")


@dataclass(frozen=True)
class Parts:
    """What an exchange is made of."""

    attempts: Attempts
    journey: Journey
    save: Callable[[Response], Awaitable[bool]]
    finished: Callable[[Exchange], None]
    rim: Runtime
    search: Search


class Exchange:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._gear = parts.attempts.first()
        self._answer: UpstreamAnswer | None = None
        self._early: list[Event] = []
        self._stopped: ProviderFault | None = None
        self._fell_silent: ProviderFault | None = None
        self._opening: asyncio.Timeout | None = None
        self._searches = Searches(parts.search)
        self._silence: InactivityTimer | None = None
        self._deadline: InactivityTimer | None = None
        self._reading = False
        self._heard = False
        self._begun = False
        self._settled = False
        self._closed = False
        self._journey = parts.journey
        self.note = parts.journey.note
        self._journey.adopt(self._gear.plan)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is to be told so far."""
        return self._journey.diagnostics

    @property
    def _bridge(self) -> Bridge:
        return self._gear.bridge

    # Streamed

    async def open(self) -> None:
        """Ask the provider, and wait until it has said something; raises `UpstreamError`."""
        self._set_deadline()
        await self._open_round()

    def _set_deadline(self) -> None:
        total_s = self._gear.provider.timeouts.total_s
        self._deadline = InactivityTimer(total_s, lambda: self.stop(timeout_fault("total")))

    async def _open_round(self) -> None:
        await self._attempted("first_token", self._first_words)
        timeouts = self._gear.provider.timeouts
        limit_s = _GRACE_S if self._bridge.finishing else timeouts.idle_s
        self._silence = InactivityTimer(limit_s, self._fall_silent, repeat=True)

    async def _first_words(self) -> None:
        answer = await self._ask()
        while not self._is_meaningful():
            is_whole = answer.headers.get("content-type", "").startswith("application/json")
            events = await (self._read_whole(answer) if is_whole else self._pump())
            self._early += events  # in a step of its own: `start` may have taken the others
        bridge = self._bridge  # what earlier rounds brought is not thrown away
        fault = bridge.round_fault if bridge.rounds else self._wordless(self._early)
        if fault is not None:
            raise UpstreamError(fault)

    def start(self) -> list[Event]:
        """Begin the answer before the provider has: it is slow, and the client should know."""
        self._begun = True
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
                events = await (self._errand(self._open_round) or self._pump())
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
        events = await self._attempted("total", self._all_words)
        if self._bridge.awaits_next_round:  # for all that follows: the first round had its own
            self._set_deadline()
        while (errand := self._errand(self._ask_whole)) is not None:
            events += await errand
        ending = terminal(await self._released(events))
        assert ending is not None
        return ending.response

    async def _ask_whole(self) -> None:
        self._early += await self._attempted("total", self._all_words)

    async def _all_words(self) -> list[Event]:
        events = await self._read_whole(await self._ask())
        bridge = self._bridge
        fault = bridge.round_fault if bridge.rounds else bridge.fault or self._wordless(events)
        if fault is None:
            return events
        if fault.type is FaultType.unknown:  # a 200 that says nothing we know cannot be read
            fault = protocol_fault(fault.message)
        raise UpstreamError(fault)

    async def _read_whole(self, answer: UpstreamAnswer) -> list[Event]:
        """The body shows what it is, if not what was asked for: some servers only stream."""
        body = self._journey.raw.feed(await answer.read())
        if body.lstrip().startswith(b"{"):
            return self._bridge.feed_whole(body)
        return self._bridge.feed(body) + self._bridge.close()

    # Rounds

    def _errand(self, ask: Callable[[], Awaitable[None]]) -> Awaitable[list[Event]] | None:
        """What has to be done before the answer can go on, if anything."""
        return self._run(ask) if self._bridge.awaits_next_round else None

    async def _run(self, ask: Callable[[], Awaitable[None]]) -> list[Event]:
        try:
            asked = self._bridge.follow_up
            return await (self._search() if asked is None else self._next_round(asked, ask))
        except Exception as error:  # a bug of ours is no reason to leave a client hanging
            return self._bridge.fail(internal_fault(error))

    async def _search(self) -> list[Event]:
        if self._stopped is None:
            found = await self._searches.outcome(self._bridge.pending_searches)
        if self._stopped is not None:
            return self._bridge.fail(self._stopped)
        return self._bridge.settle_search(found)

    async def _next_round(self, asked: FollowUp, ask: Callable[[], Awaitable[None]]) -> list[Event]:
        """Ask the provider again; a fault that no attempt could mend ends the answer."""
        if self._silence is not None:
            self._silence.cancel()
        if self._answer is not None:
            self._answer.close()
        self._silence = self._answer = self._fell_silent = None
        self._heard = self._settled = False
        self._gear = self._parts.attempts.again(asked)
        self._journey.next_round(self._gear.plan)
        try:
            await ask()
        except UpstreamError as error:
            return self._bridge.give_up_round(error.fault)
        early, self._early = self._early, []
        return early

    # Ending

    def stop(self, fault: ProviderFault) -> None:
        """End the answer from outside: hang up, and let whoever reads find out why."""
        self._stopped = self._stopped or fault
        if self._opening is not None and not self._opening.expired():
            self._opening.reschedule(0)
        if self._answer is not None:
            self._answer.close()
        self._searches.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for timer in (self._silence, self._deadline):
            if timer is not None:
                timer.cancel()
        if self._answer is not None:
            self._answer.close()
        self._searches.close()
        if not self._settled:
            self._parts.attempts.abandoned()
        self._parts.finished(self)

    # Inside

    async def _attempted(
        self, kind: Literal["first_token", "total"], step: Callable[[], Awaitable[_T]]
    ) -> _T:
        """Try until something was said, or nothing is left to try."""
        if self._stopped is not None:
            raise self._unopened(self._stopped)
        while True:
            began = self._parts.rim.monotonic()
            timeouts = self._gear.provider.timeouts  # each provider has its own
            limit_s = timeouts.total_s if kind == "total" else timeouts.first_token_s
            try:
                result = await self._within(limit_s, kind, step())
            except UpstreamError as error:
                self._report(began, error.fault)
                await self._try_again(error)
            else:
                self._report(began, None)
                self._settled = True
                self._parts.attempts.succeeded()
                return result

    async def _try_again(self, error: UpstreamError) -> None:
        """Take the next attempt in hand; raises the error if there is none."""
        following = None if self._stopped else self._parts.attempts.after(error.fault)
        if following is None:
            self._settled = self._stopped is None
            raise error
        self._gear, self._answer = following, None
        self._journey.restart(following.plan)
        self._early.clear()
        if self._begun:  # the client knows the beginning already
            following.bridge.start()
        await self._within(None, "total", self._parts.rim.sleep(following.attempt.delay_s))

    def _report(self, began: float, fault: ProviderFault | None) -> None:
        """Leave word of an attempt that is over."""
        plan, status = self._gear.plan, self._answer.status if self._answer is not None else None
        self._journey.attempted(
            Attempted(
                number=self._gear.attempt.number,
                provider=plan.provider,
                model=plan.model,
                key_name=self._parts.attempts.key_name(),
            ),
            fault=fault,
            status=status,
            latency_ms=(self._parts.rim.monotonic() - began) * 1000,
        )

    async def _within(
        self, limit_s: float | None, kind: Literal["first_token", "total"], step: Awaitable[_T]
    ) -> _T:
        """A step before anything was told: it has its time, and `stop` breaks it off."""
        try:
            async with asyncio.timeout(limit_s) as self._opening:
                return await step
        except TimeoutError as error:
            raise self._unopened(self._stopped or timeout_fault(kind)) from error
        except UpstreamError as error:
            raise self._unopened(self._stopped or error.fault) from error
        finally:
            self._opening = None

    async def _ask(self) -> UpstreamAnswer:
        gear, clock = self._gear, self._parts.rim.monotonic
        began = clock()
        self._journey.outbound.feed(gear.outbound.body)
        answer = await gear.upstream.open(gear.provider, gear.outbound, gear.attempt.key)
        self._answer = answer
        self._journey.log.upstream_latency_ms = round((clock() - began) * 1000, 1)
        if answer.status >= 300:
            body = await error_body(answer)
            raise UpstreamError(gear.provider.dialect.classify(answer.status, answer.headers, body))
        return answer

    def _unopened(self, fault: ProviderFault) -> UpstreamError:
        """What to raise while a fault can still be an HTTP error; whoever asked then closes us."""
        self._journey.fault = fault
        if self._answer is not None:
            self._answer.close()
        return UpstreamError(fault)

    def _wordless(self, events: list[Event]) -> ProviderFault | None:
        """Why it failed, if it failed without a word that a client could use."""
        ending = terminal(events)
        if not isinstance(ending, Failed) or not all(map(_is_blank, ending.response.output)):
            return None
        message = "The provider closed the stream without any output."
        return self._bridge.fault or protocol_fault(message)

    def _is_meaningful(self) -> bool:
        bridge = self._bridge
        if bridge.is_holding_back or bridge.finishing or bridge.ended or bridge.round_fault:
            return True
        return _has_output(self._early)

    async def _pump(self) -> list[Event]:
        """One read of the network, and what it makes the client see."""
        assert self._answer is not None
        self._reading = True
        if self._heard and self._silence is not None:
            self._silence.touch()  # now, not when it came: meanwhile the client took its time
        try:
            chunk = await self._answer.next()
        except UpstreamError as error:
            return self._bridge.connection_lost(self._stopped or self._fell_silent or error.fault)
        finally:
            self._reading = False
        if (fault := self._stopped or self._fell_silent) is not None:
            return self._bridge.connection_lost(fault)
        if not chunk:
            return self._bridge.close()
        return self._take(chunk)

    def _take(self, chunk: bytes) -> list[Event]:
        bridge = self._bridge
        was_finishing, frames = bridge.finishing, bridge.frame_count
        events = bridge.feed(self._journey.raw.feed(chunk))
        # A comment keeps the line alive, but it is no answer; and grace is given once.
        self._heard = bridge.frame_count != frames and not bridge.finishing
        if bridge.finishing and not was_finishing and self._silence is not None:
            self._silence.reset(_GRACE_S)
        return events

    def _fall_silent(self) -> None:
        """Only the provider's silence counts: while nobody reads, it is the client who is slow."""
        if self._reading and self._answer is not None:
            self._fell_silent = timeout_fault("idle")
            self._answer.close()

    async def _released(self, events: list[Event]) -> list[Event]:
        """Through the stages; what must be saved is saved before it leaves."""
        stages = self._journey.stages
        self._journey.see(self._bridge)
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


def _is_blank(item: Item) -> bool:
    """A whole answer that says nothing has a message all the same: one without a word."""
    return isinstance(item, Message) and item.content in ((), (OutputText(),))


def _has_output(events: list[Event]) -> bool:
    return any(not isinstance(event, Created | InProgress | Failed) for event in events)
