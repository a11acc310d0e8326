"""Images, files and sound as Converse blocks.

Converse fetches nothing from the web: media come with their bytes, or by an address in S3. A plan
leaves out, visibly, what it would refuse (`TAKEN`); what comes here all the same becomes text that
says so.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.history import media
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart

Body: TypeAlias = dict[str, Any]

_IMAGES = {f"image/{form}": form for form in ("png", "jpeg", "gif", "webp")}
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
_PDF_OPENING = "JVBERi"  # base64 of `%PDF-`
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
TAKEN = media.MediaSupport(
    types=frozenset({*_IMAGES, *_DOCUMENTS, *(f"audio/{form}" for form in _AUDIO), "text/*"}),
    image_links=_S3.pattern,
    file_ids="",
)
"""What Converse takes of models that take anything but text."""
_NAME_CHARACTERS = 180  # the limit is 200; a number may be added


def text_block(text: str) -> Body:
    return {"text": text}


def _omitted(what: str, why: str) -> Body:
    return text_block(f"[{what} omitted: {why}]")


class _Data(Struct, frozen=True):
    media_type: str
    base64: str


def _data(url: str) -> _Data | None:
    """What a `data:` URL carries, if it is in base64 and not empty."""
    header, _, payload = url.partition(",")
    media_type, *rest = header.removeprefix("data:").lower().split(";")
    if not header.startswith("data:") or "base64" not in rest or not _bytes(payload):
        return None
    return _Data(media_type, payload)


def _bytes(payload: str) -> bytes:
    """The bytes behind base64; none if it is something else."""
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        return b""


class Media:
    """Media of one request, where no two documents may have the same name."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def block(self, part: ImagePart | FilePart | AudioPart) -> Body:
        if isinstance(part, ImagePart):
            return _image(part.url)
        if isinstance(part, FilePart):
            return self._file(part)
        if part.format not in _AUDIO or not _bytes(part.data):
            return _omitted("audio", "its form is not accepted")
        return {"audio": {"format": part.format, "source": {"bytes": part.data}}}

    def _file(self, part: FilePart) -> Body:
        name = f"file {part.filename}" if part.filename else "file"
        if part.data is None:
            return _linked(name, part.url or "")
        bare = part.data.startswith(_PDF_OPENING) and _bytes(part.data)
        data = _Data("application/pdf", part.data) if bare else _data(part.data)
        if data is None:
            return _omitted(name, "its content cannot be read")
        if data.media_type in _IMAGES:
            return _inline_image(data)
        form = _DOCUMENTS.get(data.media_type) or _form(part.filename, data)
        if form is None:
            return _omitted(name, f"{data.media_type or 'its type'} is not accepted")
        return {
            "document": {
                "format": form,
                "name": self._name(part.filename),
                "source": {"bytes": data.base64},
            }
        }

    def _name(self, filename: str | None) -> str:
        """A name of the few characters that are allowed, and that no document before has."""
        plain = re.sub(r"[^a-zA-Z0-9()\[\] -]", "-", filename or "")
        plain = " ".join(plain.split())[:_NAME_CHARACTERS].strip() or "document"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain} ({number})"
        self._names.add(name)
        return name


def _form(filename: str | None, data: _Data) -> str | None:
    """What the ending of a file's name says, or that it is text, whatever it claims to be."""
    ending = (filename or "").rpartition(".")[2].lower()
    if ending in _DOCUMENTS.values():
        return ending
    try:
        text = _bytes(data.base64).decode()
    except UnicodeDecodeError:
        return None
    return "txt" if text.strip() and "\0" not in text else None


def _image(url: str) -> Body:
    if _S3.fullmatch(url):
        ending = url.rpartition(".")[2].lower()
        form = _IMAGES.get(f"image/{ending}", "png")
        return {"image": {"format": form, "source": {"s3Location": {"uri": url}}}}
    data = _data(url)
    if data is None:
        return _linked("image", url)
    if data.media_type not in _IMAGES:
        return _omitted("image", f"{data.media_type or 'its type'} is not accepted")
    return _inline_image(data)


def _inline_image(data: _Data) -> Body:
    return {"image": {"format": _IMAGES[data.media_type], "source": {"bytes": data.base64}}}


def _linked(what: str, url: str) -> Body:
    """An address says more than a marker, even where nobody follows it."""
    if url.startswith(("https://", "http://")):
        return text_block(f"[{what}: {url}]")
    return _omitted(what, "it cannot be read from here")
