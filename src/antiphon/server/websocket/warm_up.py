"""Warm-up (`generate: false`): a response without output, whose input later ones continue.

No provider is called. The request is checked, planned, traced, logged and stored like any other.
"""

from __future__ import annotations

from antiphon.core.stream.machine import ResponseMachine
from antiphon.engine.answer import Answer
from antiphon.engine.services import PreparedRequest, Services
from antiphon.engine.tracing import RunTrace
from antiphon.wire.events import Event


async def warm_up(services: Services, prepared: PreparedRequest) -> list[Event]:
    """Complete a response at once, and return its events."""
    runtime = services.runtime
    began = runtime.monotonic()
    trace = RunTrace(
        services.tracer, prepared.facts(), lambda: (runtime.monotonic() - began) * 1000
    )
    trace.software = prepared.caller.profile.software
    trace.begin(prepared.skipped)
    answer = Answer(services, prepared, trace, prepared.targets[0])
    machine = ResponseMachine(prepared.response, new_id=runtime.new_id, now=runtime.now)
    try:
        return await answer.release(machine.start() + machine.finish("stop"))
    finally:
        answer.close()
        answer.finish_trace()
