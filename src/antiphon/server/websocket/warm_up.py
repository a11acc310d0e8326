"""Warm-up (`generate: false`): a response without output, whose input later ones continue.

No provider is called. The request is checked, planned, traced, logged and stored like any other.
"""

from __future__ import annotations

from antiphon.core.events import Event
from antiphon.engine.attempts import Attempts
from antiphon.engine.output import RunOutput
from antiphon.engine.run import translate
from antiphon.engine.services import Prepared, Services
from antiphon.engine.tracing import RunTrace


async def warm_up(services: Services, prepared: Prepared) -> list[Event]:
    """Complete a response at once, and return its events."""
    trace = RunTrace(services.tracer, prepared.facts(), services.runtime.monotonic)
    trace.start_clock()
    trace.begin(prepared.skipped, software=prepared.caller.profile.software)
    attempts = Attempts(services, prepared, trace)
    output = RunOutput(services, prepared, trace, attempts, None)
    output.open()
    translation = translate(services, prepared, prepared.targets[0], prepared.first_plan)
    try:
        return await output.release(translation.finish("stop"), translation)
    finally:
        output.close(translation)
