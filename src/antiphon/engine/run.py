"""Run: one response being generated, from an accepted request to its stored turn.

1. A run is inert until it is entered. Entering it takes a key, the circuit breaker's trial and a
   trace row; leaving it releases all of them and closes the upstream, on every path.
2. Until the first output the client has nothing, or the events of `start`: a fault is an
   `UpstreamError`, and attempts go on. After it, a fault is a `response.failed`.
3. One network read, one feed, one batch of events: nothing is awaited per delta.
4. The turn is saved before its terminal event leaves.
5. A response may take several rounds: the gateway makes calls itself, such as searches, and the
   provider is called again until the response is complete. In each round, attempts go on until its
   first output.
6. A run knows nothing of HTTP: its reader may be a socket, a background job or a library user.

Its parts: `Attempts` calls providers, the `Translation` makes events of their bytes, `RunOutput`
passes the events through the pipeline to the reader, `GatewayCalls` makes the calls of the gateway,
and `RunTrace` keeps clock and rows. No part refers to the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from typing import Any, Literal, Self, TypeAlias, TypeVar

import msgspec

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import TERMINAL_TYPES, Event
from antiphon.core.faults.fault import ProviderFault, timeout_fault
from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.items import Item
from antiphon.core.mcp.items import LIST
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.finish import CANCELLED
from antiphon.core.stream.source import Source
from antiphon.core.translation.filters import make_filters
from antiphon.core.translation.next_step import READING, Calls, Round
from antiphon.core.translation.translation import (
    Replanned,
    Translation,
    make_translation,
)
from antiphon.dialects.responses.create_response import report_settings
from antiphon.engine.attempts import Attempts
from antiphon.engine.mcp_calls import McpCalls
from antiphon.engine.output import RunOutput, SaveTurn
from antiphon.engine.report import ServerCallReport
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Releases
from antiphon.engine.services import Prepared, Services, describe_fault, make_trace
from antiphon.engine.tracing import RunTrace
from antiphon.errors import AntiphonError, InvalidRequest, UpstreamError
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import failed, terminal

_T = TypeVar("_T")
_TimeLimit: TypeAlias = Literal["first_token", "total"]
Admit: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""Checks the limits of a client for the request with this id, and returns headers for the response;
raises `LimitExceeded`."""


async def admit_always(client: str, request_id: str) -> Mapping[str, str]:
    """Let a run begin whose client was admitted before: with the request that it belongs to."""
    return {}


MakeCall: TypeAlias = Callable[[Any], Awaitable[object]]
"""Makes a call of one kind, and returns its outcome."""

Release: TypeAlias = Callable[[], Awaitable[None]]
ReportBug: TypeAlias = Callable[[Exception], object]

_CANCELLING_S = 1.0
_BETWEEN_ROUNDS = frozenset({Calls, Round})


class State(StrEnum):
    PREPARED = "prepared"
    OPENING = "opening"
    STREAMING = "streaming"
    BETWEEN_ROUNDS = "between_rounds"
    ENDED = "ended"


class Run:
    """Use as `async with run:`, then `open` and `next_events` for a stream, or else `response`."""

    __slots__ = (
        "_admit",
        "_attempts",
        "_calls",
        "_held",
        "_output",
        "_services",
        "_trace",
        "_translation",
        "limit_headers",
        "prepared",
        "state",
    )

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
        self.prepared = prepared
        self.limit_headers: Mapping[str, str] = {}
        """Headers about the limits of the client, for its response."""
        self._services = services
        limiter = services.accounting.limiter
        self._admit = admit or (None if limiter is None else limiter.admit)
        self._held = Releases()
        """Releases what the run has acquired, and what it was given to hold."""
        self._trace = make_trace(services, prepared)
        self._attempts = Attempts(services, prepared, self._trace)
        self._output = RunOutput(services, prepared, self._trace, self._attempts, save)
        self._translation = translate(services, prepared, prepared.targets[0], prepared.first_plan)
        """Made anew for each attempt of the first round; the same one goes on in later rounds."""
        self._calls = make_gateway_calls(services, prepared, self._trace)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics so far: of the current plan, and of the response itself."""
        return self._output.diagnostics

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self._output.add_diagnostic(diagnostic)

    # Acquire and release

    def hold(self, resource: AbstractContextManager[object]) -> None:
        """Enter a context that is left when the run is left, or cannot be entered, or is discarded;
        the last one first. It may be held before the run is entered, and while it runs. It learns
        nothing of an error."""
        resource.__enter__()
        self._held.append((_leave, resource))

    def discard(self) -> None:
        """Release what a run holds that will not be entered. Nothing happens to any other."""
        if self.state is State.PREPARED:
            self._held.close()

    async def __aenter__(self) -> Self:
        held = self._held
        caller = self.prepared.caller
        self.state = State.OPENING
        try:
            held.append((self._services.active.discard, self))
            self._services.active.add(self)
            self._trace.start_clock()
            if self._admit is not None:
                self.limit_headers = await self._admit(caller.client, caller.request_id)
            held.append(self._trace.abort)
            self._trace.begin(self.prepared.skipped, software=caller.profile.software)
            self._attempts.acquire(held)
            held.append(self._calls.close)
            self._output.open()
            if self._attempts.chosen.target is not self.prepared.targets[0]:
                self._restart(self._attempts.plan)
        except BaseException:
            held.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.state = State.ENDED
        try:
            try:
                self._output.close(self._translation)
            finally:
                self._held.close()
        except Exception as error:  # the response is over: only the log can report it
            self._output.log.report_bug(error, self._translation)
        finally:
            if self._calls.has_connections:
                report = partial(self._output.log.report_bug, translation=self._translation)
                self._services.closing.begin(self._calls.release(report))

    def stop(self, fault: ProviderFault) -> None:
        """End the response from outside: disconnect, and let the reader find the fault."""
        self._attempts.stop(fault)
        self._calls.close()

    async def cancel(self) -> list[Event]:
        """End the response as cancelled, with its output so far; call it when nothing else runs."""
        self._attempts.close_current()
        self._calls.close()
        events = self._output.take_unread() + self._translation.finish(CANCELLED)
        return await self._output.pass_on_or_fail(events, self._translation) if events else []

    # A streamed response

    async def open(self) -> None:
        """Call the provider and wait for its first output; raises `UpstreamError`, also if a bug
        is why."""
        try:
            self._attempts.set_deadline(self.stop, self._held)
            await self._compact_context()
            if self._translation.opens_with_calls:
                self._output.unread.extend(self._translation.open_calls())
            else:
                await self._open_round(whole=False)
        except UpstreamError:
            raise
        except Exception as error:
            raise self._output.opening_broken(error, self._translation) from error

    def start(self) -> list[Event]:
        """Begin before the provider's first output: the client must not wait longer."""
        output = self._output
        output.unread.extend(self._translation.start())
        return output.feed(output.take_beginning(), self._translation)

    async def next_events(self) -> list[Event]:
        """Wait for the next batch of events; an empty one follows the terminal event."""
        output = self._output
        translation = self._translation
        if output.unread:
            return await output.pass_on_or_fail(output.take_unread(), translation)
        events: list[Event] = []
        while not events and not translation.machine.has_ended:
            try:
                if translation.next is READING:
                    attempt = self._attempts.current
                    assert attempt is not None
                    events = await attempt.read(translation, output.log)
                else:
                    events = await self._continue(whole=False)
            except Exception as error:  # a bug is no reason to leave a client without an end
                return await self.fail(output.log.report_bug(error, translation))
            if events and (output.pipeline.sees_every_batch or type(events[-1]) in TERMINAL_TYPES):
                events = await output.pass_on_or_fail(events, translation)
            else:
                output.count_events(events)
        return events

    async def fail(self, fault: ProviderFault | str) -> list[Event]:
        """End the response as failed, also where its terminal event was lost: return the events not
        yet read, and `response.failed`. A text is a message for the client, about its request."""
        output = self._output
        translation = self._translation
        events = output.take_unread() + translation.fail(fault)
        if terminal(events) is None and not isinstance(fault, str):
            message = output.log.describe(fault)
            events.append(
                failed(translation.machine.snapshot, code=fault.public_code, message=message)
            )
        return await output.pass_on_or_fail(events, translation)

    # A whole response

    async def response(self) -> Response:
        """Return the finished response; raises `UpstreamError`, also if a bug is why, and
        `ToolsNotUsable`."""
        try:
            await self._compact_context()
            translation = self._translation
            if translation.opens_with_calls:
                events = translation.open_calls()
            else:
                await self._open_round(whole=True)
                translation = self._translation
                events = self._output.take_unread()
            if type(translation.next) in _BETWEEN_ROUNDS:  # the first round had its own limit
                self._attempts.set_deadline(self.stop, self._held)
            while type(translation.next) in _BETWEEN_ROUNDS:
                events += await self._continue(whole=True)
            fault = fault_of_opening(translation)
            if fault is not None:
                raise self._output.opening_failed(fault)
            ending = terminal(await self._output.pass_on(events, translation))
            assert ending is not None
            return ending.response
        except AntiphonError:
            raise
        except Exception as error:
            raise self._output.opening_broken(error, self._translation) from error

    # Rounds and attempts

    async def _compact_context(self) -> None:
        """Compact the context if the request asks for it, and continue from the compacted one."""
        compact = self.prepared.compact
        if compact is None:
            return
        step = partial(self._attempts.compact_context, compact)
        diagnostic = await self._within(None, "total", step)
        if diagnostic is not None:
            self._output.add_diagnostic(diagnostic)
        self._restart(self._attempts.plan)

    async def _open_round(self, *, whole: bool) -> None:
        """Make attempts until one has output; raises `UpstreamError` if none is left."""
        attempts = self._attempts
        log = self._output.log
        read_round = partial(self._read_round, whole=whole)
        self.state = State.OPENING
        if attempts.stopped is not None:  # there is no attempt to report
            raise self._output.opening_failed(attempts.stopped)
        while True:
            began = self._services.runtime.monotonic()
            timeouts = attempts.chosen.target.provider.timeouts
            try:
                if whole:
                    await self._within(timeouts.total_s, "total", read_round)
                else:
                    await self._within(timeouts.first_token_s, "first_token", read_round)
            except UpstreamError as error:
                log.attempt_failed(attempts.make_report(began), error.fault, self._translation)
                await attempts.choose_next(error)
                self._restart(attempts.plan)
                await self._within(None, "total", attempts.pause)
            else:
                self._trace.add_attempt(attempts.make_report(began))
                attempts.succeed()
                self.state = State.STREAMING
                return

    async def _within(
        self, limit_s: float | None, limit: _TimeLimit, step: Callable[[], Awaitable[_T]]
    ) -> _T:
        """Run a step before the first output within its time; `stop` interrupts it, and no step
        begins after it. Whatever goes wrong is an `UpstreamError`."""
        attempts = self._attempts
        try:
            with attempts.limit_time(limit_s):
                return await step()
        except TimeoutError as error:
            fault = attempts.stopped or timeout_fault(limit)
            raise self._output.opening_failed(fault) from error
        except UpstreamError as error:
            raise self._output.opening_failed(attempts.stopped or error.fault) from error
        except Exception as error:  # a bug is no reason to leave a client without a response
            raise self._output.opening_broken(error, self._translation) from error

    async def _read_round(self, *, whole: bool) -> None:
        """Call the provider, and read its first output or all of it; raises `UpstreamError` if that
        is no output which a client could use."""
        attempts = self._attempts
        output = self._output
        attempt = await attempts.encode()
        if attempt.plan is not attempts.plan:  # of a further round, or changed by the encoding
            output.use_plan(attempt.plan)
            if not self._translation.rounds and attempt.plan.used != attempts.plan.used:
                self._restart(attempt.plan)
        translation = self._translation
        translation.note_request(attempt.plan)
        await attempts.send(attempt)
        await attempt.read_output(translation, output, whole=whole)

    def _restart(self, plan: Plan) -> None:
        """Read from the current target from now on; drop what an attempt before it has brought."""
        self._output.begin_attempt(plan)
        target = self._attempts.chosen.target
        if self._translation.rounds:
            source = make_source(self._services, self.prepared, target)
            is_first = is_first_request(self._translation)
            replanned = replan(self._services, self.prepared, plan) if is_first else None
            self._translation.read_from(source, replanned)
            return
        self._translation = translate(self._services, self.prepared, target, plan)
        if self._output.event_count:  # the client has the first events already
            self._translation.start()

    async def _continue(self, *, whole: bool) -> list[Event]:
        """Do what the response waits for: the next call of the gateway, or a further round."""
        self.state = State.BETWEEN_ROUNDS
        translation = self._translation
        wanted = translation.next
        try:
            if isinstance(wanted, Calls):
                report = partial(self._output.log.report_bug, translation=translation)
                found = await self._calls.outcome(wanted.calls, report)
                stopped = self._attempts.stopped
                return translation.fail(stopped) if stopped else translation.settle_call(found)
            if isinstance(wanted, Round):
                translation.begin_round()
                is_first = is_first_request(translation)
                await self._attempts.begin_round(wanted, is_first=is_first)
                self._restart(self._attempts.plan)
                await self._open_round(whole=whole)
        except InvalidRequest as error:  # with the tools of a server it cannot be served
            if whole:
                raise self._output.log.request_refused(error) from error
            return translation.fail(error.message)
        except UpstreamError as error:  # no attempt could avoid it
            return translation.give_up_round(error.fault)
        except Exception as error:  # a bug is no reason to leave a client without an end
            return translation.fail(self._output.log.report_bug(error, translation))
        return self._output.take_unread()


def _leave(resource: AbstractContextManager[object]) -> None:
    resource.__exit__(None, None, None)


def translate(services: Services, prepared: Prepared, target: Target, plan: Plan) -> Translation:
    """Make the translation of the response of a target, with the settings of this plan."""
    response = prepared.response
    if plan.used != prepared.first_plan.used:  # that is where the settings of the response are from
        settings = report_settings(prepared.request, plan.used)
        response = msgspec.structs.replace(response, **settings)
    return make_translation(
        plan,
        make_source(services, prepared, target),
        response,
        new_id=services.runtime.new_id,
        now=services.runtime.now,
        profile=prepared.caller.profile,
        limits=services.limits,
        reminders=services.attempts.reminders,
    )


def is_first_request(translation: Translation) -> bool:
    """Whether the round that has begun is the first one after calls of the gateway."""
    return translation.opens_with_calls and translation.rounds == 1


def replan(services: Services, prepared: Prepared, plan: Plan) -> Replanned:
    """Make what the output of the first request is read with, whose plan was made again."""
    filters = make_filters(
        plan,
        prepared.caller.profile,
        services.runtime.new_id,
        reminders=services.attempts.reminders,
    )
    return Replanned(plan.identities, filters)


def make_source(services: Services, prepared: Prepared, target: Target) -> Source:
    """Say how to read what a target sends."""
    caller = prepared.caller
    return Source(
        target.provider.dialect.for_client(prepared.request.client_format),
        target.capabilities.guards,
        partial(services.sealer.seal, caller.client, target.issuer, target.model),
        partial(describe_fault, target, caller),
    )


# The opening with calls of the gateway


def fault_of_opening(translation: Translation) -> ProviderFault | None:
    """Return why a whole response failed before the model had any output, if nothing was done for
    it but to list tools: such a request can be sent again."""
    machine = translation.machine
    if not translation.opens_with_calls or machine.fault is None:
        return None
    others = (each for each in machine.snapshot.output if not _is_list(each))
    return None if any(others) else machine.fault


def _is_list(item: Item) -> bool:
    return isinstance(item, dict) and item["type"] == LIST


# Calls that the gateway makes itself


class GatewayCalls:
    """The calls of one response: started together, reported in order."""

    __slots__ = ("_closing", "_is_closed", "_make", "_release", "_tasks")

    def __init__(self, make: MakeCall, release: Release | None = None) -> None:
        """`release` closes what the calls have used."""
        self._make = make
        self._release = release
        self._tasks: dict[str, asyncio.Future[object]] = {}
        self._is_closed = False
        self._closing: asyncio.Future[object] | None = None
        """Done with `close`; made with the first call."""

    async def outcome(self, calls: Sequence[GatewayCall], report: ReportBug) -> object:
        """Return the outcome of the first call; start the others at the same time. A call that a
        bug has ended is reported, and has failed. Cancelled calls may take a while to end:
        `release` waits for them, and not the response."""
        if self._is_closed:
            return calls[0].fail()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
        for call in calls:
            if call.call_id not in self._tasks:
                self._tasks[call.call_id] = asyncio.ensure_future(self._make(call))
        task = self._tasks[calls[0].call_id]
        # Cancelling a call must not cancel the run.
        await asyncio.wait({task, self._closing}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or task.cancelled():
            return calls[0].fail()
        try:
            return task.result()
        except Exception as error:
            report(error)
            return calls[0].fail()

    def close(self) -> None:
        """Cancel the calls that are being made, and make no more."""
        self._is_closed = True
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        for task in self._tasks.values():
            task.cancel()

    @property
    def has_connections(self) -> bool:
        """Whether there is something to release."""
        return self._release is not None and bool(self._tasks)

    async def release(self, report: ReportBug) -> None:
        """Close the connections that the calls have used, once those that were cancelled know it:
        a server is told that its result is not wanted any more. The run is over: what goes wrong is
        reported, and not raised."""
        assert self._release is not None
        try:
            try:
                pending = [task for task in self._tasks.values() if not task.done()]
                if pending:
                    await asyncio.wait(pending, timeout=_CANCELLING_S)
            finally:
                await self._release()
        except Exception as error:  # a bug
            report(error)


def make_gateway_calls(services: Services, prepared: Prepared, trace: RunTrace) -> GatewayCalls:
    """Make what makes the calls of a response: searches, and calls of the servers it names."""
    search: MakeCall = services.search
    if prepared.first_plan.mcp is None or services.mcp is None:
        return GatewayCalls(search)
    record = partial(report_server_call, trace, services.emit)
    calls = McpCalls(services.mcp.open_sessions, search, services.runtime.monotonic, record)
    return GatewayCalls(calls.make, calls.close)


def report_server_call(
    trace: RunTrace, emit: Callable[[Entry], None], call: ServerCallReport
) -> None:
    """Record a call of an MCP server in the trace, and in the log if the server failed. Of a list
    that failed, the log has the end of the response."""
    trace.add_server_call(call)
    if call.tool is not None and call.reason is not None:
        facts = {
            "server": call.server,
            "tool": call.tool,
            "code": call.error,
            "reason": call.reason,
            "duration_ms": round(call.duration_ms, 1),
        }
        emit(Entry("mcp.call_failed", "warning", {**trace.facts, **facts}))
