"""POST /v1/responses/input_tokens: how many tokens the input of a request has."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from antiphon.engine.counting.count_input import count_input
from antiphon.server.endpoints.context import Context
from antiphon.server.endpoints.responses import diagnostics_headers, read_request
from antiphon.server.http import HTTPResponse, json_response


class InputTokenCount(
    Struct, frozen=True, tag_field="object", tag="response.input_tokens", kw_only=True
):
    input_tokens: int
    estimated: bool | UnsetType = UNSET
    """True: no counter of the provider was used. Not in the API."""


async def count(context: Context) -> HTTPResponse:
    """Count the input of the request in the body, which may have only instructions or tools;
    nothing is generated or stored."""
    engine = context.service.engine
    request = await read_request(context, is_count=True)
    prepared = await engine.prepare(request, context.caller)
    counted = await count_input(engine.services, prepared)
    document = InputTokenCount(input_tokens=counted.count, estimated=counted.is_estimate or UNSET)
    return json_response(document, headers=diagnostics_headers(counted.diagnostics))
