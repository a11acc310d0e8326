"""Run: one response being generated, from an accepted request to its stored turn.

1. A run is inert until it is entered. Entering it takes a key, the circuit breaker's trial and a
   trace row; leaving it releases all of them and closes the upstream, on every path.
2. Until the first output nothing has been sent to the client: a fault is an `UpstreamError`, and
   attempts go on. After it, a fault is a `response.failed`.
3. One network read, one feed, one batch of events: nothing is awaited per delta.
4. The turn is saved before its terminal event leaves.
5. An answer may take several rounds: searches are made and the provider is called again until the
   answer is complete. In each round, attempts go on until its first output.
6. A run knows nothing of HTTP: its reader may be a socket, a background job or a library user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from enum import StrEnum
from functools import partial
from typing import Literal, Self, TypeAlias, TypeVar

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import TERMINAL_TYPES, Event
from antiphon.core.faults.fault import ProviderFault, timeout_fault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.plan.next_round import FinishedRound
from antiphon.core.response import Response
from antiphon.core.translation.translation import (
    READING,
    Round,
    Search,
    Translation,
)
from antiphon.core.web_search.search_call import SearchCall
from antiphon.engine.answer import Answer
from antiphon.engine.attempt import Attempt, make_encoding
from antiphon.engine.health import Lease
from antiphon.engine.report import AttemptReport
from antiphon.engine.retry import NextAttempt, RetryPolicy
from antiphon.engine.searches import Searches
from antiphon.engine.services import Prepared, Services
from antiphon.engine.timer import InactivityTimer
from antiphon.engine.turns import AddToConversation, SaveInStore, SaveTurn
from antiphon.errors import UpstreamError
from antiphon.stages.stage import terminal

_T = TypeVar("_T")
_Limit: TypeAlias = Literal["first_token", "total"]
Admit: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""Checks the limits of a client for the request with this id, and returns headers for the response;
raises `LimitExceeded`."""


class State(StrEnum):
    PREPARED = "prepared"
    OPENING = "opening"
    STREAMING = "streaming"
    BETWEEN_ROUNDS = "between_rounds"
    ENDED = "ended"


class Run:
    """Use as `async with run:`, then `open` and `next_events` for a stream, or else `response`."""

    def __init__(
        self,
        services: Services,
        prepared: Prepared,
        *,
        save: SaveTurn | None = None,
        admit: Admit | None = None,
    ) -> None:
        """`save` stores the turn of a response that is to be stored; None: it is saved in the
        store. `admit` checks the limits of the client; None: those of the configuration."""
        self.state = State.PREPARED
        self._services, self.prepared = services, prepared
        self._stopped: ProviderFault | None = None
        self._attempt: Attempt | None = None
        self._searches: Searches | None = None
        self._opening: asyncio.Timeout | None = None
        self._deadline: InactivityTimer | None = None
        self._held = ExitStack()
        self._admit = admit or services.accounting.admit
        self._save = _choose_save(services, prepared, save)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics so far: of the current plan, and of the answer itself."""
        return self._answer.diagnostics

    def hold(self, resource: AbstractContextManager[object]) -> None:
        """Enter a context that is left when the run is left, or cannot be entered, or is discarded;
        the last one first. It may be held before the run is entered, and while it runs."""
        self._held.enter_context(resource)

    def discard(self) -> None:
        """Release what a run holds that will not be entered. Nothing happens to any other."""
        if self.state is State.PREPARED:
            self._held.close()

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self._answer.add_diagnostic(diagnostic)

    # Acquire and release

    async def __aenter__(self) -> Self:
        services, prepared = self._services, self.prepared
        self.state = State.OPENING
        with ExitStack() as undo:
            undo.callback(self._held.close)
            services.active.add(self)
            undo.callback(services.active.discard, self)
            clock = services.runtime.monotonic
            trace = services.new_trace(prepared)
            caller = prepared.caller
            self.limit_headers = await self._admit(caller.client, caller.request_id)
            undo.callback(trace.abort)
            trace.begin(prepared.skipped)
            choice = services.health, services.attempts, clock, services.runtime.random
            # A request that begins a session gets the key that was used least.
            session = None if prepared.session == prepared.response.id else prepared.session
            self._policy = RetryPolicy(prepared.targets, *choice, trace.skip_target, session)
            self._next = self._policy.first()
            self._lease = Lease(services.health.of(self._next.target.provider), self._next.key)
            undo.callback(self._lease.release)
            self._lease.acquire()
            self._trace = trace
            self._encoding = make_encoding(services, prepared)
            self._answer = Answer(services, prepared, trace, self._next.target, self._save)
            undo.pop_all()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.state, answer = State.ENDED, self._answer
        steps: list[Callable[[], object]] = []
        if self._deadline is not None:
            steps.append(self._deadline.cancel)
        if self._searches is not None:
            steps.append(self._searches.close)
        if self._attempt is not None:
            steps.append(self._attempt.close)
        steps += (self._lease.release, answer.close, answer.finish_trace)
        steps += (partial(self._services.active.discard, self), self._held.close)
        error: BaseException | None = None
        for step in steps:  # each of them, whatever another one raises
            try:
                step()
            except BaseException as raised:
                error = raised
        if isinstance(error, Exception):  # the answer is over: only the log can report it
            answer.report_bug(error)
        elif error is not None:
            raise error

    def stop(self, fault: ProviderFault) -> None:
        """End the answer from outside: disconnect, and let the reader find the fault."""
        self._stopped = self._stopped or fault
        if self._opening is not None and not self._opening.expired():
            self._opening.reschedule(0)
        self._disconnect()

    async def cancel(self) -> list[Event]:
        """End the answer as cancelled, with what it has so far; call it when nothing else runs."""
        self._disconnect()
        events = self._answer.take_early() + self._answer.translation.cancel()
        return await self._answer.release(events) if events else []

    def _disconnect(self) -> None:
        if self._attempt is not None:
            self._attempt.hang_up()
        if self._searches is not None:
            self._searches.close()

    def _set_deadline(self) -> None:
        total_s = self._next.target.provider.timeouts.total_s
        self._deadline = InactivityTimer(total_s, lambda: self.stop(timeout_fault("total")))
        self._policy.set_deadline(total_s)

    # A streamed answer

    async def open(self) -> None:
        """Call the provider and wait for its first output; raises `UpstreamError`."""
        self._set_deadline()
        if self.prepared.compact is not None:
            await self._within(None, "total", self._compact_context)
        await self._open_round()
        self._translation = self._answer.translation

    def start(self) -> list[Event]:
        """Begin the answer before the provider's first output: the client must not wait longer."""
        return self._answer.start()

    async def next_events(self) -> list[Event]:
        """Wait for the next batch of events; an empty one follows the terminal event."""
        answer, translation = self._answer, self._translation
        if answer.early:
            return await answer.release(answer.take_early())
        events: list[Event] = []
        while not events and not translation.machine.has_ended:
            try:
                if translation.next is READING:
                    events = await self._read(translation)
                else:
                    events = await self._continue(self._open_round)
                if events and (answer.is_staged or type(events[-1]) in TERMINAL_TYPES):
                    events = await answer.release(events)
                else:
                    answer.event_count += len(events)
            except Exception as error:  # a bug is no reason to leave a client without an end
                events = await answer.end_with(answer.report_bug(error))
        return events

    async def fail(self, fault: ProviderFault) -> list[Event]:
        """End an answer whose opening failed: the events not yet read, and `response.failed`."""
        return await self._answer.end_with(fault)

    async def _compact_context(self) -> None:
        """Compact the context, and continue from the compacted one if there is one."""
        assert self.prepared.compact is not None
        outcome = await self.prepared.compact()
        if isinstance(outcome, Diagnostic):
            self._answer.add_diagnostic(outcome)
        else:
            self._encoding.use_planner(outcome)
        target = self._next.target
        plan = await self._compute(partial(self._encoding.plan, target))
        self._answer.use_target(target, plan)

    async def _open_round(self) -> None:
        attempt = await self._try_until_output("first_token", self._read_first_output)
        attempt.watch_idle(finishing=self._answer.translation.finishing)

    async def _read_first_output(self) -> Attempt:
        attempt, answer = await self._call_provider(), self._answer
        translation, is_whole, has_output = answer.translation, attempt.is_whole, False
        while not has_output:
            if is_whole:
                events = answer.read_whole(await attempt.read_all())
            else:
                events = await self._read(translation)
            answer.early += events  # after the await: `start` may have taken the others meanwhile
            has_output = answer.has_output
        if (fault := answer.fault_without_output(answer.early)) is not None:
            raise UpstreamError(fault)
        return attempt

    async def _read(self, translation: Translation) -> list[Event]:
        """Read the network once; return the events that come of it."""
        attempt = self._attempt
        assert attempt is not None
        try:
            chunk = await attempt.begin_read().next()
        except UpstreamError as error:
            return self._answer.lose(self._stopped or attempt.idle_fault or error.fault)
        finally:
            attempt.is_reading = False
        if (fault := self._stopped or attempt.idle_fault) is not None:
            return self._answer.lose(fault)
        if not chunk:
            return translation.close()
        frames, finish = translation.frame_count, translation.machine.pending_finish
        if self._trace.keeps_payloads:
            self._trace.raw.feed(chunk)
        events = translation.feed(chunk)
        is_finishing = translation.machine.pending_finish is not None
        # A comment keeps the connection alive, but it is not output; and grace is given once.
        attempt.is_active = translation.frame_count != frames and not is_finishing
        if is_finishing and finish is None:
            attempt.expect_end()
        return events

    # A whole answer

    async def response(self) -> Response:
        """Return the finished response; raises `UpstreamError`."""
        answer = self._answer
        if self.prepared.compact is not None:
            await self._within(None, "total", self._compact_context)
        events = await self._try_until_output("total", self._read_whole_round)
        if isinstance(answer.translation.next, Search | Round):
            self._set_deadline()  # for all further rounds; the first one had a limit of its own
        while isinstance(answer.translation.next, Search | Round):
            events += await self._continue(self._open_whole_round)
        ending = terminal(await answer.release(events))
        assert ending is not None
        return ending.response

    async def _open_whole_round(self) -> None:
        self._answer.early += await self._try_until_output("total", self._read_whole_round)

    async def _read_whole_round(self) -> list[Event]:
        attempt, answer = await self._call_provider(), self._answer
        events = answer.read_whole(await attempt.read_all())
        if (fault := answer.fault_of_whole_round(events)) is not None:
            raise UpstreamError(fault)
        return events

    # Attempts

    async def _try_until_output(self, limit: _Limit, step: Callable[[], Awaitable[_T]]) -> _T:
        """Make attempts until one has output, or no attempt is left."""
        self.state = State.OPENING
        if self._stopped is not None:
            raise self._opening_failed(self._stopped)
        while True:
            began = self._services.runtime.monotonic()
            timeouts = self._next.target.provider.timeouts
            limit_s = timeouts.total_s if limit == "total" else timeouts.first_token_s
            try:
                result = await self._within(limit_s, limit, step)
            except UpstreamError as error:
                self._record_attempt(began, error.fault)
                await self._retry(error)
            else:
                self._record_attempt(began, None)
                self._lease.succeed()
                self._encoding.accepted(self._next.target)
                self.state = State.STREAMING
                return result

    async def _within(
        self, limit_s: float | None, limit: _Limit, step: Callable[[], Awaitable[_T]]
    ) -> _T:
        """Run a step before the first output within its time; `stop` interrupts it."""
        try:
            async with asyncio.timeout(limit_s) as self._opening:
                return await step()
        except TimeoutError as error:
            raise self._opening_failed(self._stopped or timeout_fault(limit)) from error
        except UpstreamError as error:
            raise self._opening_failed(self._stopped or error.fault) from error
        except Exception as error:  # a bug is no reason to leave a client without an answer
            raise self._opening_failed(self._answer.report_bug(error)) from error
        finally:
            self._opening = None

    def _opening_failed(self, fault: ProviderFault) -> UpstreamError:
        self._answer.fault = fault
        if self._attempt is not None:
            self._attempt.hang_up()
        return UpstreamError(fault, self._answer.describe(fault), self._answer.plan.provider)

    async def _call_provider(self) -> Attempt:
        """Encode the request, send it, and wait for the response head."""
        services, answer, target = self._services, self._answer, self._next.target
        plan, outbound = await self._compute(partial(self._encoding.encode, target))
        if self._trace.context is not None:
            outbound = self._trace.add_context(outbound, self._trace.context)
        answer.use_sent_plan(plan)
        answer.translation.note_request(plan)
        answer.sent = outbound.body
        if self._trace.keeps_payloads:
            self._trace.outbound.feed(outbound.body)
        upstream = services.in_process if target.provider.spec.in_process else services.http
        self._attempt = Attempt(target, self._next.key, outbound, upstream)
        answer.upstream_latency_ms = await self._attempt.open(services.runtime.monotonic)
        return self._attempt

    async def _compute(self, function: Callable[[], _T]) -> _T:
        """Call a function; in the worker thread if the request is large."""
        is_large = self.prepared.request.is_large
        return await self._services.worker.run(function) if is_large else function()

    async def _retry(self, error: UpstreamError) -> None:
        """Take the next attempt; raises the error if there is none."""
        fault, target, attempt = error.fault, self._next.target, self._attempt
        if self._stopped is not None or attempt is None or fault.code == FaultKind.INTERNAL:
            raise error
        part, policy = self._encoding.find_rejected(target, fault, attempt.outbound), self._policy
        if not part.is_named:
            self._lease.fail(fault, target.model, has_other_targets=len(policy.targets) > 1)
        names, rejects = part.parameter is not None, part.mode is not None
        following = policy.after(self._next, fault, names_parameter=names, rejects_mode=rejects)
        if following is None:
            raise error
        change = partial(self._encoding.apply_change, following.change, part, fault, target)
        await self._compute(change)
        self._take(following)
        await self._within(None, "total", partial(self._services.runtime.sleep, following.delay_s))
        if (usable := self._policy.with_usable_key(following)) is not following:
            self._take(usable)  # during the pause another request was told to leave the key alone

    def _take(self, following: NextAttempt) -> None:
        """Acquire the key of the next attempt, after closing the last one."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()
        self._lease.release()
        self._next = following
        self._lease = Lease(self._services.health.of(following.target.provider), following.key)
        self._lease.acquire()
        self._trace.raw.rewind()
        self._answer.use_target(following.target, self._encoding.plan(following.target))

    def _record_attempt(self, began: float, fault: ProviderFault | None) -> None:
        target, attempt = self._next.target, self._attempt
        provider, model = target.name
        report = AttemptReport(
            number=self._next.number,
            provider=provider,
            model=model,
            key_name=self._lease.key_name,
            dialect=target.provider.spec.dialect,
            price=target.price,
            status=None if attempt is None else attempt.status,
            latency_ms=round((self._services.runtime.monotonic() - began) * 1000),
        )
        self._answer.record_attempt(report, fault)

    # Between rounds

    async def _continue(self, open_round: Callable[[], Awaitable[None]]) -> list[Event]:
        """Do what the response waits for: the next search, or a further round."""
        self.state = State.BETWEEN_ROUNDS
        translation = self._answer.translation
        try:
            match translation.next:
                case Search(calls):
                    return await self._search(calls)
                case Round() as wanted:
                    return await self._next_round(wanted, open_round)
            return []
        except Exception as error:  # a bug is no reason to leave a client without an end
            return translation.fail(self._answer.report_bug(error))

    async def _search(self, calls: Sequence[SearchCall]) -> list[Event]:
        translation = self._answer.translation
        self._searches = self._searches or Searches(self._services.search)
        if self._stopped is None:
            found = await self._searches.outcome(calls)
        if self._stopped is not None:
            return translation.fail(self._stopped)
        return translation.settle_search(found)

    async def _next_round(
        self, wanted: Round, open_round: Callable[[], Awaitable[None]]
    ) -> list[Event]:
        """Call the provider again; a fault that no attempt could avoid ends the response."""
        answer, translation = self._answer, self._answer.translation
        self._encoding.add_round(FinishedRound(wanted.items, wanted.follow_up))
        translation.begin_round()
        self._trace.begin_round()
        can_take_over = partial(self._encoding.can_take_over, plan=answer.plan)
        self._take(self._policy.next_round(self._next, can_take_over))
        try:
            await open_round()
        except UpstreamError as error:
            return translation.give_up_round(error.fault)
        return answer.take_early()


def _choose_save(services: Services, prepared: Prepared, save: SaveTurn | None) -> SaveTurn:
    request, store = prepared.request, services.store
    if not request.store and request.conversation is not None:
        return AddToConversation(store, request.conversation)
    return save or SaveInStore(store, request.conversation)
