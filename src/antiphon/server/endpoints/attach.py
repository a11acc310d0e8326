"""POST /v1/responses again after a lost connection: the same response from its first event on."""

from __future__ import annotations

from antiphon.core.diagnostic import diagnostics_header
from antiphon.engine.run import Run
from antiphon.runs.attach import AttachableRun, AttachedTail, Key, digest_request
from antiphon.runs.driver import RunDriver
from antiphon.server.endpoints.context import Context
from antiphon.server.endpoints.tails import stream_response
from antiphon.server.http import HTTPResponse
from antiphon.store.trace.rows import TraceFinish, TraceRequest


async def attach(context: Context) -> HTTPResponse | None:
    """Join the run that waits for this request; None if there is none."""
    waiting = context.service.attach.take(await _make_key(context))
    if waiting is None:
        return None
    run = waiting.driver.run
    _record(context, waiting)
    headers = {"antiphon-attached": run.prepared.response.id}
    if run.diagnostics:
        headers["antiphon-diagnostics"] = diagnostics_header(run.diagnostics)
    return stream_response(context, AttachedTail(waiting), headers)


async def make_driver(run: Run, context: Context) -> RunDriver:
    """Make the driver of a run that waits for its client if the connection is lost."""
    return context.service.attach.make_driver(run, await _make_key(context))


async def _make_key(context: Context) -> Key:
    document, worker = context.received.document, context.service.engine.services.worker
    assert document is not None
    if context.received.is_large:
        digest = await worker.run(lambda: digest_request(document))
    else:
        digest = digest_request(document)
    return context.caller.client, digest


def _record(context: Context, waiting: AttachableRun) -> None:
    """Record in the trace that a request was answered by an earlier one's response."""
    services, caller = context.service.engine.services, context.caller
    facts = {**waiting.driver.run.prepared.facts(), "request_id": caller.request_id}
    facts["software"] = caller.profile.software
    services.tracer.record(TraceRequest(received_at_ms=services.runtime.now_ms(), **facts))
    services.tracer.record(
        TraceFinish(request_id=caller.request_id, status="attached", http_status=200, duration_ms=0)
    )
