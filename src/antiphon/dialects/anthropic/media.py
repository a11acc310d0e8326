"""Images and files as Anthropic blocks.

A plan leaves out, visibly, what the API would refuse (`TAKEN`). What comes here all the same
becomes text that says so.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart

Body: TypeAlias = dict[str, Any]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
TAKEN = MediaSupport(
    types=_IMAGES | {_PDF, "text/*"}, image_links="https?://.*", file_ids=""
)  # as of 2026-10
"""What the API takes."""
_PDF_OPENING = "JVBERi"  # base64 of `%PDF-`
_TITLE_CHARACTERS = 200


def text_block(text: str) -> Body:
    return {"type": "text", "text": text}


def media_block(part: ImagePart | FilePart | AudioPart) -> Body:
    if isinstance(part, ImagePart):
        return _image(part.url)
    if isinstance(part, FilePart):
        return _file(part)
    return _omitted("audio", "this model takes no audio")


def _omitted(what: str, why: str) -> Body:
    return text_block(f"[{what} omitted: {why}]")


class _Data(Struct, frozen=True):
    media_type: str
    base64: str


def _data(url: str) -> _Data | None:
    """What a `data:` URL carries, if it is in base64."""
    header, _, payload = url.partition(",")
    media_type, *rest = header.removeprefix("data:").lower().split(";")
    if not header.startswith("data:") or not payload or "base64" not in rest:
        return None
    return _Data("image/jpeg" if media_type == "image/jpg" else media_type, payload)


def _inline(kind: str, data: _Data) -> Body:
    source = {"type": "base64", "media_type": data.media_type, "data": data.base64}
    return {"type": kind, "source": source}


def _is_link(url: str) -> bool:
    return url.startswith(("https://", "http://"))


def _image(url: str) -> Body:
    if _is_link(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    data = _data(url)
    if data is None:
        return _omitted("image", "its address cannot be read")
    if data.media_type not in _IMAGES:
        return _omitted("image", f"{data.media_type or 'its type'} is not accepted")
    return _inline("image", data)


def _file(part: FilePart) -> Body:
    name = f"file {part.filename}" if part.filename else "file"
    if part.data is not None:
        return _titled(_content(part.data, name), part.filename)
    if part.url is not None and _is_link(part.url):
        source = {"type": "url", "url": part.url}
        return _titled({"type": "document", "source": source}, part.filename)
    return _omitted(name, "it is kept elsewhere")


def _titled(block: Body, filename: str | None) -> Body:
    if filename is None or block["type"] != "document":
        return block
    return block | {"title": filename[:_TITLE_CHARACTERS]}


def _content(url: str, name: str) -> Body:
    bare = _Data(_PDF, url) if url.startswith(_PDF_OPENING) else None
    data = _data(url) or bare
    if data is None:
        return _omitted(name, "its content cannot be read")
    if data.media_type == _PDF:
        return _inline("document", data)
    if data.media_type in _IMAGES:
        return _inline("image", data)
    text = _text(data)
    if text is None:
        return _omitted(name, f"{data.media_type or 'its type'} is not accepted")
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source}


def _text(data: _Data) -> str | None:
    """The file as text, if that is what it is, whatever type it claims to have."""
    try:
        text = base64.b64decode(data.base64, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text.strip() and "\0" not in text else None
