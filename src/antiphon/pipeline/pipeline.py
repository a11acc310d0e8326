"""Pipeline: the stages of one answer, in order.

A stage that raises is removed, and the response fails: a response that a stage could not see end
must not end well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.faults.fault import ProviderFault, internal_fault
from antiphon.core.faults.messages import describe
from antiphon.core.plan.plan import Plan
from antiphon.pipeline.client_profile import ProfileStage
from antiphon.pipeline.contract import ContractStage
from antiphon.pipeline.diagnostics import DiagnosticsStage
from antiphon.pipeline.log import Entry, LogStage
from antiphon.pipeline.obfuscation import ObfuscationStage
from antiphon.pipeline.persist import PersistStage
from antiphon.pipeline.stage import Batch, Stage, failed, terminal, with_terminal
from antiphon.pipeline.trace import TraceStage


class Pipeline:
    def __init__(
        self, stages: Sequence[Stage], describe: Callable[[ProviderFault], str] = describe
    ) -> None:
        self._describe = describe
        self._stages = list(stages)
        self.feeding = [stage for stage in stages if type(stage).feed is not Stage.feed]
        """Stages that see every batch, not only the one with the terminal event."""
        self.fault: ProviderFault | None = None
        """Why a stage raised, once one has."""

    def feed(self, batch: Batch) -> Batch:
        if terminal(batch.events) is not None:
            return self._end(batch)
        for stage in tuple(self.feeding):
            try:
                batch = stage.feed(batch)
            except Exception as error:  # whoever drives the pipeline ends the response with it
                self._remove(stage, error)
        return batch

    def _end(self, batch: Batch) -> Batch:
        for stage in tuple(self._stages):
            try:
                batch = stage.on_terminal(batch)
            except Exception as error:
                batch = self._fail(batch, self._remove(stage, error))
        return batch

    def _remove(self, stage: Stage, error: Exception) -> ProviderFault:
        self._stages.remove(stage)
        if stage in self.feeding:
            self.feeding.remove(stage)
        self.fault = internal_fault(error)
        return self.fault

    def _fail(self, batch: Batch, fault: ProviderFault) -> Batch:
        """Return the batch with a failed response: it must not end well unseen by a stage."""
        ending = terminal(batch.events)
        if ending is None:
            return batch
        event = failed(ending.response, code=fault.public_code, message=self._describe(fault))
        to_save = None if batch.to_save is None else event.response
        return msgspec.structs.replace(with_terminal(batch, event), fault=fault, to_save=to_save)

    def close(self, batch: Batch) -> None:
        """Let every stage report; the answer is over or the client has disconnected."""
        for stage in self._stages:
            stage.close(batch)


def build_pipeline(
    plan: Plan,
    profile: Profile,
    trace: TraceStage,
    emit: Callable[[Entry], None],
    *,
    describe: Callable[[ProviderFault], str],
    elapsed_ms: Callable[[], float],
    store: bool,
    stages: Sequence[Stage] = (),
    padding: Callable[[int], bytes] | None = None,
) -> Pipeline:
    """Build the stages behind the bridge that this answer needs, in the order of docs/stages.

    `stages` are those of other packages: they come before what traces, logs and saves. `padding`:
    the source of random bytes, for a client that requests obfuscation."""
    made = [*answer_stages(plan, profile), *stages, trace, LogStage(emit, elapsed_ms=elapsed_ms)]
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
