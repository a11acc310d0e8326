"""Attempts: the calls of providers that one run makes, one after the other.

`Attempts` owns what a call needs: the retry policy chooses its target and key, the key lease holds
the key, the encoding makes its request. An `Attempt` is one call: the request that is sent, and the
response that is read. Only the run decides when the next call is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, Self, TypeVar

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Created, Event, Failed, InProgress
from antiphon.core.faults.fault import FaultType, ProviderFault, protocol_fault, timeout_fault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.items import Item, Message, OutputText
from antiphon.core.plan.next_round import FinishedRound
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.plan.planner import Planner
from antiphon.core.translation.next_step import READING, Round
from antiphon.core.translation.translation import Translation, is_blocked
from antiphon.engine.encoding import RequestEncoding
from antiphon.engine.health import NO_KEY, KeyLease
from antiphon.engine.rejections import ModeFallback
from antiphon.engine.report import AttemptReport
from antiphon.engine.retry import Change, NextAttempt, RetryPolicy
from antiphon.engine.runtime import InactivityTimer, Releases
from antiphon.engine.services import Compact, Prepared, Services
from antiphon.engine.tracing import RunTrace
from antiphon.engine.upstream import Upstream, UpstreamResponse, error_body
from antiphon.errors import UpstreamError
from antiphon.stages.trace import RawTap

_T = TypeVar("_T")
_TOTAL_TIMEOUT = timeout_fault("total")
_GRACE_S = 2.0  # how long usage may follow a finish reason


class ConnectionLog(Protocol):
    """Reports connections that broke."""

    def lost_after_finish(self, fault: ProviderFault, translation: Translation) -> None: ...


class EventBuffer(Protocol):
    """Keeps events until their reader asks for them."""

    unread: list[Event]

    @property
    def log(self) -> ConnectionLog: ...


class Attempt:
    """One call of a provider: the request that is sent and the response that is read."""

    __slots__ = (
        "_is_active",
        "_is_reading",
        "_raw",
        "_received",
        "_timer",
        "_upstream",
        "chosen",
        "fault",
        "outbound",
        "plan",
    )

    def __init__(
        self,
        chosen: NextAttempt,
        plan: Plan,
        outbound: Outbound,
        upstream: Upstream,
        raw: RawTap | None = None,
    ) -> None:
        """`plan` is the target's, without the parts that were left out of the request. `raw` keeps
        the provider's bytes for the trace."""
        self.chosen = chosen
        self.plan = plan
        self.outbound = outbound
        self.fault: ProviderFault | None = None
        """Why the gateway itself has closed the connection, once it has."""
        self._upstream = upstream
        self._raw = raw
        self._received: UpstreamResponse | None = None
        self._timer: InactivityTimer | None = None
        self._is_reading = False
        """Whether the run waits for bytes: otherwise the client is the slow one."""
        self._is_active = False
        """Whether the last read held a frame before the finish reason."""

    @property
    def status(self) -> int | None:
        """The HTTP status of the provider's response; None while there is none."""
        return None if self._received is None else self._received.status

    @property
    def is_whole(self) -> bool:
        """Whether the provider sends one JSON body, although a stream was requested."""
        assert self._received is not None
        return self._received.headers.get("content-type", "").startswith("application/json")

    async def open(self, clock: Callable[[], float]) -> float:
        """Send the request and wait for the response head; return the latency in milliseconds."""
        began = clock()
        provider = self.chosen.target.provider
        received = await self._upstream.open(provider, self.outbound, self.chosen.key)
        self._received = received
        latency_ms = round((clock() - began) * 10_000) / 10
        if received.status >= 300:
            body = await error_body(received)
            if self._raw is not None and body:
                self._raw.feed(body)
            raise UpstreamError(provider.dialect.classify(received.status, received.headers, body))
        return latency_ms

    async def read_output(
        self, translation: Translation, buffer: EventBuffer, *, whole: bool
    ) -> None:
        """Read the first output, or with `whole` all of it; raises `UpstreamError` if that is none
        which a client could use."""
        provider = self.plan.provider
        if whole:
            events = await self.read_whole(translation)
            fault = fault_of_whole_round(translation, events, provider)
            if fault is not None:
                raise UpstreamError(fault)
            buffer.unread.extend(events)
            return
        while not has_output(translation, buffer.unread):
            if self.is_whole:
                events = await self.read_whole(translation)
            else:
                events = await self.read(translation, buffer.log)
            buffer.unread.extend(events)  # after the await: `start` may have taken the others
        fault = fault_without_output(translation, buffer.unread, provider)
        if fault is not None:
            raise UpstreamError(fault)
        if translation.next is READING:
            self.watch_idle(finishing=translation.machine.pending_finish is not None)

    async def read(self, translation: Translation, log: ConnectionLog) -> list[Event]:
        """Read the network once; return the events that come of it."""
        received = self._received
        assert received is not None
        if self._is_active and self._timer is not None:
            self._timer.touch()  # now, not when the bytes arrived: the client took its time since
        self._is_reading = True
        try:
            chunk = await received.next()
        except UpstreamError as error:
            return _lose(translation, self.fault or error.fault, log)
        finally:
            self._is_reading = False
        if self.fault is not None:
            return _lose(translation, self.fault, log)
        if not chunk:
            return translation.close()
        if self._raw is not None:
            self._raw.feed(chunk)
        frames = translation.frame_count
        was_finishing = translation.machine.pending_finish is not None
        events = translation.feed(chunk)
        is_finishing = translation.machine.pending_finish is not None
        # A comment keeps the connection alive, but it is not output; and grace is given once.
        self._is_active = translation.frame_count != frames and not is_finishing
        if is_finishing and not was_finishing and not translation.machine.has_ended:
            self.expect_end()
        return events

    async def read_whole(self, translation: Translation) -> list[Event]:
        """Read all that the provider sends. Some servers stream although a whole response was
        requested."""
        assert self._received is not None
        body = await self._received.read()
        if self._raw is not None:
            self._raw.feed(body)
        if body.lstrip().startswith((b"{", b"[")):
            return translation.feed_whole(body)
        return translation.feed(body) + translation.close()

    def watch_idle(self, *, finishing: bool) -> None:
        """Close the connection when the provider sends nothing for `idle_s` seconds."""
        limit_s = _GRACE_S if finishing else self.chosen.target.provider.timeouts.idle_s
        self._timer = InactivityTimer(limit_s, self._on_idle, repeat=True)

    def expect_end(self) -> None:
        """Wait only a moment longer: the finish reason is here, and usage may follow."""
        if self._timer is not None:
            self._timer.reset(_GRACE_S)

    def _on_idle(self) -> None:
        """Only the provider counts: while nothing is being read, the client is the slow one."""
        if self._is_reading and self.fault is None:
            self.stop(timeout_fault("idle"))

    def stop(self, fault: ProviderFault) -> None:
        """Close the connection, and let a pending read find this fault."""
        self.fault = fault
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection; a pending read ends."""
        if self._received is not None:
            self._received.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.hang_up()


def _lose(translation: Translation, fault: ProviderFault, log: ConnectionLog) -> list[Event]:
    """End a round whose connection broke."""
    machine = translation.machine
    if machine.pending_finish is not None and not machine.has_ended:
        log.lost_after_finish(fault, translation)
    return translation.connection_lost(fault)


# Output of a round


def has_output(translation: Translation, events: Sequence[Event]) -> bool:
    """Whether the provider has sent enough to commit to its attempt; `events` are unread."""
    if translation.path.is_holding_back or translation.next is not READING:
        return True
    if translation.machine.pending_finish is not None and not is_blocked(translation):
        return True
    return any(type(event) not in _NO_OUTPUT for event in events)


_NO_OUTPUT = frozenset({Created, InProgress, Failed})


def fault_without_output(
    translation: Translation, events: Sequence[Event], provider: str
) -> ProviderFault | None:
    """Return why a round failed, if it failed without output that a client could use."""
    if translation.rounds:  # what earlier rounds brought stays
        return translation.next.fault if isinstance(translation.next, Round) else None
    ending = events[-1] if events else None
    if not isinstance(ending, Failed) or not all(map(_is_blank, ending.response.output)):
        return None
    message = f"{provider} closed the stream without any output."
    return translation.machine.fault or protocol_fault(message)


def fault_of_whole_round(
    translation: Translation, events: Sequence[Event], provider: str
) -> ProviderFault | None:
    """Return why a whole response failed, if it failed without output that a client could use: the
    same rule as for a streamed one (ADR 0083)."""
    fault = fault_without_output(translation, events, provider)
    if fault is not None and fault.type is FaultType.unknown:  # a 200 with nothing we know
        return protocol_fault(fault.message)
    return fault


def _is_blank(item: Item) -> bool:
    """Whether an item is the empty message that a whole response without text has."""
    return isinstance(item, Message) and item.content in ((), (OutputText(),))


# All calls of a run


class TimeLimit:
    """Ends what a task does within it, after some seconds or by `interrupt`, with a `TimeoutError`.

    It does what `asyncio.timeout` does, for a third of the cost: nothing is awaited to enter or to
    leave it."""

    __slots__ = ("_cancelling", "_has_expired", "_limit_s", "_task", "_timer")

    def __init__(self, limit_s: float | None) -> None:
        """None: there is no limit but `interrupt`."""
        self._limit_s = limit_s
        self._task: asyncio.Task[object] | None = None
        """The task, while it is within."""
        self._cancelling = 0
        self._timer: asyncio.Handle | None = None
        self._has_expired = False

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        if self._limit_s is not None:
            self._timer = loop.call_later(self._limit_s, self._expire)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        task, self._task = self._task, None
        assert task is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._has_expired:
            return
        is_cancelled_by_others = task.uncancel() > self._cancelling
        if kind is asyncio.CancelledError and not is_cancelled_by_others:
            raise TimeoutError

    def interrupt(self) -> None:
        """End it now. Nothing happens before it was entered, and after it was left."""
        if self._task is not None and not self._has_expired:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_soon(self._expire)

    def _expire(self) -> None:
        if self._task is not None:
            self._has_expired = True
            self._task.cancel()


class Retry(NamedTuple):
    """The call after one that has failed."""

    attempt: NextAttempt
    change: Callable[[], None]
    """Makes the requests of this run differ from the one that has failed."""


class Attempts:
    """The calls of one run. It is inert until `acquire`, which takes the first key."""

    __slots__ = (
        "_encoding",
        "_lease",
        "_limit",
        "_policy",
        "_services",
        "_trace",
        "chosen",
        "current",
        "latency_ms",
        "plan",
        "sent_body",
        "stopped",
    )

    def __init__(self, services: Services, prepared: Prepared, trace: RunTrace) -> None:
        runtime = services.runtime
        self._services = services
        self._trace = trace
        self._policy = RetryPolicy(
            prepared.targets,
            services.health,
            services.attempts,
            runtime.monotonic,
            runtime.random,
            trace.skip_target,
            # A request that begins a session gets the key that was used least.
            None if prepared.session == prepared.response.id else prepared.session,
        )
        self._encoding = RequestEncoding(
            prepared.planner,
            services.rejected,
            prepared.unseal,
            prepared.request.stream,
            ModeFallback(services.rejected_modes, runtime.monotonic),
        )
        self.chosen = NextAttempt(0, prepared.targets[0], NO_KEY)
        """The target that is called now, or next, and its key."""
        self.plan = prepared.first_plan
        """The plan of the first request for this target; `Attempt.plan` is that of one call."""
        self._lease: KeyLease | None = None
        """Of the key in use; None once the call has output."""
        self.current: Attempt | None = None
        """The call under way; None before its request is encoded."""
        self.sent_body = b""
        """The body of the last request; empty before the first."""
        self._limit: TimeLimit | None = None
        """Of the step before the first output."""
        self.stopped: ProviderFault | None = None
        """Why the run was ended from outside, once it was."""
        self.latency_ms: float | None = None
        """Time to the head of the response, of the last call whose status was good."""

    # Acquire and release

    def acquire(self, held: Releases) -> None:
        """Choose the first target, and take its key; `held` releases what the calls use."""
        held.append(self._release)
        self._take(self._policy.first())

    def _release(self) -> None:
        try:
            self.close_current()
        finally:
            self._release_key()

    def _release_key(self) -> None:
        if self._lease is not None:
            self._lease.release()

    def close_current(self) -> None:
        """Close the connection of the call under way."""
        if self.current is not None:
            self.current.close()

    def set_deadline(self, stop: Callable[[ProviderFault], None], held: Releases) -> None:
        """Give all further calls together the total time of the current provider; then `stop` is
        called."""
        total_s = self.chosen.target.provider.timeouts.total_s
        timer = asyncio.get_running_loop().call_later(total_s, stop, _TOTAL_TIMEOUT)
        held.append(timer.cancel)
        self._policy.set_deadline(total_s)

    def stop(self, fault: ProviderFault) -> None:
        """End the run from outside: interrupt its opening, or the read that is pending."""
        self.stopped = self.stopped or fault
        if self._limit is not None:
            self._limit.interrupt()
        if self.current is not None:
            self.current.stop(self.stopped)

    # One call

    def limit_time(self, limit_s: float | None) -> TimeLimit:
        """Make the time limit of a step before the first output; `stop` interrupts it, too. Raises
        `UpstreamError` after it."""
        if self.stopped is not None:
            raise UpstreamError(self.stopped)
        self._limit = TimeLimit(limit_s)
        return self._limit

    async def encode(self) -> Attempt:
        """Encode the request of a call; it is not sent yet."""
        target = self.chosen.target
        encode = partial(self._encoding.encode, self.plan, target.provider)
        plan, outbound = await self._compute(encode)
        outbound = self._trace.record_outbound(outbound)
        services = self._services
        upstream = services.in_process if target.provider.spec.in_process else services.http
        payloads = self._trace.payloads
        raw = None if payloads is None else payloads.raw
        self.current = Attempt(self.chosen, plan, outbound, upstream, raw)
        self.sent_body = outbound.body
        return self.current

    async def send(self, attempt: Attempt) -> None:
        """Send the request of a call, and wait for the response head."""
        self.latency_ms = await attempt.open(self._services.runtime.monotonic)

    async def compact_context(self, compact: Compact) -> Diagnostic | None:
        """Compact the context, and continue from the compacted one; return why it was not."""
        outcome = await compact()
        self._policy.begin_round()
        failure = outcome if isinstance(outcome, Diagnostic) else None
        if not isinstance(outcome, Diagnostic):
            await self._plan_again(outcome)
        await self.pause()  # not at all, but the key may be cooling down since it was taken
        return failure

    async def _plan_again(self, planner: Planner) -> None:
        """Continue from another context."""
        self._encoding.use_planner(planner)
        self.plan = await self._compute(partial(self._encoding.plan, self.chosen.target))

    async def _compute(self, function: Callable[[], _T]) -> _T:
        """Call a function; in the worker thread if the request is large."""
        return await self._services.worker.run(function) if self.plan.is_large else function()

    def make_report(self, began: float) -> AttemptReport:
        """Report the call that failed, or whose output has begun."""
        target = self.chosen.target
        status = None if self.current is None else self.current.status
        provider, model = target.name
        assert self._lease is not None
        return AttemptReport(
            number=self.chosen.number,
            provider=provider,
            model=model,
            key_name=self._lease.key_name,
            dialect=target.provider.spec.dialect,
            price=target.price,
            status=status,
            latency_ms=round((self._services.runtime.monotonic() - began) * 1000),
            at_ms=self._trace.elapsed_ms(),
            round=self._trace.round,
        )

    # The next call

    def succeed(self) -> None:
        """The call has output: its key, its provider and what was left out are good."""
        assert self._lease is not None
        self._lease.succeed()
        self._lease = None
        self._encoding.accepted(self.chosen.target)

    def choose_next(self, error: UpstreamError) -> Retry:
        """Choose the next call; raises the error if there is none."""
        fault = error.fault
        target = self.chosen.target
        current = self.current
        if self.stopped is not None or current is None or fault.code == FaultKind.INTERNAL:
            raise error
        is_last = self._policy.attempts_left <= 1
        part = self._encoding.find_rejected(target, fault, current.outbound, is_last=is_last)
        if not part.is_named:
            assert self._lease is not None
            has_others = len(self._policy.targets) > 1
            self._lease.fail(fault, target.model, has_other_targets=has_others)
        following = self._policy.after(
            self.chosen,
            fault,
            names_parameter=part.parameter is not None,
            rejects_mode=part.mode is not None,
        )
        if following is None:
            self._encoding.give_up(target, part)
            raise error
        change = partial(self._encoding.apply_change, following.change, part, fault, target)
        return Retry(following, change)

    async def begin_retry(self, retry: Retry) -> None:
        """Take the target and key of the next call."""
        await self._compute(retry.change)
        self._take(retry.attempt)

    async def pause(self) -> None:
        """Wait as the next call wants it. In the meantime another request may have been told to
        leave the key alone: then another key is taken."""
        await self._services.runtime.sleep(self.chosen.delay_s)
        usable = self._policy.with_usable_key(self.chosen)
        if usable is not self.chosen:
            self._take(usable)

    async def begin_round(self, wanted: Round, *, is_first: bool) -> None:
        """Plan a round that needs a request: a further one, or the first one after calls of the
        gateway (`is_first`). Raises `InvalidRequest` if that cannot be planned with their outcome.
        """
        if is_first:
            planner = self._encoding.planner
            await self._plan_again(planner.continue_with(wanted.items, wanted.follow_up.steps))
            self._policy.keep_targets(self._encoding.can_serve)
            self._policy.begin_round()
            await self.pause()  # not at all, but the key may be cooling down since it was taken
            return
        self._trace.begin_round()
        self._encoding.add_round(FinishedRound(wanted.items, wanted.follow_up))
        can_take_over = partial(self._encoding.can_take_over, plan=self.plan)
        self._take(self._policy.next_round(self.chosen, can_take_over))

    def _take(self, following: NextAttempt) -> None:
        """Take the key of the next call, after closing the last one."""
        if self.current is not None:
            self.current.close()
            self.current = None
            self._trace.rewind()
        self._release_key()
        if following.target is not self.chosen.target or following.change is not Change.NONE:
            self.plan = self._encoding.plan(following.target)
        self.chosen = following
        self._lease = KeyLease(self._services.health.of(following.target.provider), following.key)
        self._lease.acquire()
