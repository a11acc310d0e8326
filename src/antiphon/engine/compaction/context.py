"""Compaction of the context before an answer, as `context_management` asks for.

The history is summarized in a run of its own, and the answer then continues from the summary as any
later turn will. If there is no summary, the answer is made from the whole history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from msgspec import structs

from antiphon.core.compaction.compacted_response import find_compaction
from antiphon.core.compaction.request_summary import with_trigger
from antiphon.core.compaction.summary import read_state
from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.history.capsule import Unseal
from antiphon.core.plan.plan import Plan
from antiphon.core.planning.plan_summary import plan_compacted
from antiphon.core.stream.deltas import Usage
from antiphon.engine.routing import Target
from antiphon.engine.run import Run
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.response import ResponseUsage

CreateOwnRun: TypeAlias = Callable[[Request], Awaitable[Run]]
MakePlan: TypeAlias = Callable[[Request, Target, frozenset[str] | None], Plan]


@dataclass
class ContextCompaction:
    """One compaction before one answer; it replaces the plans of the answer."""

    request: Request
    history: Sequence[Document]
    targets: Sequence[Target]
    plans: dict[tuple[str, str], Plan]
    make_plan: MakePlan
    create_run: CreateOwnRun
    unseal: Unseal
    _completed: Callable[[Plan], Plan] | None = None

    async def compact(self) -> Sequence[Diagnostic]:
        """Make the compaction and new plans; report why there is none, if there is none."""
        try:
            async with await self.create_run(with_trigger(self.request, self.history)) as run:
                response = await run.response()
        except UpstreamError as error:
            return [_not_compacted(error.description)]
        except InvalidRequest as error:
            return [_not_compacted(error.message)]
        item = find_compaction(response)
        if item is None:
            return [_not_compacted(f"The summary has the status {response.status!r}.")]
        self._use(item, response.usage)
        return []

    def replan(self, target: Target, rejected: frozenset[str] | None = None) -> Plan:
        """Make the plan for a target without some output formats and tool choices."""
        made = self.make_plan(self.request, target, rejected)
        return made if self._completed is None else self._completed(made)

    def _use(self, item: Document, usage: ResponseUsage | None) -> None:
        """Continue from a compaction item, as the next turn will."""
        state = read_state(self.unseal(item["encrypted_content"])) or {}
        self._completed = partial(plan_compacted, state=state, usage=_read_usage(usage))
        self.request = structs.replace(self.request, input=(*self.request.input, item))
        for target in self.targets:
            if target.name in self.plans:
                self.plans[target.name] = self.replan(target)


def _read_usage(usage: ResponseUsage | None) -> Usage | None:
    """What the summary has cost; an estimate is not added to what a provider reports."""
    if usage is None or usage.estimated is True:
        return None
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.input_tokens_details.cached_tokens,
        cache_write_tokens=usage.input_tokens_details.cache_write_tokens,
        reasoning_tokens=usage.output_tokens_details.reasoning_tokens,
        total_tokens=usage.total_tokens,
    )


def _not_compacted(reason: str) -> Diagnostic:
    message = f"The context could not be compacted, and is sent as it is: {reason}"
    return degraded(Code.CONTEXT_NOT_COMPACTED, "context_management", message)
