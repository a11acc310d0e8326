"""Built-in stages: short steps that check, report and mark a response before it is sent; and which
of them a response passes.

The one that keeps payloads for the trace is in `trace.py`, the one that pads a stream in
`obfuscation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.client_profile import Profile, error_as_final
from antiphon.core.events import TERMINAL_EVENTS, Completed, Failed
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response, ResponseUsage
from antiphon.core.structured_output.contract import OutputContract
from antiphon.errors import InvalidOutputFormat
from antiphon.stages.log import Entry
from antiphon.stages.obfuscation import ObfuscationStage
from antiphon.stages.pipeline import Batch, Pipeline, Stage, failed, with_terminal


class ContractStage(Stage):
    """Turns a completed response into a failed one if it breaks the contract.

    A refusal promises nothing, so it is not checked."""

    __slots__ = ("_contract", "_provider")

    def __init__(self, contract: OutputContract, *, provider: str) -> None:
        self._contract = contract
        self._provider = provider

    def on_terminal(self, batch: Batch) -> Batch:
        last = batch.events[-1]
        if batch.refused or not isinstance(last, Completed):
            return batch
        try:
            self._contract.check(last.response, provider=self._provider)
        except InvalidOutputFormat as error:
            message = f"{error.message} ({error.code})"
            event = failed(last.response, code="server_error", message=message)
            return structs.replace(with_terminal(batch, event), failure_code=error.code)
        return batch


class ProfileStage(Stage):
    """Reports a permanent failure with a code that this client does not retry."""

    __slots__ = ("_profile",)

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def on_terminal(self, batch: Batch) -> Batch:
        last = batch.events[-1]
        fault = batch.fault
        if fault is None or not isinstance(last, Failed) or last.response.error is None:
            return batch
        error = last.response.error
        code = self._profile.code(fault)
        if error.code != fault.public_code or code == error.code:  # it failed for another reason
            return batch
        event = failed(last.response, code=code, message=error.message)
        diagnostic = error_as_final(self._profile, error.code)
        diagnostics = (*batch.diagnostics, diagnostic)
        return structs.replace(with_terminal(batch, event), diagnostics=diagnostics)


class TraceStage(Stage):
    """The outcome of a response, for the trace."""

    __slots__ = ("event_count", "failure_code", "response")

    def __init__(self) -> None:
        self.event_count = 0
        self.response: Response | None = None
        """The finished response, once there is one."""
        self.failure_code: str | None = None
        """Our own code of why it failed, if no fault is why."""

    def on_terminal(self, batch: Batch) -> Batch:
        self.event_count = batch.event_count
        self.failure_code = batch.failure_code
        ending = batch.events[-1]
        if isinstance(ending, TERMINAL_EVENTS):
            self.response = ending.response
        return batch

    def close(self, batch: Batch) -> None:
        self.event_count = batch.event_count


class LogStage(Stage):
    """Logs `response.finished`, or `response.cancelled` for a response that its client has left."""

    __slots__ = ("_cost_usd", "_elapsed_ms", "_emit", "_ended")

    def __init__(
        self,
        emit: Callable[[Entry], None],
        elapsed_ms: Callable[[], float],
        cost_usd: Callable[[ResponseUsage | None], float | None],
    ) -> None:
        """`cost_usd` returns the cost of a response; None: the price is unknown."""
        self._emit = emit
        self._elapsed_ms = elapsed_ms
        self._cost_usd = cost_usd
        self._ended = False

    def on_terminal(self, batch: Batch) -> Batch:
        ending = batch.events[-1]
        if isinstance(ending, TERMINAL_EVENTS) and ending.response.status != "cancelled":
            self._ended = True
            response = ending.response
            facts = {**batch.facts}
            _add_outcome(facts, response, batch)
            facts["cost_usd"] = self._cost_usd(response.usage)
            self._add_figures(facts, batch)
            level = "warning" if response.status == "failed" else "info"
            self._emit(Entry("response.finished", level, facts))
        return batch

    def close(self, batch: Batch) -> None:
        if not self._ended and batch.fault is None:
            facts = {**batch.facts}
            self._add_figures(facts, batch)
            self._emit(Entry("response.cancelled", "info", facts))

    def _add_figures(self, facts: dict[str, Any], batch: Batch) -> None:
        facts["events"] = batch.event_count
        facts["duration_ms"] = round(self._elapsed_ms() * 10) / 10
        facts["upstream_latency_ms"] = batch.upstream_latency_ms


def _add_outcome(facts: dict[str, Any], response: Response, batch: Batch) -> None:
    usage = response.usage
    facts["status"] = response.status
    facts["finish_reason"] = batch.finish_reason
    facts["error"] = batch.failure_code or (response.error.code if response.error else None)
    facts["items"] = len(response.output)
    facts["input_tokens"] = usage.input_tokens if usage else 0
    facts["cached_tokens"] = usage.input_tokens_details.cached_tokens if usage else 0
    facts["output_tokens"] = usage.output_tokens if usage else 0


class PersistStage(Stage):
    """Sets `Batch.to_save`; the run stores it before the terminal event is sent."""

    __slots__ = ()

    def on_terminal(self, batch: Batch) -> Batch:
        ending = batch.events[-1]
        if not isinstance(ending, TERMINAL_EVENTS):
            return batch
        return structs.replace(batch, to_save=ending.response)


class DiagnosticsStage(Stage):
    """Logs once what was degraded, ignored or rejected."""

    __slots__ = ("_emit", "_reported")

    def __init__(self, emit: Callable[[Entry], None]) -> None:
        self._emit = emit
        self._reported = 0

    def on_terminal(self, batch: Batch) -> Batch:
        self.close(batch)
        return batch

    def close(self, batch: Batch) -> None:
        """Report, also where no terminal event came because the client disconnected."""
        if len(batch.diagnostics) > self._reported:
            self._reported = len(batch.diagnostics)
            found = [f"{each.code}:{each.param}" for each in batch.diagnostics]
            self._emit(Entry("response.diagnostics", "info", {**batch.facts, "diagnostics": found}))


# --- the pipeline of a response ------------------------------------------------------------------


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
    made = [*make_changing_stages(plan, profile), *stages, trace, log]
    if store:
        made.append(PersistStage())
    made.append(DiagnosticsStage(emit))
    if padding is not None:
        made.append(ObfuscationStage(padding))
    return Pipeline(made, describe)


def make_changing_stages(plan: Plan, profile: Profile) -> list[Stage]:
    """Make the stages that may change what the client receives."""
    stages: list[Stage] = []
    if plan.contract.requested != "text" and plan.summary_task is None:
        stages.append(ContractStage(plan.contract, provider=plan.provider))
    if profile.permanent_errors != "exact":
        stages.append(ProfileStage(profile))
    return stages
