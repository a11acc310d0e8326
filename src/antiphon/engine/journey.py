"""The stages of one answer, in the order of the founding page, and what each leaves behind.

trace raw → bridge → error guard → output contract → client profile → trace transformed → log →
persist → diagnostics. The first is fed with bytes and the bridge makes events of them; the rest is
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon.core.client_profile import Profile
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Diagnostic, Plan
from antiphon.engine.tracing import Attempted, ExchangeTrace
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.client_profile import ProfileStage
from antiphon.pipeline.contract import ContractStage
from antiphon.pipeline.log import DiagnosticsStage, Entry, LogStage
from antiphon.pipeline.persist import PersistStage
from antiphon.pipeline.stage import Stage, Stages


class Journey:
    def __init__(
        self,
        emit: Callable[[Entry], None],
        facts: dict[str, Any],
        plan: Plan,
        trace: ExchangeTrace,
        *,
        profile: Profile,
        store: bool,
    ) -> None:
        self.raw = trace.raw
        self.outbound = trace.outbound
        self.persist = PersistStage()
        self.fault: ProviderFault | None = None
        self._emit = emit
        self._facts = facts
        self._trace = trace
        self._diagnostics = DiagnosticsStage(emit, facts)
        self.note = self._diagnostics.note
        self.log = LogStage(emit, elapsed_ms=trace.elapsed_ms, facts=facts)
        self._contract = ContractStage(plan.contract, provider=plan.provider)
        self._profile = ProfileStage(profile, self.note)
        stages: list[Stage] = [self._contract, self._profile, trace.transformed, self.log]
        if store:
            stages.append(self.persist)
        self.stages = Stages([*stages, self._diagnostics])

    def adopt(self, plan: Plan) -> None:
        """Another provider is asked: from now on its plan is what was decided."""
        self._diagnostics.adopt(plan.diagnostics)
        self._facts.update(provider=plan.provider, provider_model=plan.model)

    def see(self, bridge: Bridge) -> None:
        """What the stages have to know of the answer before they see its events."""
        self.note(bridge.diagnostics)
        self._contract.waived = bridge.refused
        self._profile.fault = bridge.fault

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._diagnostics.diagnostics

    def restart(self, plan: Plan) -> None:
        """What came in this round counts for nothing: the answer will be another one."""
        self.adopt(plan)
        self.fault = None
        self.raw.rewind()

    def next_round(self, plan: Plan) -> None:
        """The answer goes on: what came so far is a part of it."""
        self.adopt(plan)
        self.raw.keep()

    def attempted(
        self,
        attempt: Attempted,
        *,
        fault: ProviderFault | None,
        status: int | None,
        latency_ms: float,
    ) -> None:
        """One try is over: it failed, or the answer has begun."""
        self._trace.attempt(attempt, fault, status, latency_ms)
        if fault is not None:
            facts = {**self._facts, "attempt": attempt.number, "key": attempt.key_name}
            self._emit(Entry("attempt.failed", "info", {**facts, **_told(fault)}))

    def finish(self) -> None:
        """The answer is over, or nobody is there to hear the rest of it."""
        self._diagnostics.close()
        if self.fault is None:
            self.log.close()
        else:
            self._emit(Entry("upstream.failed", "warning", {**self._facts, **_told(self.fault)}))
        self._trace.finish(self.fault, self.log.upstream_latency_ms, self.diagnostics)


def _told(fault: ProviderFault) -> dict[str, Any]:
    """What the log may say of a fault: our own words for it, never the provider's."""
    return {
        "fault": fault.type,
        "code": fault.code,
        "status": fault.status,
        "retry_after_s": fault.retry_after_s,
    }
