"""POST /v1/responses/compact and /v1/responses/input_tokens: a summary of a history, and the tokens
of a request."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.compaction.compacted_response import compacted_response, find_compaction
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.faults.messages import describe
from antiphon.engine.count_input import count_input
from antiphon.errors import UpstreamError
from antiphon.server.create import check_ready
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse, json_response


async def compact(exchange: Exchange) -> HTTPResponse:
    """Replace a long history by a summary."""
    request = await exchange.read_request()
    check_ready(exchange)
    run, items = await exchange.setup.engine.create_compaction(request, exchange.caller)
    async with run:
        response = await run.response()
        headers = {**run.limit_headers, **exchange.diagnostics_headers(run.diagnostics)}
    compaction = find_compaction(response)
    if compaction is None:
        fault = protocol_fault("The model wrote no complete summary of the conversation.")
        raise UpstreamError(fault, describe(fault, exchange.caller.locale))
    new_id = exchange.services.runtime.new_id
    return json_response(compacted_response(items, compaction, response, new_id), headers=headers)


class MessageTokenCount(Struct, frozen=True, kw_only=True):
    input_tokens: int
    estimated: bool | UnsetType = UNSET
    """True: no counter of the provider was used. Not in the API."""


class InputTokenCount(
    MessageTokenCount, frozen=True, tag_field="object", tag="response.input_tokens", kw_only=True
):
    """The same for clients of Responses, with the name of its type."""


async def count_tokens(exchange: Exchange) -> HTTPResponse:
    """Count the input of the request in the body, which may have only instructions or tools;
    nothing is generated or stored."""
    return await _count(exchange, InputTokenCount)


async def count_tokens_of_messages(exchange: Exchange) -> HTTPResponse:
    """Count the input of a request of Messages."""
    return await _count(exchange, MessageTokenCount)


async def _count(exchange: Exchange, shape: type[MessageTokenCount]) -> HTTPResponse:
    request = await exchange.read_request(is_count=True)
    prepared = await exchange.setup.engine.prepare(request, exchange.caller)
    counted = await count_input(exchange.services, prepared)
    document = shape(input_tokens=counted.count, estimated=counted.is_estimate or UNSET)
    return json_response(document, headers=exchange.diagnostics_headers(counted.diagnostics))
