"""Which images, files and sounds reach a provider: what it fetches, and what it can read.

Content is looked at once, here. What passes comes out in one form, a `data:` URL of a type that the
provider takes; what does not says why, before anything is sent.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["image", "file", "audio"]

_UNTOLD = ("", "application/octet-stream", "binary/octet-stream")
_UNREADABLE = "its content cannot be read"
_OFFICE = "application/vnd.openxmlformats-officedocument"

ENDINGS: Mapping[str, str] = {
    **{name: f"image/{name}" for name in "png jpeg webp heic heif gif bmp avif".split()},
    **{name: f"audio/{name}" for name in "wav mp3 aiff aac ogg flac".split()},
    **{name: f"video/{name}" for name in "mp4 mpeg avi webm wmv 3gpp".split()},
    **{name: f"text/{name}" for name in "html css xml rtf csv".split()},
    **dict.fromkeys("txt log py js ts c h cpp go rs java sh toml".split(), "text/plain"),
    **dict.fromkeys("yaml yml ini diff patch sql rb php".split(), "text/plain"),
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "htm": "text/html",
    "jpg": "image/jpeg",
    "json": "application/json",
    "md": "text/markdown",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}
"""What the end of a name says about a file."""

_OPENINGS: Mapping[str, str] = {  # in base64
    "JVBERi": "application/pdf",
    "R0lGOD": "image/gif",
    "iVBORw0KGg": "image/png",
    "/9j/": "image/jpeg",
}


class Unread(Struct, frozen=True):
    """Content that would be refused, and why."""

    why: str


class MediaSupport(Struct, frozen=True, kw_only=True):
    """What a provider takes of each kind that is among a model's inputs."""

    types: frozenset[str] = frozenset()
    """Types of content; `image/*` are all of one kind, `text/*` is whatever reads as text. Empty:
    content is not looked at, and the provider sees for itself."""
    image_links: str = ".*"
    """Which addresses images are fetched from, as a regular expression."""
    file_ids: str = ".*"
    """Which ids of files mean something to it, likewise."""

    def fetches(self, url: str) -> bool:
        return re.fullmatch(self.image_links, url, re.DOTALL) is not None

    def knows(self, file_id: str) -> bool:
        return re.fullmatch(self.file_ids, file_id, re.DOTALL) is not None

    def follows(self, url: str, name: str) -> bool:
        """Whether the address of a file tells enough: nobody looks at what is there."""
        return not self.types or self._takes(type_of(url) or type_of(name))

    def read(self, data: str, kind: Kind, name: str = "") -> str | Unread:
        """Content as the provider takes it; `data` is a `data:` URL, or bare base64."""
        if not self.types:
            return data
        declared, payload = _split(data)
        content = _decoded(payload)
        if not content:
            return Unread(_UNREADABLE)
        for found in _types(declared, payload, name):
            fits = kind == "file" or found.startswith(f"{kind}/")
            if fits and self._takes(found) and not self._has_to_be_text(found):
                return f"data:{found};base64,{payload}"
        if kind == "file" and "text/*" in self.types and _reads(content):
            return f"data:{declared if _is_text(declared) else 'text/plain'};base64,{payload}"
        return Unread(f"{declared or 'its type'} is not accepted")

    def _takes(self, media_type: str) -> bool:
        major = media_type.partition("/")[0]
        return media_type in self.types or f"{major}/*" in self.types

    def _has_to_be_text(self, media_type: str) -> bool:
        return _is_text(media_type) and media_type not in self.types


def type_of(address: str) -> str:
    """The type that the end of a name or an address gives away, or nothing."""
    path = address.partition("?")[0].partition("#")[0]
    return ENDINGS.get(path.rpartition(".")[2].casefold(), "")


def _types(declared: str, payload: str, name: str) -> Iterator[str]:
    """The types that content may have, the likeliest first."""
    yield declared
    yield from (known for start, known in _OPENINGS.items() if payload.startswith(start))
    yield type_of(name)


def _split(data: str) -> tuple[str, str]:
    """The type that is declared and the base64 behind it; neither, if it is something else."""
    if not data.startswith("data:"):
        return "", data
    header, _, payload = data.removeprefix("data:").partition(",")
    declared, *options = header.lower().split(";")
    if "base64" not in options:
        return declared, ""
    if declared in _UNTOLD:
        return "", payload
    return "image/jpeg" if declared == "image/jpg" else declared, payload


def _decoded(payload: str) -> bytes:
    try:
        return binascii.a2b_base64(payload, strict_mode=True)
    except ValueError:
        return b""


def _reads(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and "\0" not in text


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/")
