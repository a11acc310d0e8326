"""/v1/conversations and /v1/conversations/{conversation_id}/items."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from antiphon.errors import InvalidRequest, StoreRefused
from antiphon.server.endpoints.context import Context
from antiphon.server.endpoints.query import Query
from antiphon.server.endpoints.responses import read_document
from antiphon.server.http import HTTPResponse, json_response
from antiphon.store.conversation import Conversation, ConversationStore, conversation_not_found
from antiphon.store.item_references import resolve_items
from antiphon.wire.items import Document
from antiphon.wire.listed_item import list_items as shape_items
from antiphon.wire.listed_item import without_excluded
from antiphon.wire.request import INCLUDE_VALUES
from antiphon.wire.request_conversation import (
    read_conversation,
    read_new_items,
    read_new_metadata,
)

_DEFAULT_LIMIT = 20
_MAX_LIMIT = 100


async def create(context: Context) -> HTTPResponse:
    """Create a conversation, perhaps with its first items."""
    given = read_conversation(await read_document(context))
    runtime = context.service.engine.services.runtime
    conversation = Conversation(
        id=runtime.new_id("conv"),
        created_at=runtime.now(),
        metadata=given.metadata,
        client=context.caller.client,
    )
    items = await _prepare_items(context, given.items)
    with _refused_as_invalid():
        await _store(context).create(conversation, items)
    return _show(conversation)


async def retrieve(context: Context) -> HTTPResponse:
    id, client = _ids(context)
    return _show(await _store(context).load(id, client=client), id)


async def update(context: Context) -> HTTPResponse:
    """Replace the metadata of a conversation."""
    id, client = _ids(context)
    metadata = read_new_metadata(await read_document(context))
    return _show(await _store(context).update(id, metadata, client=client), id)


async def delete(context: Context) -> HTTPResponse:
    """Delete a conversation and its items. Responses that were part of it stay."""
    id, client = _ids(context)
    if not await _store(context).delete(id, client=client):
        raise conversation_not_found(id)
    return json_response({"id": id, "object": "conversation.deleted", "deleted": True})


async def create_items(context: Context) -> HTTPResponse:
    id, client = _ids(context)
    include = Query(context.http.query).choices("include", INCLUDE_VALUES)
    items = await _prepare_items(context, read_new_items(await read_document(context)))
    with _refused_as_invalid():
        if await _store(context).append_items(id, items, client=client) is None:
            raise conversation_not_found(id)
    return _show_list(items, include, has_more=False)


async def list_items(context: Context) -> HTTPResponse:
    """List items, by default the newest first, page by page."""
    id, client = _ids(context)
    query = Query(context.http.query)
    include = query.choices("include", INCLUDE_VALUES)
    page = await _store(context).list_items(
        id,
        after=query.text("after"),
        is_descending=query.choice("order", "desc", ("asc", "desc")) == "desc",
        limit=query.integer("limit", _DEFAULT_LIMIT, minimum=1, maximum=_MAX_LIMIT),
        client=client,
    )
    if page is None:
        raise conversation_not_found(id)
    return _show_list(page.items, include, has_more=page.has_more)


async def retrieve_item(context: Context) -> HTTPResponse:
    id, client = _ids(context)
    include = Query(context.http.query).choices("include", INCLUDE_VALUES)
    item_id = context.ids["item_id"]
    item = await _store(context).load_item(id, item_id, client=client)
    if item is None:
        raise await _item_not_found(context)
    return json_response(without_excluded(item, include))


async def delete_item(context: Context) -> HTTPResponse:
    """Delete an item; the answer is the conversation."""
    id, client = _ids(context)
    conversation = await _store(context).delete_item(id, context.ids["item_id"], client=client)
    if conversation is None:
        raise await _item_not_found(context)
    return _show(conversation)


def _store(context: Context) -> ConversationStore:
    return context.service.engine.services.store.conversations


def _ids(context: Context) -> tuple[str, str]:
    """Return the id of the conversation in the path, and the name of the client."""
    return context.ids["conversation_id"], context.caller.client


async def _prepare_items(context: Context, given: tuple[Document, ...]) -> list[Document]:
    """Resolve references, and give every item an id and the shape of a list."""
    services = context.service.engine.services
    items = await resolve_items(given, services.store, context.caller.client, param="items")
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


async def _item_not_found(context: Context) -> InvalidRequest:
    id, client = _ids(context)
    if await _store(context).load(id, client=client) is None:
        return conversation_not_found(id)
    message = f"Item with id '{context.ids['item_id'][:80]}' not found in conversation '{id[:80]}'."
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
