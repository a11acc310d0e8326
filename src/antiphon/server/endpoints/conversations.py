"""/v1/conversations and /v1/conversations/{conversation_id}/items."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from antiphon.core.items import Document
from antiphon.dialects.responses.listed_item import list_items as shape_items
from antiphon.dialects.responses.listed_item import without_excluded
from antiphon.dialects.responses.parse import INCLUDE_VALUES
from antiphon.dialects.responses.parse_conversation import (
    read_conversation,
    read_new_items,
    read_new_metadata,
)
from antiphon.errors import InvalidRequest, StoreRefused
from antiphon.server.endpoints.query import Query
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse, json_response
from antiphon.store.conversation import Conversation, ConversationStore, conversation_not_found
from antiphon.store.item_references import resolve_items

_DEFAULT_LIMIT = 20
_MAX_LIMIT = 100


async def create(exchange: Exchange) -> HTTPResponse:
    """Create a conversation, perhaps with its first items."""
    given = read_conversation(await exchange.read_document())
    runtime = exchange.services.runtime
    conversation = Conversation(
        id=runtime.new_id("conv"),
        created_at=runtime.now(),
        metadata=given.metadata,
        client=exchange.caller.client,
    )
    items = await _prepare_items(exchange, given.items)
    with _refused_as_invalid():
        await _store(exchange).create(conversation, items)
    return _show(conversation)


async def retrieve(exchange: Exchange) -> HTTPResponse:
    id, client = _ids(exchange)
    return _show(await _store(exchange).load(id, client=client), id)


async def update(exchange: Exchange) -> HTTPResponse:
    """Replace the metadata of a conversation."""
    id, client = _ids(exchange)
    metadata = read_new_metadata(await exchange.read_document())
    return _show(await _store(exchange).update(id, metadata, client=client), id)


async def delete(exchange: Exchange) -> HTTPResponse:
    """Delete a conversation and its items. Responses that were part of it stay."""
    id, client = _ids(exchange)
    if not await _store(exchange).delete(id, client=client):
        raise conversation_not_found(id)
    return json_response({"id": id, "object": "conversation.deleted", "deleted": True})


async def create_items(exchange: Exchange) -> HTTPResponse:
    id, client = _ids(exchange)
    include = Query(exchange.http.query).choices("include", INCLUDE_VALUES)
    items = await _prepare_items(exchange, read_new_items(await exchange.read_document()))
    with _refused_as_invalid():
        if await _store(exchange).append_items(id, items, client=client) is None:
            raise conversation_not_found(id)
    return _show_list(items, include, has_more=False)


async def list_items(exchange: Exchange) -> HTTPResponse:
    """List items, by default the newest first, page by page."""
    id, client = _ids(exchange)
    query = Query(exchange.http.query)
    include = query.choices("include", INCLUDE_VALUES)
    page = await _store(exchange).list_items(
        id,
        after=query.text("after"),
        is_descending=query.choice("order", "desc", ("asc", "desc")) == "desc",
        limit=query.integer("limit", _DEFAULT_LIMIT, minimum=1, maximum=_MAX_LIMIT),
        client=client,
    )
    if page is None:
        raise conversation_not_found(id)
    return _show_list(page.items, include, has_more=page.has_more)


async def retrieve_item(exchange: Exchange) -> HTTPResponse:
    id, client = _ids(exchange)
    include = Query(exchange.http.query).choices("include", INCLUDE_VALUES)
    item_id = exchange.ids["item_id"]
    item = await _store(exchange).load_item(id, item_id, client=client)
    if item is None:
        raise await _item_not_found(exchange)
    return json_response(without_excluded(item, include))


async def delete_item(exchange: Exchange) -> HTTPResponse:
    """Delete an item; the response is the conversation."""
    id, client = _ids(exchange)
    conversation = await _store(exchange).delete_item(id, exchange.ids["item_id"], client=client)
    if conversation is None:
        raise await _item_not_found(exchange)
    return _show(conversation)


def _store(exchange: Exchange) -> ConversationStore:
    return exchange.services.store.conversations


def _ids(exchange: Exchange) -> tuple[str, str]:
    """Return the id of the conversation in the path, and the name of the client."""
    return exchange.ids["conversation_id"], exchange.caller.client


async def _prepare_items(exchange: Exchange, given: tuple[Document, ...]) -> list[Document]:
    """Resolve references, and give every item an id and the shape of a list."""
    services = exchange.services
    items = await resolve_items(given, services.store, exchange.caller.client, param="items")
    return shape_items(items, services.runtime.new_id("item"))


@contextmanager
def _refused_as_invalid() -> Iterator[None]:
    """An item that the store refuses is an error of the request."""
    try:
        yield
    except StoreRefused as error:
        raise InvalidRequest(
            error.message, param="items", code="request_too_large", status=413
        ) from error


async def _item_not_found(exchange: Exchange) -> InvalidRequest:
    id, client = _ids(exchange)
    if await _store(exchange).load(id, client=client) is None:
        return conversation_not_found(id)
    message = (
        f"Item with id '{exchange.ids['item_id'][:80]}' not found in conversation '{id[:80]}'."
    )
    return InvalidRequest(message, param="item_id", status=404)


def _show(conversation: Conversation | None, id: str = "") -> HTTPResponse:
    if conversation is None:
        raise conversation_not_found(id)
    return json_response(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": conversation.created_at,
            "metadata": conversation.metadata,
        }
    )


def _show_list(
    items: Sequence[Document], include: Collection[str], *, has_more: bool
) -> HTTPResponse:
    return json_response(
        {
            "object": "list",
            "data": [without_excluded(item, include) for item in items],
            "first_id": items[0]["id"] if items else "",
            "last_id": items[-1]["id"] if items else "",
            "has_more": has_more,
        }
    )
