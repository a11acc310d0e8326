"""Images, files and audio as Converse content blocks.

Converse fetches nothing from the web: media come as bytes, or by an S3 address. The plan already
leaves out, with a diagnostic, media not in `ACCEPTED_MEDIA`, which Converse would refuse; what
arrives here all the same becomes a text block that names the omission.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart
from antiphon.core.items import Document
from antiphon.dialects.data_url import (
    DataURL,
    decode_base64,
    decode_text,
    parse_bare_pdf,
    parse_data_url,
)
from antiphon.dialects.placeholders import omission

_IMAGES = {f"image/{name}": name for name in ("png", "jpeg", "gif", "webp")}
_IMAGES["image/jpg"] = "jpeg"
_DOCUMENTS: Mapping[str, str] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_AUDIO = frozenset("mp3 opus wav aac flac mp4 ogg mkv m4a mpeg pcm webm".split())
_S3_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
ACCEPTED_MEDIA = MediaSupport(
    types=frozenset({*_IMAGES, *_DOCUMENTS, *(f"audio/{name}" for name in _AUDIO), "text/*"}),
    image_links=_S3_URI.pattern,
    file_ids="",
)
"""Media that Converse accepts for models with other inputs than text."""
_MAX_NAME_CHARACTERS = 180  # the limit is 200; a number may be added


def text_block(text: str) -> Document:
    return {"text": text}


def _omission_block(what: str, reason: str) -> Document:
    return text_block(omission(what, reason))


class Media:
    """Media blocks of one request, in which document names are unique."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def block(self, part: ImagePart | FilePart | AudioPart) -> Document:
        if isinstance(part, ImagePart):
            return _image_block(part.url)
        if isinstance(part, FilePart):
            return self._file_block(part)
        if part.format not in _AUDIO or not decode_base64(part.data):
            return _omission_block("audio", "its form is not accepted")
        return {"audio": {"format": part.format, "source": {"bytes": part.data}}}

    def _file_block(self, part: FilePart) -> Document:
        name = f"file {part.filename}" if part.filename else "file"
        if part.data is None:
            return _link_block(name, part.url or "")
        data = _decodable(parse_bare_pdf(part.data) or parse_data_url(part.data))
        if data is None:
            return _omission_block(name, "its content cannot be read")
        if data.media_type in _IMAGES:
            return _inline_image(data)
        document_format = _DOCUMENTS.get(data.media_type) or _guess_format(part.filename, data)
        if document_format is None:
            return _omission_block(name, f"{data.media_type or 'its type'} is not accepted")
        return {
            "document": {
                "format": document_format,
                "name": self._unique_name(part.filename),
                "source": {"bytes": data.base64},
            }
        }

    def _unique_name(self, filename: str | None) -> str:
        """A document name of allowed characters that no earlier document has."""
        plain = re.sub(r"[^a-zA-Z0-9()\[\] -]", "-", filename or "")
        plain = " ".join(plain.split())[:_MAX_NAME_CHARACTERS].strip() or "document"
        name = plain
        number = 1
        while name in self._names:
            number += 1
            name = f"{plain} ({number})"
        self._names.add(name)
        return name


def _decodable(data: DataURL | None) -> DataURL | None:
    return data if data is not None and decode_base64(data.base64) else None


def _guess_format(filename: str | None, data: DataURL) -> str | None:
    """A document format from the file extension, or `txt` if the content is text."""
    extension = (filename or "").rpartition(".")[2].lower()
    if extension in _DOCUMENTS.values():
        return extension
    return None if decode_text(data.base64) is None else "txt"


def _image_block(url: str) -> Document:
    if _S3_URI.fullmatch(url):
        extension = url.rpartition(".")[2].lower()
        image_format = _IMAGES.get(f"image/{extension}", "png")
        return {"image": {"format": image_format, "source": {"s3Location": {"uri": url}}}}
    data = _decodable(parse_data_url(url))
    if data is None:
        return _link_block("image", url)
    if data.media_type not in _IMAGES:
        return _omission_block("image", f"{data.media_type or 'its type'} is not accepted")
    return _inline_image(data)


def _inline_image(data: DataURL) -> Document:
    return {"image": {"format": _IMAGES[data.media_type], "source": {"bytes": data.base64}}}


def _link_block(what: str, url: str) -> Document:
    """A link as text: the model can name it, although it is not fetched."""
    if url.startswith(("https://", "http://")):
        return text_block(f"[{what}: {url}]")
    return _omission_block(what, "it cannot be read from here")
