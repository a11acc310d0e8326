"""Compaction of the context before a response, as `context_management` asks for.

The history is summarized in a run of its own, and the response then continues from the summary as
any later turn will. If there is no summary, the response continues from the whole history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from antiphon.config import Config
from antiphon.core.compaction.compacted_response import find_compaction
from antiphon.core.compaction.request_summary import with_trigger
from antiphon.core.compaction.summary import read_state
from antiphon.core.deltas import Usage
from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.history.capsule import Unseal
from antiphon.core.plan.plan import CompactedContext
from antiphon.core.plan.planner import Planner
from antiphon.core.request import Request
from antiphon.core.response import ResponseUsage
from antiphon.engine.routing import Router
from antiphon.engine.run import Run
from antiphon.errors import InvalidRequest, UpstreamError

CreateOwnRun: TypeAlias = Callable[[Request], Awaitable[Run]]


async def compact_context(
    planner: Planner, create_run: CreateOwnRun, unseal: Unseal
) -> Planner | Diagnostic:
    """Make the compaction; return the planner of a request that continues from it as the next turn
    will, or the diagnostic that says why there is none."""
    summary = with_trigger(planner.request, planner.inputs.history)
    try:
        async with await create_run(summary) as run:
            response = await run.response()
    except UpstreamError as error:
        return _not_compacted(error.description)
    except InvalidRequest as error:
        return _not_compacted(error.message)
    item = find_compaction(response)
    if item is None:
        return _not_compacted(f"The summary has the status {response.status!r}.")
    state = read_state(unseal(item["encrypted_content"])) or {}
    return planner.continue_from(item, CompactedContext(state, _read_usage(response.usage)))


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


def check_compaction_model(config: Config, router: Router) -> None:
    """Raise `ConfigError` if `[compaction] model` does not exist."""
    name = config.compaction.model
    if not name:
        return
    try:
        router.resolve(name)
    except InvalidRequest as error:
        raise config.error_at(("compaction", "model"), error.message) from error
