"""Fields of output items as servers send them: of a wrong type, as a string, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.dialects.json_input import nonempty_string
from antiphon.dialects.usage import count
from antiphon.wire.items import Document


def kind_of(document: Any) -> str:
    return (nonempty_string(document.get("type")) or "") if isinstance(document, dict) else ""


def id_of(document: Any) -> str | None:
    return nonempty_string(document.get("id")) if isinstance(document, dict) else None


def phase_of(document: Any) -> str | None:
    """The label of a message, such as `commentary`."""
    return nonempty_string(document.get("phase")) if kind_of(document) == "message" else None


def as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def parts_of(content: Any, kind: str) -> Iterator[Document]:
    """The parts of a content, which some servers send as a string (`"content": "Hello"`)."""
    for part in [content] if isinstance(content, str) else as_list(content):
        if isinstance(part, str):
            yield {"type": kind, "text": part}
        elif isinstance(part, dict):
            yield part


def string_of(part: Document, field: str) -> str:
    return nonempty_string(part.get(field)) or ""


def complete_citation(annotation: Document) -> Document:
    """Add the fields of a citation that clients require."""
    if annotation.get("type") != "url_citation":
        return annotation
    return {
        **annotation,
        "title": nonempty_string(annotation.get("title")) or "",
        "start_index": count(annotation.get("start_index")),
        "end_index": count(annotation.get("end_index")),
    }
