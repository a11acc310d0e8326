"""Answer: the response of a run as it is assembled: translation, stages and stored turn.

The translation is made for the first attempt and again for each retry. In a later round the same
one goes on, in the dialect of whichever provider is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Completed, Created, Event, Failed, Incomplete, InProgress
from antiphon.core.faults.fault import FaultType, ProviderFault, internal_fault, protocol_fault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.faults.messages import negotiate_locale
from antiphon.core.items import Item, Message, OutputText
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response, ResponseUsage
from antiphon.core.stream.finish import FINISH_REASONS
from antiphon.core.stream.source import Source
from antiphon.core.stream.usage import estimate_unfinished
from antiphon.core.translation.translation import READING, Round, Translation, make_translation
from antiphon.dialects.dialect import Dialect
from antiphon.dialects.responses.create_response import report_settings
from antiphon.engine.accounting import DOLLAR, compute_cost
from antiphon.engine.fault_report import FaultReport, clean_text, is_bug, report_fault
from antiphon.engine.report import AttemptReport
from antiphon.engine.routing import Target
from antiphon.engine.services import Caller, Prepared, Services
from antiphon.engine.tracing import RunTrace
from antiphon.engine.turns import SaveTurn, keep_call_states
from antiphon.errors import AntiphonError
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Pipeline, build_pipeline
from antiphon.stages.stage import Batch, failed, terminal
from antiphon.store.quoted_text import RequestTexts, read_texts


class Answer:
    _estimated_usage: ResponseUsage | None = None
    _is_announced = False

    def __init__(
        self,
        services: Services,
        prepared: Prepared,
        trace: RunTrace,
        target: Target,
        save: SaveTurn,
    ) -> None:
        self._save_turn = save
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
        self._failure: FaultReport | None = None
        self.event_count = 0
        """Events for the reader so far."""
        self._translation: Translation | None = None
        self._announced_settings = prepared.first_plan.used
        self._pipeline = self._make_pipeline()
        self.is_staged = bool(self._pipeline.feeding)
        """Whether stages see every batch, and not only the one with the terminal event."""
        if trace.keeps_payloads:
            trace.request.feed(msgspec.json.encode(prepared.request.raw))
        self.use_target(target, prepared.planner.plan(target))

    def _make_pipeline(self) -> Pipeline:
        services, prepared, trace = self._services, self._prepared, self._trace
        options = prepared.request.stream_options or {}
        return build_pipeline(
            prepared.first_plan,
            prepared.caller.profile,
            trace.transformed,
            services.emit,
            describe=self._describer(),
            elapsed_ms=trace.elapsed_ms,
            cost_usd=self._cost_usd,
            store=prepared.request.store or prepared.request.conversation is not None,
            stages=[make() for make in services.stages],
            padding=services.runtime.new_nonce if options.get("include_obfuscation") else None,
        )

    def _cost_usd(self, usage: ResponseUsage | None) -> float | None:
        """Return the cost at the current target; None if its price is unknown."""
        cost = compute_cost(self._target.price, usage)
        return None if cost is None else cost / DOLLAR

    def use_target(self, target: Target, plan: Plan) -> None:
        """Read the answer of this target from now on; drop what an attempt before it brought."""
        self._target = target
        self.plan = plan
        self.fault = None
        self.early.clear()
        self.facts = {**self.facts, "provider": plan.provider, "provider_model": plan.model}
        self.use_sent_plan(plan)
        if self._translation is None or not self._translation.rounds:
            self._translation = None
        else:
            self._translation.read_from(self._source())

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
        provider = self._target.provider
        locale = choose_locale(self._prepared.caller, provider.dialect)
        return partial(provider.dialect.describe, locale=locale, provider=provider.name)

    # Translation

    @property
    def translation(self) -> Translation:
        if self._translation is None:
            self._translation = self._make_translation()
            if self._is_announced:  # the client has the first events already
                self._translation.start()
        return self._translation

    def _make_translation(self) -> Translation:
        services = self._services
        return make_translation(
            self.plan,
            self._source(),
            self._initial_response(),
            new_id=services.runtime.new_id,
            now=services.runtime.now,
            profile=self._prepared.caller.profile,
            limits=services.limits,
            reminders=services.attempts.reminders,
        )

    def _initial_response(self) -> Response:
        """The response before any output, with the settings that this attempt uses."""
        prepared = self._prepared
        if self._used == self._announced_settings:
            return prepared.response  # that is where these are from
        settings = report_settings(prepared.request, self._used)
        return msgspec.structs.replace(prepared.response, **settings)

    def _source(self) -> Source:
        """How to read what the current target sends."""
        target = self._target
        owner = self._prepared.caller.client
        return Source(
            target.provider.dialect,
            target.capabilities.guards,
            partial(self._services.sealer.seal, owner, target.provider.issuer, target.model),
            self._describer(),
        )

    def read_whole(self, body: bytes) -> list[Event]:
        """Read a whole body. Some servers stream although a whole answer was requested."""
        body, translation = self._trace.raw.feed(body), self.translation
        if body.lstrip().startswith((b"{", b"[")):
            return translation.feed_whole(body)
        return translation.feed(body) + translation.close()

    def lose(self, fault: ProviderFault) -> list[Event]:
        """End a round whose connection broke. After the finish reason nothing is missing but the
        token counts, perhaps: that is worth an entry for who looks for them."""
        translation = self.translation
        if translation.finishing and not translation.ended:
            facts = {**self.facts, **self._report(fault).facts}
            self._services.emit(Entry("upstream.lost_after_finish", "debug", facts))
        return translation.connection_lost(fault)

    @property
    def has_output(self) -> bool:
        """Whether the provider has sent enough to commit to this attempt."""
        translation = self.translation
        if translation.is_holding_back or translation.next is not READING:
            return True
        if translation.finishing and not translation.is_blocked:
            return True
        return any(not isinstance(event, Created | InProgress | Failed) for event in self.early)

    def fault_without_output(self, events: list[Event]) -> ProviderFault | None:
        """Return why a round failed, if it failed without output that a client could use."""
        translation = self.translation
        if translation.rounds:  # what earlier rounds brought stays
            return translation.next.fault if isinstance(translation.next, Round) else None
        ending = terminal(events)
        if not isinstance(ending, Failed) or not all(map(_is_blank, ending.response.output)):
            return None
        message = f"{self.plan.provider} closed the stream without any output."
        return translation.fault or protocol_fault(message)

    def fault_of_whole_round(self, events: list[Event]) -> ProviderFault | None:
        """Return why a whole response failed, if it failed without output that a client could use:
        the same rule as for a streamed one (ADR 0083)."""
        fault = self.fault_without_output(events)
        if fault is not None and fault.type is FaultType.unknown:  # a 200 with nothing we know
            return protocol_fault(fault.message)
        return fault

    # Events to the reader

    def take_early(self) -> list[Event]:
        self._collect_diagnostics()  # they are in the headers of the answer
        early, self.early = self.early, []
        return early

    def start(self) -> list[Event]:
        """Begin the answer before the provider has sent output."""
        self.early += self.translation.start()
        self._is_announced = True
        return self._pipeline.feed(self._batch(self.take_early())).events

    async def release(self, events: list[Event]) -> list[Event]:
        """Pass events through the stages; save what is to be saved before they leave."""
        translation, pipeline = self.translation, self._pipeline
        batch = pipeline.feed(self._batch(events))
        events = batch.events
        if pipeline.fault is not None and not translation.ended:
            batch = pipeline.feed(self._batch(translation.fail(pipeline.fault)))
            events = [*events, *batch.events]
        self.fault = translation.fault or pipeline.fault
        self.diagnostics = batch.diagnostics
        ending = terminal(events)
        if isinstance(ending, Completed | Incomplete):
            await self._keep_call_states(ending.response)
        if batch.to_save is not None:
            clock = self._services.runtime.monotonic
            began = clock()
            events = await self._save(batch.to_save, events)
            self._trace.save_ms = (clock() - began) * 1000
        return events

    async def end_with(self, fault: ProviderFault) -> list[Event]:
        """End the answer as failed, also where its terminal event was lost."""
        events = self.take_early() + self.translation.fail(fault)
        if terminal(events) is None:
            message = self.describe(fault)
            events.append(
                failed(self.translation.snapshot, code=fault.public_code, message=message)
            )
        return await self.release(events)

    def _batch(self, events: list[Event]) -> Batch:
        translation = self._translation
        self.event_count += len(events)
        self._collect_diagnostics()
        return Batch(
            events,
            fault=self.fault if translation is None else translation.fault or self.fault,
            refused=translation is not None and translation.refused,
            diagnostics=self.diagnostics,
            facts=self.facts,
            upstream_latency_ms=self.upstream_latency_ms,
            event_count=self.event_count,
        )

    def _collect_diagnostics(self) -> None:
        if self._translation is not None and self._translation.diagnostics:
            for diagnostic in self._translation.diagnostics:
                self.add_diagnostic(diagnostic)
            self._translation.diagnostics.clear()

    async def _keep_call_states(self, response: Response) -> None:
        """Keep the provider's state for a client that returns nothing but the ids of calls."""
        request = self._prepared.request
        if request.state_carrier == "items":
            return
        services = self._services
        owner = self._prepared.caller.client
        lost = await keep_call_states(request, response, services.store, services.sealer, owner)
        if lost is not None:
            self.add_diagnostic(lost)

    async def _save(self, response: Response, events: list[Event]) -> list[Event]:
        """Store the turn before its terminal event is sent. A good answer stays good if the store
        fails."""
        turn = self._prepared.make_turn(response, self.facts["provider"])
        try:
            return await self._save_turn(turn, events)
        except AntiphonError as error:
            entry = Entry("store.save_failed", "error", {**self.facts, "reason": error.message})
            self._services.emit(entry)
            return [*events[:-1], _not_stored(events[-1])]

    def record_attempt(self, attempt: AttemptReport, fault: ProviderFault | None) -> None:
        """Record an attempt that failed, or whose output has begun."""
        if fault is None:
            self._trace.attempt(attempt)
            return
        report = self._report(fault)
        attempt = msgspec.structs.replace(
            attempt, fault_type=fault.type, fault_code=fault.code, reason=report.reason
        )
        self._trace.attempt(attempt)
        if not is_bug(fault):
            facts = {"attempt": attempt.number, "key": attempt.key_name, **report.facts}
            self._services.emit(Entry("attempt.failed", "warning", {**self.facts, **facts}))

    def report_bug(self, error: Exception) -> ProviderFault:
        """Log an unexpected exception in the gateway's own code; return it as a fault."""
        fault = internal_fault(error)
        if is_bug(fault):
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
        output = () if self._translation is None else self._translation.snapshot.output
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
            reason = {"code": self._failure.code, "reason": self._failure.message}
            facts = {**self.facts, **reason, "duration_ms": self._duration_ms()}
            self._services.emit(Entry("response.failed", "warning", facts))
        self._estimated_usage = self._estimate_usage()

    def _log_fault(self, fault: ProviderFault) -> None:
        reason = self._report(fault).facts
        facts = {**self.facts, **reason, "duration_ms": self._duration_ms()}
        if fault.code == FaultKind.OUT_OF_FILES:
            self._services.emit(Entry("gateway.out_of_files", "error", facts))
        elif fault.code == FaultKind.OUT_OF_THREADS:
            self._services.emit(Entry("gateway.out_of_threads", "error", facts))
        else:
            self._services.emit(Entry("upstream.failed", "warning", facts))

    def _duration_ms(self) -> float:
        return round(self._trace.elapsed_ms(), 1)

    def _find_failure(self) -> FaultReport | None:
        """Return why the answer failed: a fault, or what the gateway found wrong with it."""
        if self.fault is not None:
            report = self._report(self.fault)
            return msgspec.structs.replace(report, message=self.describe(self.fault))
        response = self._trace.transformed.response
        if response is None or response.error is None:
            return None
        message = clean_text(response.error.message, self._services.redactor, self._read_texts())
        return FaultReport(code=response.error.code, message=message)

    def finish_trace(self) -> None:
        """Write the end of the trace row, after `close`."""
        failure, fault = self._failure, self.fault
        if failure is None and fault is not None:  # `close` was interrupted
            failure = FaultReport(code=fault.code, message=fault.type)
        latency, usage = self.upstream_latency_ms, self._estimated_usage
        self._trace.finish_reason = self._finish_reason()
        self._trace.finish(failure, latency, self.diagnostics, usage)

    def _finish_reason(self) -> str | None:
        """Return why the model stopped. An unknown reason may quote the request or the response, so
        that it is cleaned like every word of a provider."""
        finish = None if self._translation is None else self._translation.machine.pending_finish
        reason = None if finish is None else finish.reason
        if not reason or reason in FINISH_REASONS:
            return reason
        return clean_text(reason, self._services.redactor, self._read_texts())

    def _estimate_usage(self) -> ResponseUsage | None:
        """Estimate what an answer without token counts has used: the provider bills a stream that
        broke, or that its client has left. None if there was no output."""
        response = self._trace.transformed.response
        usage = None if response is None else response.usage
        if self._translation is None or (usage is not None and usage.total_tokens):
            return None
        snapshot = self._translation.snapshot
        if not snapshot.output:
            return None
        return estimate_unfinished(len(self.sent), snapshot.output, snapshot.usage)


def _not_stored(ending: Event) -> Event:
    """Return the terminal event with `store: false`: nothing can continue from it."""
    assert isinstance(ending, Completed | Incomplete | Failed)
    response = msgspec.structs.replace(ending.response, store=False)
    return msgspec.structs.replace(ending, response=response)


def _is_blank(item: Item) -> bool:
    """Whether an item is the empty message that a whole answer without text has."""
    return isinstance(item, Message) and item.content in ((), (OutputText(),))


def choose_locale(caller: Caller, dialect: Dialect) -> str:
    """Choose the language of fault descriptions; a plug-in's dialect may have texts of its own."""
    others: frozenset[str] = getattr(dialect, "locales", frozenset())
    return negotiate_locale(caller.languages, caller.locale, others) if others else caller.locale
