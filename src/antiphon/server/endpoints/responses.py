"""POST /v1/responses: create a response, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon.core.diagnostic import Diagnostic, diagnostics_header
from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.faults.messages import describe
from antiphon.engine.run import Run
from antiphon.errors import InvalidRequest
from antiphon.runs.admission import admit
from antiphon.runs.driver import RunDriver
from antiphon.server.endpoints.attach import attach, make_driver
from antiphon.server.endpoints.context import Context
from antiphon.server.endpoints.tails import NO_EVENTS, find_tail, stream_response
from antiphon.server.errors import (
    fault_response,
)
from antiphon.server.event_stream import HEADERS, EventStream
from antiphon.server.http import HTTPResponse, json_response
from antiphon.wire.body import (
    BodyDecoder,
    BodyLimits,
    BodyScanner,
    check_input_items,
    check_settings,
)
from antiphon.wire.items import Document
from antiphon.wire.request import Request


async def read_request(context: Context, *, is_count: bool = False) -> Request:
    """Read and validate the body of a request."""
    document, service = await read_document(context), context.service
    check_input_items(document, service.body_limits)
    if context.received.is_large:
        parse = partial(_parse_large, document, service.body_limits, is_count)
        return await service.engine.services.worker.run(parse)
    return Request.read(document, is_count=is_count)


async def read_document(context: Context) -> Document:
    """Read and decode a JSON body."""
    decoder = await _read_json_body(context)
    document = context.received.document = decoder.close()
    context.received.is_large = decoder.scanner.is_large
    return document


async def create(context: Context) -> HTTPResponse:
    request, service = await read_request(context), context.service
    if not service.state.ready:  # checked here because the body may have taken long to arrive
        return shutdown_response(context)
    can_attach = request.stream and context.caller.profile.name in service.attaching
    if can_attach and (attached := await attach(context)) is not None:
        return attached
    if request.conversation is None:
        run = await service.engine.create(request, context.caller)
    else:
        run = await service.conversation_locks.create(service.engine, request, context.caller)
    if request.background:
        return await _create_in_background(run, context)
    if request.stream:
        return await _stream(run, context, await make_driver(run, context) if can_attach else None)
    async with run:
        response = await run.response()
        return json_response(
            response, headers={**run.limit_headers, **diagnostics_headers(run.diagnostics)}
        )


async def _create_in_background(run: Run, context: Context) -> HTTPResponse:
    """Accept a response that is generated whether or not its client stays."""
    limit_headers = await admit(run, context.service.engine.services.accounting)
    response = await context.service.live.background.submit(run)
    context.service.conversation_locks.hand_over(response.id)
    headers = {**limit_headers, **diagnostics_headers(run.prepared.diagnostics)}
    if not run.prepared.request.stream:
        return json_response(response, headers=headers)
    tail = await find_tail(context, response.id, NO_EVENTS)
    assert tail is not None
    return stream_response(context, tail, headers)


async def _stream(run: Run, context: Context, driver: RunDriver | None) -> HTTPResponse:
    service, caller = context.service, context.caller
    received = context.received
    report = partial(service.report_failure, request_id=caller.request_id, received=received)
    live = service.live
    driver = driver or RunDriver(run, drivers=live.drivers, record_start=live.record_start)
    try:
        await driver.open(service.config.commit_after_s)
        headers = {**HEADERS, **run.limit_headers, **diagnostics_headers(run.diagnostics)}
        stream = EventStream(driver, caller.profile, service.config, report)
        return HTTPResponse(200, headers, stream)
    except BaseException:
        await driver.leave()
        raise


async def _read_json_body(context: Context) -> BodyDecoder:
    """Read a body of type application/json; web pages of other origins cannot send this type
    without a CORS preflight, which is not answered."""
    content_type = context.http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise InvalidRequest(
            f"The content type must be application/json, not {content_type!r}.",
            code="unsupported_media_type",
            status=415,
        )
    decoder = BodyDecoder(BodyScanner(context.service.body_limits))
    await context.http.read_body(decoder.feed)
    return decoder


def _parse_large(document: Document, limits: BodyLimits, is_count: bool) -> Request:
    """Validate a large body, in a thread because it would delay other requests."""
    check_settings(document, limits)
    return Request.read(document, is_large=True, is_count=is_count)


def shutdown_response(context: Context) -> HTTPResponse:
    """Reject the request and close its connection, so that the client connects elsewhere."""
    fault, caller = shutdown_fault(), context.caller
    response = fault_response(fault, caller.profile, describe(fault, caller.locale))
    response.close_connection = True
    return response


def diagnostics_headers(diagnostics: Sequence[Diagnostic]) -> dict[str, str]:
    """The header that tells the client what was degraded or ignored."""
    return {"antiphon-diagnostics": diagnostics_header(diagnostics)} if diagnostics else {}
