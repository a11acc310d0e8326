"""The Now view of the page's API: what runs, the last hour, and the providers' lights."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from antiphon import __version__
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.catalog import describe_providers
from antiphon.server.ui.page_request import PageRequest
from antiphon.store.trace.listing import (
    RUNNING,
    MinuteCounts,
    RequestFilter,
    count_minutes,
    list_first_outputs,
    list_summaries,
)

MINUTES = 60
_SHOWN_STREAMS = 50
_SAMPLED = 1000


async def show_now(request: PageRequest) -> HTTPResponse:
    return json_response(await describe_now(request))


async def describe_now(request: PageRequest) -> dict[str, Any]:
    """Everything the view shows, as one document."""
    setup = request.process.setup
    engine = request.engine
    started_at_ms = request.process.page.started_at_ms
    now_ms = engine.services.runtime.now_ms()
    traced = await request.read_trace(
        partial(_read_trace, started_at_ms=started_at_ms, now_ms=now_ms), None
    )
    tracer = engine.services.tracer
    return {
        "time_ms": now_ms,
        "started_at_ms": started_at_ms,
        "version": __version__,
        "running": len(engine.active),
        "traced": traced is not None,
        "payloads": tracer.keeps_payloads,
        "lost_rows": tracer.store.lost.total if tracer.store else 0,
        "default_model": engine.router.default_name(),
        "needs_client_key": bool(setup.server.api_keys),
        "providers": describe_providers(engine),
        **(traced or {"streams": [], "minutes": [], "first_output_ms": None}),
    }


def _read_trace(path: Path, started_at_ms: int, now_ms: int) -> dict[str, Any]:
    """Read the trace: running requests of this process, and the last hour. Called in a thread."""
    begin = now_ms // 60_000 - MINUTES + 1
    running = RequestFilter(status=(RUNNING,), since_ms=started_at_ms)
    return {
        "streams": list_summaries(path, running, limit=_SHOWN_STREAMS),
        "minutes": _fill_minutes(begin, count_minutes(path, begin * 60_000)),
        "first_output_ms": percentiles(list_first_outputs(path, begin * 60_000, _SAMPLED)),
    }


def _fill_minutes(begin: int, counted: list[MinuteCounts]) -> list[list[int]]:
    """Requests, failures and rejected requests of every minute, also of those without any."""
    known = {each.minute: [each.requests, each.failures, each.rejected] for each in counted}
    return [known.get(minute, [0, 0, 0]) for minute in range(begin, begin + MINUTES)]


def percentiles(values: list[int]) -> dict[str, int] | None:
    """The 50th and 95th percentile by nearest rank; None without any value."""
    if not values:
        return None
    ordered = sorted(values)
    return {f"p{rank}": ordered[(len(ordered) * rank - 1) // 100] for rank in (50, 95)}
