"""Output of a run: its events on their way to the reader, its stored turn, and its log.

Events pass the stages and leave; the turn is saved before its terminal event does, and after it the
state of its calls, for a client that returns nothing but their ids (ADR 0091). `RunLog` tells log
and trace what has failed, and how the run has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from antiphon.core.diagnostic import Code, Diagnostic, ignored
from antiphon.core.events import Completed, Event, Failed, Incomplete
from antiphon.core.faults.fault import ProviderFault, internal_fault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.history.call_state import CallState, collect_states, pack
from antiphon.core.history.capsule import Sealer
from antiphon.core.mcp.credentials import without_credentials
from antiphon.core.plan.plan import Plan
from antiphon.core.request import Request
from antiphon.core.response import Response, ResponseUsage
from antiphon.core.stream.finish import FINISH_REASONS
from antiphon.core.stream.usage import estimate_unfinished
from antiphon.core.translation.translation import Translation
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.attempts import Attempts
from antiphon.engine.fault_report import (
    FaultReport,
    clean_own_text,
    clean_text,
    is_bug,
    report_fault,
)
from antiphon.engine.report import AttemptReport
from antiphon.engine.services import Prepared, Services, describe_fault
from antiphon.engine.tracing import RunEnd, RunTrace, compute_cost
from antiphon.errors import (
    AntiphonError,
    InvalidRequest,
    StoreError,
    ToolsNotUsable,
    UpstreamError,
)
from antiphon.stages.builtin import build_pipeline
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Batch, Pipeline, failed, terminal, without_output
from antiphon.store.call_states import MAX_STATE_BYTES
from antiphon.store.quoted_text import RequestTexts, read_texts
from antiphon.store.store import Store, Turn

# Log and trace


class RunLog:
    """Tells log and trace of the failures of one run, and of its end.

    A fault is reported without what it quotes of the request or the response."""

    __slots__ = (
        "_attempts",
        "_emit",
        "_logged_bugs",
        "_prepared",
        "_redactor",
        "_refusal",
        "_reports",
        "_trace",
    )

    def __init__(
        self, services: Services, prepared: Prepared, trace: RunTrace, attempts: Attempts
    ) -> None:
        self._emit = services.emit
        self._redactor = services.redactor
        self._prepared = prepared
        self._trace = trace
        self._attempts = attempts
        self._reports: dict[ProviderFault, FaultReport] = {}
        self._logged_bugs: tuple[ProviderFault, ...] = ()
        self._refusal: InvalidRequest | None = None
        """Why there is no response: the request was refused during the run."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Names and numbers of the request and its current target; safe to log."""
        plan = self._attempts.plan
        facts = self._trace.facts
        if plan.provider == facts["provider"] and plan.model == facts["provider_model"]:
            return facts
        return {**facts, "provider": plan.provider, "provider_model": plan.model}

    def cost_usd(self, usage: ResponseUsage | None) -> float | None:
        """Return the cost at the current target; None if its price is unknown."""
        cost = compute_cost(self._attempts.chosen.target.price, usage)
        return None if cost is None else cost / DOLLAR

    def describe(self, fault: ProviderFault) -> str:
        """Describe a fault of the current provider to the client, in its language."""
        return describe_fault(self._attempts.chosen.target, self._prepared.caller, fault)

    def attempt_failed(
        self, attempt: AttemptReport, fault: ProviderFault, translation: Translation
    ) -> None:
        report = self._report(fault, translation)
        attempt = msgspec.structs.replace(
            attempt,
            fault_type=fault.type,
            fault_code=fault.code,
            reason=report.reason,
            words=report.words,
        )
        self._trace.add_attempt(attempt)
        if not is_bug(fault):
            facts = {"attempt": attempt.number, "key": attempt.key_name, **report.facts}
            self._emit(Entry("attempt.failed", "warning", {**self.facts, **facts}))

    def request_refused(self, problem: InvalidRequest) -> ToolsNotUsable:
        """Note that the request cannot be served with the tools of its servers; return the error to
        raise."""
        self._refusal = problem
        return ToolsNotUsable(problem)

    def report_bug(self, error: Exception, translation: Translation) -> ProviderFault:
        """Log an unexpected exception in the gateway's own code; return it as a fault."""
        fault = internal_fault(error)
        if is_bug(fault):
            self._log_bug(fault, translation)
        return fault

    def lost_after_finish(self, fault: ProviderFault, translation: Translation) -> None:
        """Log a connection that broke after the finish reason: nothing is missing but the token
        counts, perhaps. That is worth an entry for a person who looks for them."""
        facts = {**self.facts, **self._report(fault, translation).facts}
        self._emit(Entry("upstream.lost_after_finish", "debug", facts))

    def end(
        self,
        fault: ProviderFault | None,
        translation: Translation,
        *,
        diagnostics: Sequence[Diagnostic],
        save_ms: float | None,
    ) -> None:
        """Log why the response failed, if it did, and write the end of the trace row."""
        failure: FaultReport | None = None
        usage: ResponseUsage | None = None
        if fault is not None:  # if what follows is interrupted
            failure = FaultReport(code=fault.code, message=fault.type)
        try:
            self._log_fault(fault, translation)
            failure = self._find_failure(fault, translation)
            if fault is None and failure is not None:
                reason = {"code": failure.code, "reason": failure.message}
                facts = {**self.facts, **reason, "duration_ms": self._duration_ms()}
                self._emit(Entry("response.failed", "warning", facts))
            usage = self._estimate_usage(translation)
        finally:
            self._trace.finish(
                RunEnd(
                    failure=failure,
                    diagnostics=diagnostics,
                    finish_reason=self.finish_reason(translation),
                    upstream_latency_ms=self._attempts.latency_ms,
                    save_ms=save_ms,
                    partial_usage=usage,
                )
            )

    def _log_bug(self, fault: ProviderFault, translation: Translation) -> None:
        if fault not in self._logged_bugs:  # else it was logged when it was raised
            self._logged_bugs += (fault,)
            facts = {**self.facts, **self._report(fault, translation).facts}
            self._emit(Entry("gateway.bug", "error", facts))

    def _log_fault(self, fault: ProviderFault | None, translation: Translation) -> None:
        if fault is None:
            return
        if is_bug(fault):
            self._log_bug(fault, translation)
            return
        reason = self._report(fault, translation).facts
        facts = {**self.facts, **reason, "duration_ms": self._duration_ms()}
        if fault.code == FaultKind.OUT_OF_FILES:
            self._emit(Entry("gateway.out_of_files", "error", facts))
        elif fault.code == FaultKind.OUT_OF_THREADS:
            self._emit(Entry("gateway.out_of_threads", "error", facts))
        else:
            self._emit(Entry("upstream.failed", "warning", facts))

    def _duration_ms(self) -> float:
        return round(self._trace.elapsed_ms(), 1)

    def _report(self, fault: ProviderFault, translation: Translation) -> FaultReport:
        if fault not in self._reports:
            texts = self._read_texts(translation)
            provider = self._attempts.chosen.target.provider
            self._reports[fault] = report_fault(fault, self._redactor, texts, provider)
        return self._reports[fault]

    def _read_texts(self, translation: Translation) -> RequestTexts:
        """Read the texts that a provider's words may quote."""
        body = self._attempts.sent_body or msgspec.json.encode(self._prepared.request.raw)
        return read_texts(body, msgspec.json.encode(translation.machine.snapshot.output))

    def _find_failure(
        self, fault: ProviderFault | None, translation: Translation
    ) -> FaultReport | None:
        """Return why the response failed: a fault, or what the gateway found wrong with it."""
        if fault is not None:
            report = self._report(fault, translation)
            return msgspec.structs.replace(report, message=self.describe(fault))
        response = self._trace.outcome.response
        refusal = self._refusal
        if response is None and refusal is not None:
            message = clean_own_text(refusal.message, self._redactor)
            return FaultReport(code=refusal.wire_code or refusal.kind, message=message)
        if response is None or response.error is None:
            return None
        message = clean_own_text(response.error.message, self._redactor)
        return FaultReport(
            code=self._trace.outcome.failure_code or response.error.code, message=message
        )

    def finish_reason(self, translation: Translation) -> str | None:
        """Return why the model stopped. An unknown reason may quote the request or the response, so
        that it is cleaned like every word of a provider."""
        finish = translation.machine.pending_finish
        reason = None if finish is None else finish.reason
        if not reason or reason in FINISH_REASONS:
            return reason
        return clean_text(reason, self._redactor, self._read_texts(translation))

    def _estimate_usage(self, translation: Translation) -> ResponseUsage | None:
        """Estimate what a response without token counts has used: the provider bills a stream that
        broke, or that its client has left. None if there was no output."""
        response = self._trace.outcome.response
        usage = None if response is None else response.usage
        if usage is not None and usage.total_tokens:
            return None
        snapshot = translation.machine.snapshot
        if not snapshot.output:
            return None
        sent_bytes = len(self._attempts.sent_body)
        return estimate_unfinished(sent_bytes, snapshot.output, snapshot.usage)


# The stored turn

_GATEWAY = "antiphon"
"""The issuer of capsules that hold the state of a call: its own capsules name their provider."""


class SaveTurn(Protocol):
    """Stores the turn of one run."""

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        """Store a turn together with its last events; return these events as they may be sent.
        Raises `StoreError`."""


class SaveInStore:
    """Saves a turn in the store, and in its conversation."""

    __slots__ = ("_conversation_id", "_store")

    def __init__(self, store: Store, conversation_id: str | None) -> None:
        self._store = store
        self._conversation_id = conversation_id

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        await self._store.save(turn, conversation_id=self._conversation_id)
        return events


class AddToConversation:
    """Adds a turn that is not stored itself to its conversation."""

    def __init__(self, store: Store, conversation_id: str) -> None:
        self._conversations = store.conversations
        self._conversation_id = conversation_id

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        await self._conversations.add_turn(self._conversation_id, turn)
        return events


class TurnWriter:
    """Saves the turn of one run."""

    __slots__ = ("_prepared", "_save_turn", "_services", "taken_ms")

    def __init__(self, services: Services, prepared: Prepared, save: SaveTurn | None) -> None:
        """`save` stores the turn of a response that is to be stored; None: it is saved in the
        store."""
        self._services = services
        self._prepared = prepared
        self._save_turn = _choose_save(services.store, prepared.request, save)
        self.taken_ms: float | None = None
        """Time to save the turn; None: nothing was saved."""

    async def keep_call_states(self, response: Response) -> Diagnostic | None:
        """Keep the provider's state for a client that returns nothing but the ids of calls; return
        what has to be reported, if it is lost."""
        request = self._prepared.request
        services = self._services
        owner = self._prepared.caller.client
        return await keep_call_states(request, response, services.store, services.sealer, owner)

    async def save(
        self, response: Response, events: list[Event], facts: Mapping[str, Any]
    ) -> list[Event]:
        """Store the turn before its terminal event is sent; return the events to send. A good
        response stays good if the store fails."""
        clock = self._services.runtime.monotonic
        began = clock()
        try:
            turn = self._prepared.make_turn(response, facts["provider"])
            events = await self._save_turn(turn, events)
        except AntiphonError as error:
            failure = Entry("store.save_failed", "error", {**facts, "reason": error.message})
            self._services.emit(failure)
            events = [*events[:-1], _not_stored(events[-1])]
        self.taken_ms = (clock() - began) * 1000
        return events


def _choose_save(store: Store, request: Request, save: SaveTurn | None) -> SaveTurn:
    if not request.store and request.conversation is not None:
        return AddToConversation(store, request.conversation)
    return save or SaveInStore(store, request.conversation)


def _not_stored(ending: Event) -> Event:
    """Return the terminal event with `store: false`: nothing can continue from it."""
    assert isinstance(ending, Completed | Incomplete | Failed)
    response = msgspec.structs.replace(ending.response, store=False)
    return msgspec.structs.replace(ending, response=response)


# State of calls


async def keep_call_states(
    request: Request, response: Response, store: Store, sealer: Sealer, client: str
) -> Diagnostic | None:
    """Keep the state of the calls in a response; return what has to be reported, if it is lost."""
    if request.state_carrier == "items":
        return None
    states = collect_states(response.output)
    if request.state_carrier == "call_ids":
        lost = [call for call, state in states.items() if not state.fits_in_id()]
        return _report_lost(len(lost), "it is too long for the id of a call") if lost else None
    seal = partial(_seal, sealer, client)
    sealed = {call: seal(state) for call, state in states.items()}
    kept = {call: text for call, text in sealed.items() if len(text) <= MAX_STATE_BYTES}
    if not kept:
        return _report_lost(len(sealed), "it is too large") if sealed else None
    return await _save(kept, len(sealed), store, client)


async def _save(
    kept: Mapping[str, str], count: int, store: Store, client: str
) -> Diagnostic | None:
    try:
        await store.call_states.save(kept, client=client)
    except StoreError:
        return _report_lost(count, "the store cannot be written")
    lost = count - len(kept)
    return _report_lost(lost, "it is too large") if lost else None


def _seal(sealer: Sealer, client: str, state: CallState) -> str:
    return sealer.seal(client, _GATEWAY, "", pack(state), "")


def _report_lost(count: int, reason: str) -> Diagnostic:
    calls = "1 call" if count == 1 else f"{count} calls"
    message = (
        f"The provider's state of {calls} is not kept for the next request: {reason}. The model"
        " continues without its earlier reasoning."
    )
    return ignored(Code.CALL_STATE_LOST, "messages", message, "call_state")


# Events

_NO_STAGES = Pipeline(())  # before a run is entered


class RunOutput:
    """Passes the events of one run through the stages to its reader. `open` makes the stages."""

    __slots__ = (
        "_attempts",
        "_found",
        "_prepared",
        "_services",
        "_trace",
        "_turn",
        "diagnostics",
        "event_count",
        "fault",
        "log",
        "pipeline",
        "unread",
    )

    def __init__(
        self,
        services: Services,
        prepared: Prepared,
        trace: RunTrace,
        attempts: Attempts,
        save: SaveTurn | None,
    ) -> None:
        self._services = services
        self._prepared = prepared
        self._trace = trace
        self._attempts = attempts
        self.log = RunLog(services, prepared, trace, attempts)
        self._turn = TurnWriter(services, prepared, save)
        self.pipeline = _NO_STAGES
        self.event_count = 0
        """Events for the reader so far."""
        self.fault: ProviderFault | None = None
        """Why the response failed, or why the last attempt did."""
        self.diagnostics = prepared.first_plan.diagnostics
        """Diagnostics of the current plan, then those of the response itself."""
        self._found: list[Diagnostic] = []
        """Those of the response itself."""
        self.unread: list[Event] = []
        """Events that the reader has not asked for yet."""

    def open(self) -> None:
        """Make the stages: those of other packages may raise."""
        services = self._services
        prepared = self._prepared
        options = prepared.request.stream_options or {}
        self.pipeline = build_pipeline(
            prepared.first_plan,
            prepared.caller.profile,
            self._trace.outcome,
            services.emit,
            self.log.describe,
            self._trace.elapsed_ms,
            self.log.cost_usd,
            store=prepared.request.store or prepared.request.conversation is not None,
            stages=[make() for make in services.stages],
            padding=services.runtime.new_nonce if options.get("include_obfuscation") else None,
        )
        if self._trace.payloads is not None:
            document = without_credentials(prepared.request.raw)
            self._trace.payloads.request.feed(msgspec.json.encode(document))

    # Facts

    def use_plan(self, plan: Plan) -> None:
        """Report what this plan says: the target's, without what was left out of the request."""
        self.diagnostics = (*plan.diagnostics, *self._found)

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self._found.append(diagnostic)
        self.diagnostics = (*self.diagnostics, diagnostic)

    def begin_attempt(self, plan: Plan) -> None:
        """Drop what an attempt has brought; the next one has this plan."""
        self.fault = None
        self.unread.clear()
        self.use_plan(plan)

    def opening_failed(self, fault: ProviderFault) -> UpstreamError:
        """Close an attempt that failed before its first output; return the error to raise."""
        self._attempts.close_current()
        self.fault = fault
        return UpstreamError(fault, self.log.describe(fault), self._attempts.plan.provider)

    def opening_broken(self, error: Exception, translation: Translation) -> UpstreamError:
        """Close an attempt that a bug has ended before its first output, as `opening_failed`."""
        return self.opening_failed(self.log.report_bug(error, translation))

    # Events

    def take_unread(self) -> list[Event]:
        unread, self.unread = self.unread, []
        return unread

    def end_as_failed(self, fault: ProviderFault | str, translation: Translation) -> list[Event]:
        """End the response as failed: return the events not yet read, and `response.failed`, also
        where its terminal event was lost. A text is a message about the request."""
        events = self.take_unread() + translation.fail(fault)
        if terminal(events) is None and not isinstance(fault, str):
            message = self.log.describe(fault)
            snapshot = translation.machine.snapshot
            events.append(failed(snapshot, code=fault.public_code, message=message))
        return events

    def count_events(self, events: list[Event]) -> None:
        """Count events that no stage has to see."""
        self.event_count += len(events)

    def feed(self, events: list[Event], translation: Translation) -> list[Event]:
        """Pass events through the stages, none of them the terminal one: nothing is saved."""
        batch = self.pipeline.feed(self._batch(events, translation))
        self._keep_diagnostics(batch)
        return batch.events

    async def pass_on_or_fail(self, events: list[Event], translation: Translation) -> list[Event]:
        """Pass events on. A bug on their way fails the response: a reader always gets an end."""
        try:
            return await self.pass_on(events, translation)
        except Exception as error:
            fault = self.log.report_bug(error, translation)
            return self._break_off(events, fault, translation)

    async def pass_on(self, events: list[Event], translation: Translation) -> list[Event]:
        """Pass events through the stages; save the turn, then the state of its calls, before they
        leave."""
        pipeline = self.pipeline
        batch = pipeline.feed(self._batch(events, translation))
        self._keep_diagnostics(batch)
        events = batch.events
        if pipeline.fault is not None and not translation.machine.has_ended:
            batch = pipeline.feed(self._batch(translation.fail(pipeline.fault), translation))
            self._keep_diagnostics(batch)
            events = [*events, *batch.events]
        self.fault = translation.machine.fault or pipeline.fault
        if batch.to_save is not None:
            try:
                events = await self._turn.save(batch.to_save, events, batch.facts)
            except Exception as error:  # a bug: as if the store had failed
                self.log.report_bug(error, translation)
                events = [*events[:-1], _not_stored(events[-1])]
        ending = events[-1] if events else None
        if isinstance(ending, (Completed, Incomplete)):
            await self._keep_call_states(ending.response, translation)
        return events

    async def _keep_call_states(self, response: Response, translation: Translation) -> None:
        """Keep the state of calls, after the turn: cancelled, it must not cost the turn."""
        try:
            lost = await self._turn.keep_call_states(response)
        except Exception as error:  # a bug costs the state, and not the response
            self.log.report_bug(error, translation)
            return
        if lost is not None:
            self.add_diagnostic(lost)

    def _keep_diagnostics(self, batch: Batch) -> None:
        """Keep what stages have added: it is about the response itself."""
        known = self.diagnostics
        if batch.diagnostics is not known:
            self._found += [each for each in batch.diagnostics if each not in known]
            self.diagnostics = batch.diagnostics

    def _break_off(
        self, events: list[Event], fault: ProviderFault, translation: Translation
    ) -> list[Event]:
        """End the response where a bug keeps its events from passing the stages: return those that
        begin it, and a `response.failed` without output, which no stage has seen. It is not
        stored."""
        translation.fail(fault)
        self.fault = fault
        message = self.log.describe(fault)
        ending = failed(translation.machine.snapshot, code=fault.public_code, message=message)
        return without_output(Batch([*events, _not_stored(ending)])).events

    def _batch(self, events: list[Event], translation: Translation) -> Batch:
        self.event_count += len(events)
        machine = translation.machine
        for diagnostic in machine.diagnostics:
            self.add_diagnostic(diagnostic)
        machine.diagnostics.clear()
        return Batch(
            events,
            machine.fault or self.fault,
            translation.path.refused,
            self.diagnostics,
            self.log.facts,
            self._attempts.latency_ms,
            self.event_count,
            finish_reason=self.log.finish_reason(translation),
        )

    def close(self, translation: Translation) -> None:
        """Write the log and the trace of a response that is over, or that its client has left."""
        try:
            self.pipeline.close(self._batch([], translation))
        finally:
            self.log.end(
                self.fault,
                translation,
                diagnostics=self.diagnostics,
                save_ms=self._turn.taken_ms,
            )
