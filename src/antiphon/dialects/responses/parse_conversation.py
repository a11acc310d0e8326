"""Bodies of the requests about conversations and their items, validated."""

from __future__ import annotations

from typing import NamedTuple

from antiphon.core.items import Document
from antiphon.dialects.responses.parse import read_metadata
from antiphon.dialects.responses.parse_items import input_item
from antiphon.dialects.validate import invalid_value, list_of, missing_parameter

MAX_NEW_ITEMS = 20
"""Maximum number of items in one request, as in the API."""


class NewConversation(NamedTuple):
    items: tuple[Document, ...]
    metadata: dict[str, str]


def read_conversation(document: Document) -> NewConversation:
    """Read the body that creates a conversation; both of its fields are optional."""
    items = document.get("items")
    metadata = document.get("metadata")
    return NewConversation(
        () if items is None else _read_list(items),
        {} if metadata is None else read_metadata(metadata, "metadata"),
    )


def read_new_items(document: Document) -> tuple[Document, ...]:
    """Read the body that adds items to a conversation."""
    if document.get("items") is None:
        raise missing_parameter("items")
    return _read_list(document["items"])


def read_new_metadata(document: Document) -> dict[str, str]:
    """Read the body that changes a conversation. Null removes the metadata."""
    if "metadata" not in document:
        raise missing_parameter("metadata")
    metadata = document["metadata"]
    return {} if metadata is None else read_metadata(metadata, "metadata")


def _read_list(value: object) -> tuple[Document, ...]:
    items = list_of(input_item)(value, "items")
    if len(items) > MAX_NEW_ITEMS:
        problem = f"must have at most {MAX_NEW_ITEMS} items; it has {len(items)}."
        raise invalid_value("items", problem, "array_above_max_length")
    return items
