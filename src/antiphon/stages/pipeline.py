"""Pipeline: the stages of one response, in order.

A stage sees every batch: first `feed`, if it overrides that, then `on_terminal` for the last one. A
stage that raises, or that drops the terminal event, is removed, and the response fails. If it
overrides `feed`, it may be there to change the output: what it has not passed is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.events import TERMINAL_TYPES, Created, Event, InProgress, Queued
from antiphon.core.faults.fault import ProviderFault, internal_fault
from antiphon.core.faults.messages import describe
from antiphon.core.plan.plan import Plan
from antiphon.core.response import ResponseUsage
from antiphon.stages.builtin import (
    ContractStage,
    DiagnosticsStage,
    LogStage,
    PersistStage,
    ProfileStage,
)
from antiphon.stages.log import Entry
from antiphon.stages.obfuscation import ObfuscationStage
from antiphon.stages.stage import Batch, Stage, failed, terminal, with_terminal
from antiphon.stages.trace import TraceStage

_START_EVENTS = (Created, Queued, InProgress)


class Pipeline:
    def __init__(
        self, stages: Sequence[Stage], describe: Callable[[ProviderFault], str] = describe
    ) -> None:
        self._describe = describe
        self._stages = list(stages)
        self.feeding = [stage for stage in stages if type(stage).feed is not Stage.feed]
        """Stages that override `feed`."""
        self.is_staged = bool(self.feeding)
        """Whether stages see every batch, and not only the one with the terminal event."""
        self.fault: ProviderFault | None = None
        """Why a stage raised, once one has."""
        self._withholds = False

    def feed(self, batch: Batch) -> Batch:
        if batch.events and type(batch.events[-1]) in TERMINAL_TYPES:
            return self._end(batch)
        for stage in tuple(self.feeding):
            try:
                batch = stage.feed(batch)
            except Exception as error:  # the run ends the response with it
                self._remove(stage, error)
                batch = _without_output(batch)
        return batch

    def _end(self, batch: Batch) -> Batch:
        if self._withholds:
            batch = _without_output(batch)
        for stage in tuple(self._stages):
            try:
                passed = stage.feed(batch) if stage in self.feeding else batch
                passed = stage.on_terminal(passed)
                if not passed.events or type(passed.events[-1]) not in TERMINAL_TYPES:
                    raise TypeError(f"{type(stage).__name__} dropped the terminal event")
                batch = passed
            except Exception as error:
                fault = self._remove(stage, error)
                if self._withholds:
                    batch = _without_output(batch)
                batch = self._fail(batch, fault)
        return batch

    def _remove(self, stage: Stage, error: Exception) -> ProviderFault:
        self._stages.remove(stage)
        if stage in self.feeding:
            self.feeding.remove(stage)
            self._withholds = True
        self.fault = internal_fault(error)
        return self.fault

    def _fail(self, batch: Batch, fault: ProviderFault) -> Batch:
        """Return the batch with a failed response."""
        ending = terminal(batch.events)
        assert ending is not None
        event = failed(ending.response, code=fault.public_code, message=self._describe(fault))
        to_save = None if batch.to_save is None else event.response
        return msgspec.structs.replace(with_terminal(batch, event), fault=fault, to_save=to_save)

    def close(self, batch: Batch) -> None:
        """Let every stage report; the response is over or the client has disconnected."""
        for stage in self._stages:
            stage.close(batch)


def _without_output(batch: Batch) -> Batch:
    """Return a batch with the events that start and end a response, without any output."""
    events: list[Event] = [event for event in batch.events if isinstance(event, _START_EVENTS)]
    if (ending := terminal(batch.events)) is not None:
        response = msgspec.structs.replace(ending.response, output=(), output_text="")
        events.append(msgspec.structs.replace(ending, response=response))
    return msgspec.structs.replace(batch, events=events)


def build_pipeline(
    plan: Plan,
    profile: Profile,
    trace: TraceStage,
    emit: Callable[[Entry], None],
    describe: Callable[[ProviderFault], str],
    elapsed_ms: Callable[[], float],
    cost_usd: Callable[[ResponseUsage | None], float | None],
    *,
    store: bool,
    stages: Sequence[Stage] = (),
    padding: Callable[[int], bytes] | None = None,
) -> Pipeline:
    """Build the stages that this response passes, in the order of docs/stages.

    `stages` are those of other packages: they come before what traces, logs and saves. `padding`:
    the source of random bytes, for a client that requests obfuscation."""
    log = LogStage(emit, elapsed_ms, cost_usd)
    made = [*answer_stages(plan, profile), *stages, trace, log]
    if store:
        made.append(PersistStage())
    made.append(DiagnosticsStage(emit))
    if padding is not None:
        made.append(ObfuscationStage(padding))
    return Pipeline(made, describe)


def answer_stages(plan: Plan, profile: Profile) -> list[Stage]:
    """Build the stages that may change what the client receives."""
    stages: list[Stage] = []
    if plan.contract.requested != "text" and plan.summary_task is None:
        stages.append(ContractStage(plan.contract, provider=plan.provider))
    if profile.permanent_errors != "exact":
        stages.append(ProfileStage(profile))
    return stages
