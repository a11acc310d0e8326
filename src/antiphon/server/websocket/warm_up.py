"""Warm-up (`generate: false`): a response without output, whose input later ones continue.

No provider is called. The request is checked, planned, traced, logged and stored like any other.
"""

from __future__ import annotations

from antiphon.core.events import Event
from antiphon.engine.answer import Answer
from antiphon.engine.services import Prepared, Services
from antiphon.engine.tracing import RunTrace
from antiphon.engine.turns import SaveInStore


async def warm_up(services: Services, prepared: Prepared) -> list[Event]:
    """Complete a response at once, and return its events."""
    runtime = services.runtime
    began = runtime.monotonic()
    trace = RunTrace(
        services.tracer, prepared.facts(), lambda: (runtime.monotonic() - began) * 1000
    )
    trace.software = prepared.caller.profile.software
    trace.begin(prepared.skipped)
    save = SaveInStore(services.store, prepared.request.conversation)
    answer = Answer(services, prepared, trace, prepared.targets[0], save)
    try:
        return await answer.release(answer.translation.complete())
    finally:
        answer.close()
        answer.finish_trace()
