"""POST /v1/responses: create a response, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon.core.diagnostic import Diagnostic, diagnostics_header
from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.faults.messages import describe
from antiphon.engine.run import Run
from antiphon.errors import InvalidRequest
from antiphon.server.endpoints.context import Context
from antiphon.server.errors import (
    error_response,
    fault_response,
    method_not_allowed_response,
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


async def create(context: Context) -> HTTPResponse:
    decoder, service = await _read_json_body(context), context.service
    document = decoder.close()
    context.received.document, is_large = document, decoder.scanner.is_large
    context.received.is_large = is_large
    check_input_items(document, service.body_limits)
    if is_large:
        parse = partial(_parse_large, document, service.body_limits)
        request = await service.engine.services.worker.run(parse)
    else:
        request = Request.read(document)
    if not service.ready:  # checked here because the body may have taken long to arrive
        return _shutdown_response(context)
    run = await service.engine.create(request, context.caller)
    if request.stream:
        return await _stream(run, context)
    async with run:
        response = await run.response()
        return json_response(response, headers=_diagnostics(run.diagnostics))


async def _stream(run: Run, context: Context) -> HTTPResponse:
    service, caller = context.service, context.caller
    received = context.received
    report = partial(service.report_failure, request_id=caller.request_id, received=received)
    stream = EventStream(run, caller.profile, service.config, report)
    try:
        await stream.open()
        return HTTPResponse(200, HEADERS | _diagnostics(run.diagnostics), stream)
    except BaseException:
        await stream.close()
        raise


async def reject_get(context: Context) -> HTTPResponse:
    """Answer a WebSocket handshake with 426, so that clients fall back to HTTP at once: after 404
    or 405 Codex tries six times."""
    if context.http.headers.get("upgrade", "").lower() == "websocket":
        return error_response(
            426, "WebSockets are not supported; use POST /v1/responses with `stream`: true."
        )
    return method_not_allowed_response(context.http, ["POST"])


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


def _parse_large(document: Document, limits: BodyLimits) -> Request:
    """Validate a large body, in a thread because it would delay other requests."""
    check_settings(document, limits)
    return Request.read(document, is_large=True)


def _shutdown_response(context: Context) -> HTTPResponse:
    """Reject the request and close its connection, so that the client connects elsewhere."""
    fault, caller = shutdown_fault(), context.caller
    response = fault_response(fault, caller.profile, describe(fault, caller.locale))
    response.close_connection = True
    return response


def _diagnostics(diagnostics: Sequence[Diagnostic]) -> dict[str, str]:
    return {"antiphon-diagnostics": diagnostics_header(diagnostics)} if diagnostics else {}
