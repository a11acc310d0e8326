"""POST /v1/responses/compact: replace a long history by a summary."""

from __future__ import annotations

from antiphon.core.compaction.compacted_response import compacted_response, find_compaction
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.faults.messages import describe
from antiphon.errors import UpstreamError
from antiphon.server.endpoints.context import Context
from antiphon.server.endpoints.responses import diagnostics_headers, read_request, shutdown_response
from antiphon.server.http import HTTPResponse, json_response


async def create(context: Context) -> HTTPResponse:
    request, service = await read_request(context), context.service
    if not service.state.ready:
        return shutdown_response(context)
    run, items = await service.engine.create_compaction(request, context.caller)
    async with run:
        response = await run.response()
        headers = diagnostics_headers(run.diagnostics)
    compaction = find_compaction(response)
    if compaction is None:
        fault = protocol_fault("The model wrote no complete summary of the conversation.")
        raise UpstreamError(fault, describe(fault, context.caller.locale))
    new_id = service.engine.services.runtime.new_id
    return json_response(compacted_response(items, compaction, response, new_id), headers=headers)
