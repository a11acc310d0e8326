"""Answer: the response of a run as it is assembled: bridge, stages and stored turn.

The bridge is made for the first attempt and again for each retry. In a later round the same bridge
goes on, in the dialect of whichever provider is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import ProviderFault, internal_fault, protocol_fault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.filters.order import make_filters
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.blocks import Seal
from antiphon.core.stream.machine import ResponseMachine
from antiphon.engine.fault_report import FaultReport, clean_text, is_bug, report_fault
from antiphon.engine.routing import Target
from antiphon.engine.services import PreparedRequest, Services
from antiphon.engine.tracing import AttemptRecord, FailureRecord, RunTrace
from antiphon.errors import AntiphonError
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.log import Entry
from antiphon.pipeline.pipeline import build_pipeline
from antiphon.pipeline.stage import Batch, failed, terminal
from antiphon.store.quoted_text import RequestTexts, read_texts
from antiphon.store.store import Turn
from antiphon.wire.events import (
    TERMINAL_EVENTS,
    Completed,
    Created,
    Event,
    Failed,
    Incomplete,
    InProgress,
)
from antiphon.wire.items import Item, Message, OutputText
from antiphon.wire.response import Response
from antiphon.wire.response_from_request import report_settings


class Answer:
    def __init__(
        self, services: Services, prepared: PreparedRequest, trace: RunTrace, target: Target
    ) -> None:
        self._services = services
        self._prepared = prepared
        self._trace = trace
        self._target = target
        self.facts = trace.facts
        self.early: list[Event] = []
        """Events that nobody has read yet."""
        self.fault: ProviderFault | None = None
        self.diagnostics: tuple[Diagnostic, ...] = ()
        """Diagnostics of the current plan, then those of the answer itself."""
        self._found: list[Diagnostic] = []
        self.upstream_latency_ms: float | None = None
        self.sent = b""
        """The body of the last request to a provider."""
        self._reports: dict[ProviderFault, FaultReport] = {}
        self._logged_bugs: set[ProviderFault] = set()
        self._failure: FailureRecord | None = None
        self._event_count = 0
        self._is_announced = False
        self._bridge: Bridge | None = None
        self._announced_settings = prepared.plans[prepared.targets[0].name].used
        self._pipeline = build_pipeline(
            prepared.plans[prepared.targets[0].name],
            prepared.caller.profile,
            trace.transformed,
            services.emit,
            describe=self._describer(),
            elapsed_ms=trace.elapsed_ms,
            store=prepared.request.store,
            stages=[make() for make in services.stages],
        )
        if trace.keeps_payloads:
            trace.request.feed(msgspec.json.encode(prepared.request.raw))
        self.use_target(target)

    def use_target(self, target: Target) -> None:
        """Read the answer of this target from now on; drop what an attempt before it brought."""
        self._target = target
        self.plan = plan = self._prepared.plans[target.name]
        self.fault = None
        self.early.clear()
        self.facts = {**self.facts, "provider": plan.provider, "provider_model": plan.model}
        self.use_sent_plan(plan)
        if self._bridge is None or not self._bridge.rounds:
            self._bridge = None
        else:
            guards, dialect = target.capabilities.guards, target.provider.dialect
            self._bridge.use_dialect(dialect, guards, self._seal(target), self._describer())

    def use_sent_plan(self, plan: Plan) -> None:
        """Report what this plan says: the target's, without what was left out of the request."""
        self._used = plan.used
        self.diagnostics = (*plan.diagnostics, *self._found)

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        self._found.append(diagnostic)
        self.diagnostics = (*self.diagnostics, diagnostic)

    def describe(self, fault: ProviderFault) -> str:
        """Describe a fault to the client, in its language."""
        return self._describer()(fault)

    def _describer(self) -> Callable[[ProviderFault], str]:
        """Return what describes faults of the current provider; it does not refer to the answer."""
        provider, locale = self._target.provider, self._prepared.caller.locale
        return partial(provider.dialect.describe, locale=locale, provider=provider.name)

    # Bridge

    @property
    def bridge(self) -> Bridge:
        if self._bridge is None:
            self._bridge = self._make_bridge()
            if self._is_announced:  # the client has the first events already
                self._bridge.start()
        return self._bridge

    def _make_bridge(self) -> Bridge:
        services, plan, target = self._services, self.plan, self._target
        response, runtime = self._initial_response(), services.runtime
        machine = ResponseMachine(
            response,
            new_id=runtime.new_id,
            now=runtime.now,
            tools=plan.identities,
            seal=self._seal(target),
            describe=self._describer(),
            empty_arguments="{}",
            limits=services.limits,
        )
        profile, reminders = self._prepared.caller.profile, services.attempts.reminders
        filters = make_filters(plan, profile, runtime.new_id, reminders=reminders)
        dialect, guards = target.provider.dialect, target.capabilities.guards
        return Bridge(machine, dialect, filters, guards=guards, limits=services.limits)

    def _initial_response(self) -> Response:
        """The response before any output, with the settings that this attempt uses."""
        prepared = self._prepared
        if self._used == self._announced_settings:
            return prepared.response  # that is where these are from
        settings = report_settings(prepared.request, self._used)
        return msgspec.structs.replace(prepared.response, **settings)

    def _seal(self, target: Target) -> Seal:
        owner = self._prepared.caller.client
        return partial(self._services.sealer.seal, owner, target.provider.issuer, target.model)

    def read_whole(self, body: bytes) -> list[Event]:
        """Read a whole body. Some servers stream although a whole answer was requested."""
        body, bridge = self._trace.raw.feed(body), self.bridge
        if body.lstrip().startswith(b"{"):
            return bridge.feed_whole(body)
        return bridge.feed(body) + bridge.close()

    @property
    def has_output(self) -> bool:
        """Whether the provider has sent enough to commit to this attempt."""
        bridge = self.bridge
        if (
            bridge.is_holding_back
            or bridge.finishing
            or bridge.ended
            or bridge.round_fault is not None
        ):
            return True
        return any(not isinstance(event, Created | InProgress | Failed) for event in self.early)

    def fault_without_output(self, events: list[Event]) -> ProviderFault | None:
        """Return why a round failed, if it failed without output that a client could use."""
        bridge = self.bridge
        if bridge.rounds:  # what earlier rounds brought stays
            return bridge.round_fault
        ending = terminal(events)
        if not isinstance(ending, Failed) or not all(map(_is_blank, ending.response.output)):
            return None
        message = f"{self.plan.provider} closed the stream without any output."
        return bridge.fault or protocol_fault(message)

    # Events to the reader

    def take_early(self) -> list[Event]:
        self._collect_diagnostics()  # they are in the headers of the answer
        early, self.early = self.early, []
        return early

    def start(self) -> list[Event]:
        """Begin the answer before the provider has sent output."""
        self.early += self.bridge.start()
        self._is_announced = True
        return self._pipeline.feed(self._batch(self.take_early())).events

    async def release(self, events: list[Event]) -> list[Event]:
        """Pass events through the stages; save what is to be saved before they leave."""
        bridge, pipeline = self.bridge, self._pipeline
        if not pipeline.feeding and not isinstance(events[-1], TERMINAL_EVENTS):
            self._event_count += len(events)
            return events
        batch = pipeline.feed(self._batch(events))
        events = batch.events
        if pipeline.fault is not None and not bridge.ended:
            batch = pipeline.feed(self._batch(bridge.fail(pipeline.fault)))
            events = [*events, *batch.events]
        self.fault = bridge.fault or pipeline.fault
        self.diagnostics = batch.diagnostics
        if batch.to_save is not None and not await self._save(batch.to_save):
            events = [*events[:-1], _not_stored(events[-1])]
        return events

    async def end_after_crash(self, error: Exception) -> list[Event]:
        """End the answer after an unexpected error, also where its terminal event was lost."""
        fault = self.report_bug(error)
        events = self.bridge.fail(fault)
        if terminal(events) is None:
            message = self.describe(fault)
            events = [failed(self.bridge.snapshot, code=fault.public_code, message=message)]
        return await self.release(events)

    def _batch(self, events: list[Event]) -> Batch:
        bridge = self._bridge
        self._event_count += len(events)
        self._collect_diagnostics()
        return Batch(
            events,
            fault=self.fault if bridge is None else bridge.fault or self.fault,
            refused=bridge is not None and bridge.refused,
            diagnostics=self.diagnostics,
            facts=self.facts,
            upstream_latency_ms=self.upstream_latency_ms,
            event_count=self._event_count,
        )

    def _collect_diagnostics(self) -> None:
        if self._bridge is not None and self._bridge.diagnostics:
            for diagnostic in self._bridge.diagnostics:
                self.add_diagnostic(diagnostic)
            self._bridge.diagnostics.clear()

    async def _save(self, response: Response) -> bool:
        """Store the turn; False if the store failed. A good answer stays good without it."""
        request, facts = self._prepared.request, self.facts
        document: dict[str, Any] = msgspec.to_builtins(response)
        turn = Turn(
            id=response.id,
            previous_response_id=request.previous_response_id,
            created_at=response.created_at,
            status=response.status,
            model=response.model,
            provider=facts["provider"],
            client=facts["client"],
            input=request.input,
            output=tuple(document["output"]),
            response=document,
        )
        try:
            await self._services.store.save(turn)
        except AntiphonError as error:
            entry = Entry("store.save_failed", "error", {**facts, "reason": error.message})
            self._services.emit(entry)
            return False
        return True

    # Failures, for the operator

    def record_failed_attempt(
        self, record: AttemptRecord, fault: ProviderFault, status: int | None, ms: float
    ) -> None:
        report = self._report(fault)
        self._trace.attempt(record, fault, report.reason, status, ms)
        if not is_bug(fault):
            facts = {"attempt": record.number, "key": record.key_name, **report.facts}
            self._services.emit(Entry("attempt.failed", "warning", {**self.facts, **facts}))

    def report_bug(self, error: Exception) -> ProviderFault:
        """Log an unexpected exception in the gateway's own code; return it as a fault."""
        fault = internal_fault(error)
        self._log_bug(fault)
        return fault

    def _log_bug(self, fault: ProviderFault) -> None:
        if fault not in self._logged_bugs:  # else it was logged when it was raised
            self._logged_bugs.add(fault)
            facts = {**self.facts, **self._report(fault).facts}
            self._services.emit(Entry("gateway.bug", "error", facts))

    def _report(self, fault: ProviderFault) -> FaultReport:
        """Report a fault without what it quotes of the request or the answer."""
        if fault not in self._reports:
            redactor, provider = self._services.redactor, self._target.provider
            report = report_fault(fault, redactor, self._read_texts(), provider)
            self._reports[fault] = report
        return self._reports[fault]

    def _read_texts(self) -> RequestTexts:
        output = () if self._bridge is None else self._bridge.snapshot.output
        bodies = self.sent or msgspec.json.encode(self._prepared.request.raw)
        return read_texts(bodies, msgspec.json.encode(output))

    def close(self) -> None:
        """Write the log of an answer that is over, or that nobody waits for."""
        self._pipeline.close(self._batch([]))
        fault = self.fault
        if fault is not None and is_bug(fault):
            self._log_bug(fault)
        elif fault is not None:
            self._log_fault(fault)
        self._failure = self._find_failure()
        if fault is None and self._failure is not None:
            facts = {**self.facts, "code": self._failure.code, "reason": self._failure.message}
            self._services.emit(Entry("response.failed", "warning", facts))

    def _log_fault(self, fault: ProviderFault) -> None:
        facts = {**self.facts, **self._report(fault).facts}
        if fault.code == FaultKind.OUT_OF_FILES:
            self._services.emit(Entry("gateway.out_of_files", "error", facts))
        else:
            self._services.emit(Entry("upstream.failed", "warning", facts))

    def _find_failure(self) -> FailureRecord | None:
        """Return why the answer failed: a fault, or what the gateway found wrong with it."""
        if self.fault is not None:
            report = self._report(self.fault)
            return FailureRecord(report.code, self.describe(self.fault), report.reason)
        response = self._trace.transformed.response
        if response is None or response.error is None:
            return None
        message = clean_text(response.error.message, self._services.redactor, self._read_texts())
        return FailureRecord(response.error.code, message)

    def finish_trace(self) -> None:
        """Write the end of the trace row, after `close`."""
        failure, fault = self._failure, self.fault
        if failure is None and fault is not None:  # `close` was interrupted
            failure = FailureRecord(fault.code, fault.type)
        self._trace.finish(failure, self.upstream_latency_ms, self.diagnostics)


def _not_stored(ending: Event) -> Event:
    """Return the terminal event with `store: false`: nothing can continue from it."""
    assert isinstance(ending, Completed | Incomplete | Failed)
    response = msgspec.structs.replace(ending.response, store=False)
    return msgspec.structs.replace(ending, response=response)


def _is_blank(item: Item) -> bool:
    """Whether an item is the empty message that a whole answer without text has."""
    return isinstance(item, Message) and item.content in ((), (OutputText(),))
