"""/v1/responses/{response_id}: retrieve, stream, cancel or delete a response; list its input."""

from __future__ import annotations

import asyncio

import msgspec

from antiphon.core.items import Document
from antiphon.core.response import Response
from antiphon.dialects.responses.listed_item import list_items, without_blocks, without_excluded
from antiphon.dialects.responses.parse import INCLUDE_VALUES
from antiphon.dialects.responses.render import ResponsesRenderer
from antiphon.errors import ChainNotFound, InvalidRequest
from antiphon.runs.event_log import finished_items
from antiphon.runs.live_run import LiveRun
from antiphon.runs.stored_log import load_finished_items
from antiphon.server.create import find_tail, stream_response
from antiphon.server.endpoints.query import Query
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse, json_response
from antiphon.store.chain import build_history, without_truncated_calls
from antiphon.store.conversation import load_items_before, unknown_after
from antiphon.store.run_log import BEFORE_FIRST, UNFINISHED
from antiphon.store.turn import Turn

_CANCEL_POLL_S = 0.1
_END_WAIT_S = 5.0
"""How long the end of a response is waited for that is cancelled elsewhere, or being stored."""


async def retrieve(exchange: Exchange) -> HTTPResponse:
    query = Query(exchange.http.query)
    query.choices("include", INCLUDE_VALUES)  # what a response has is decided when it is created
    if query.boolean("stream", False) and exchange.http.method == "GET":
        return await _resume(exchange, query)
    return json_response(await _find_response(exchange))


async def _find_response(exchange: Exchange) -> Response | Document:
    """Return a response as it stands; while it runs in the background, with the items that its log
    has."""
    response_id, client = _ids(exchange)
    live = exchange.process.live
    if (running := _find_live(exchange)) is not None:
        response = running.run.prepared.response
        if (log := live.find_log(response_id, client)) is None:
            return response
        items = finished_items(log.batches[: log.visible])
        return {**msgspec.to_builtins(response), "output": items}
    turn = await _load(exchange)
    if turn.status not in UNFINISHED or not turn.response.get("background"):
        return without_blocks(turn.response)
    items = await load_finished_items(live.store.runs, response_id, client)
    return {**turn.response, "output": items}


async def delete(exchange: Exchange) -> HTTPResponse:
    """Delete a response; one that is still being generated ends."""
    response_id, client = _ids(exchange)
    running = _find_live(exchange)
    if running is not None and running.task is not None and not running.delete():
        await asyncio.wait((running.task,), timeout=_END_WAIT_S)
    found = await exchange.process.live.store.delete(response_id, client=client)
    if running is None and not found:
        raise _not_found(response_id)
    return json_response({"id": response_id, "object": "response", "deleted": True})


async def _cancel_live(running: LiveRun) -> None:
    """Cancel a background response of this process, and wait for its end; not for ever, if it
    cannot be stored."""
    _check_background(running.run.prepared.request.background)
    running.cancel()
    assert running.task is not None
    await asyncio.wait((running.task,), timeout=_END_WAIT_S)


async def cancel(exchange: Exchange) -> HTTPResponse:
    """Cancel a background response; one that has ended is returned as it is."""
    response_id, client = _ids(exchange)
    live = exchange.process.live
    if (running := _find_live(exchange)) is not None:
        await _cancel_live(running)
        return json_response((await _load(exchange)).response)
    turn = await _load(exchange)
    _check_background(turn.response.get("background"))
    if turn.status not in UNFINISHED:
        return json_response(turn.response)
    await live.store.runs.request_cancel(response_id, client=client)
    if (response := await live.background.cancel_queued(response_id)) is not None:
        return json_response(response)
    return json_response((await _wait_for_end(exchange)).response)


async def list_input_items(exchange: Exchange) -> HTTPResponse:
    """List what the model was given: the input, after the turns that it continues."""
    query = Query(exchange.http.query)
    limit = query.integer("limit", 20, minimum=1, maximum=100)
    is_ascending = query.choice("order", "desc", ("asc", "desc")) == "asc"
    include = query.choices("include", INCLUDE_VALUES)
    items = await _load_input(exchange)
    if not is_ascending:
        items.reverse()
    if (after := query.text("after")) is not None:
        items = _items_after(items, after)
    page = items[:limit]
    return json_response(
        {
            "object": "list",
            "data": [without_excluded(item, include) for item in page],
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(items) > limit,
        }
    )


async def _resume(exchange: Exchange, query: Query) -> HTTPResponse:
    """Stream the events after a number, then those to come."""
    response_id = exchange.ids["response_id"]
    after = query.integer("starting_after", BEFORE_FIRST, minimum=BEFORE_FIRST)
    keeps_obfuscation = query.boolean("include_obfuscation", True)
    tail = await find_tail(exchange, response_id, after)
    running = _find_live(exchange)
    if tail is None or not (running is None or running.run.prepared.request.stream):
        if running is None:
            await _load(exchange)
        raise InvalidRequest(
            f"Response '{response_id}' cannot be streamed: only a response that was created with"
            " `background` and `stream` can, for a limited time after its end.",
            param="stream",
            code="invalid_value",
        )
    profile = exchange.caller.profile
    renderer = ResponsesRenderer(profile, keeps_obfuscation=keeps_obfuscation)
    return stream_response(exchange, tail, renderer, {})


async def _load_input(exchange: Exchange) -> list[Document]:
    """Load the input of a response, after what it continues; of items with the same id, the
    first."""
    running = _find_live(exchange)
    if running is not None:
        prepared = running.run.prepared
        turn = prepared.make_turn(prepared.response, "")
    else:
        turn = await _load(exchange)
    items: dict[str, Document] = {}
    for item in (*await _load_history(exchange, turn), *list_items(turn.input, turn.id)):
        items.setdefault(item["id"], item)
    return [*items.values()]


async def _load_history(exchange: Exchange, turn: Turn) -> list[Document]:
    """Load what a response continues, if it has not been deleted: a chain of responses, and the
    conversation as the first of them has found it."""
    store = exchange.process.live.store
    client = exchange.caller.client
    turns: list[Turn] = []
    if turn.previous_response_id is not None:
        try:
            turns = await store.chain(turn.previous_response_id, client=client)
        except ChainNotFound:
            return []
    items = await load_items_before(store.conversations, [*turns, turn][0], client=client)
    chained = [item for each in turns for item in list_items(build_history([each]), each.id)]
    return [*without_truncated_calls(items), *chained]


def _items_after(items: list[Document], after: str) -> list[Document]:
    for index, item in enumerate(items):
        if item["id"] == after:
            return items[index + 1 :]
    raise unknown_after(after)


async def _wait_for_end(exchange: Exchange) -> Turn:
    """Wait for the process that generates a response to cancel it."""
    for _ in range(round(_END_WAIT_S / _CANCEL_POLL_S)):
        turn = await _load(exchange)
        if turn.status not in UNFINISHED:
            break
        await asyncio.sleep(_CANCEL_POLL_S)
    return turn


def _ids(exchange: Exchange) -> tuple[str, str]:
    """Return the id of the response in the path, and the name of the client."""
    return exchange.ids["response_id"], exchange.caller.client


def _find_live(exchange: Exchange) -> LiveRun | None:
    return exchange.process.live.find(*_ids(exchange))


async def _load(exchange: Exchange) -> Turn:
    response_id, client = _ids(exchange)
    turn = await exchange.process.live.store.load(response_id, client=client)
    if turn is None:
        raise _not_found(response_id)
    return turn


def _not_found(response_id: str) -> InvalidRequest:
    return InvalidRequest(f"Response with id '{response_id[:80]}' not found.", status=404)


def _check_background(is_background: object) -> None:
    if not is_background:
        raise InvalidRequest(
            "Cannot cancel a synchronous response: it was not created with `background`.",
            code="invalid_value",
        )
