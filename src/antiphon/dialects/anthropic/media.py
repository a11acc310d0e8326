"""Images and files as Anthropic content blocks.

The plan already leaves out, with a diagnostic, media that are not in `ACCEPTED_MEDIA`, which the
API would refuse. What arrives here all the same becomes a text block that names the omission.
"""

from __future__ import annotations

from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart
from antiphon.core.items import Document
from antiphon.dialects.data_url import PDF, DataURL, decode_text, parse_bare_pdf, parse_data_url
from antiphon.dialects.placeholders import omission

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
ACCEPTED_MEDIA = MediaSupport(
    types=_IMAGES | {PDF, "text/*"},
    image_links="https?://.*",
    file_links=frozenset({PDF}),
    file_ids="file_[A-Za-z0-9]+",
)  # as of 2026-10
"""Media that the API accepts."""
_MAX_TITLE_CHARACTERS = 200


def text_block(text: str) -> Document:
    return {"type": "text", "text": text}


def media_block(part: ImagePart | FilePart | AudioPart) -> Document:
    if isinstance(part, ImagePart):
        return _image_block(part.url)
    if isinstance(part, FilePart):
        return _file_block(part)
    return _omission_block("audio", "this model takes no audio")


def _omission_block(what: str, reason: str) -> Document:
    return text_block(omission(what, reason))


def _base64_block(block_type: str, data: DataURL) -> Document:
    source = {"type": "base64", "media_type": data.media_type, "data": data.base64}
    return {"type": block_type, "source": source}


def _is_link(url: str) -> bool:
    return url.startswith(("https://", "http://"))


def _image_block(url: str) -> Document:
    if _is_link(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    data = parse_data_url(url)
    if data is None:
        return _omission_block("image", "its address cannot be read")
    if data.media_type not in _IMAGES:
        return _omission_block("image", f"{data.media_type or 'its type'} is not accepted")
    return _base64_block("image", data)


def _file_block(part: FilePart) -> Document:
    block = _whole_file_block(part)
    if block["type"] == "document":
        if part.context is not None:
            block["context"] = part.context
        if part.citations is not None:
            block["citations"] = {"enabled": part.citations}
    return block


def _whole_file_block(part: FilePart) -> Document:
    name = f"file {part.filename}" if part.filename else "file"
    if part.data is not None:
        return _add_title(_content_block(part.data, name), part.filename)
    if part.url is not None and _is_link(part.url):
        source = {"type": "url", "url": part.url}
        return _add_title({"type": "document", "source": source}, part.filename)
    if part.file_id is not None and ACCEPTED_MEDIA.accepts_file_id(part.file_id):
        source = {"type": "file", "file_id": part.file_id}
        return _add_title({"type": "document", "source": source}, part.filename)
    return _omission_block(name, "it is kept elsewhere")


def _add_title(block: Document, filename: str | None) -> Document:
    if filename is None or block["type"] != "document":
        return block
    return block | {"title": filename[:_MAX_TITLE_CHARACTERS]}


def _content_block(url: str, name: str) -> Document:
    data = parse_data_url(url) or parse_bare_pdf(url)
    if data is None:
        return _omission_block(name, "its content cannot be read")
    if data.media_type == PDF:
        return _base64_block("document", data)
    if data.media_type in _IMAGES:
        return _base64_block("image", data)
    text = decode_text(data.base64)
    if text is None:
        return _omission_block(name, f"{data.media_type or 'its type'} is not accepted")
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source}
