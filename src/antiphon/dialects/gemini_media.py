"""Images, files and audio as parts of a Gemini request.

Content goes inline, an address goes as an address. What Gemini could only refuse, it reads about.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never

from antiphon.core.history import AudioPart, FilePart, ImagePart, Part, RefusalPart, TextPart

Body: TypeAlias = dict[str, Any]

_TYPES: Mapping[str, str] = {
    **{name: f"image/{name}" for name in "png jpeg webp heic heif gif bmp avif".split()},
    **{name: f"audio/{name}" for name in "wav mp3 aiff aac ogg flac".split()},
    **{name: f"video/{name}" for name in "mp4 mpeg avi webm wmv 3gpp".split()},
    **{name: f"text/{name}" for name in "html css xml rtf csv".split()},
    **dict.fromkeys("txt md log py js ts c h cpp go rs java sh toml".split(), "text/plain"),
    **dict.fromkeys("yaml yml ini diff patch sql rb php".split(), "text/plain"),
    "jpg": "image/jpeg",
    "htm": "text/html",
    "json": "application/json",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
}
_UNTOLD = ("", "application/octet-stream", "binary/octet-stream")
_GOOGLE = ("gs://", "https://generativelanguage.googleapis.com/", "files/")


def part(content: Part, *, links: bool) -> Body:
    """What a client sent, as a part of a turn; `links` if addresses outside of Google will do."""
    match content:
        case TextPart(text) | RefusalPart(text):
            return {"text": text}
        case ImagePart(url):
            return _found(url, "image", "image/png", links=links)
        case AudioPart(data, form):
            return _inline(f"audio/{form}", data) or _omitted("audio")
        case FilePart():
            return _file(content, links=links)
        case _:
            assert_never(content)


def _file(file: FilePart, *, links: bool) -> Body:
    name = file.filename or "file"
    guess = _type_of(name) or _type_of(file.url or "")
    if file.data is None:
        place = file.url or file.file_id or ""
        if not file.url and not place.startswith(_GOOGLE):
            return _omitted(name)  # a name in somebody else's store
        return _found(place, name, guess, links=links)
    if file.data.startswith("data:"):
        return _found(file.data, name, guess, links=links)
    return _inline(guess, file.data) or _omitted(name)


def _found(url: str, name: str, guess: str, *, links: bool) -> Body:
    """Media by a `data:` URL or an address."""
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        declared, *options = head.split(";")
        mime = guess if declared in _UNTOLD else declared
        inline = _inline(mime, data) if "base64" in options else None
        return inline or _omitted(name)
    mime = _type_of(url) or guess
    if not mime or not (links or url.startswith(_GOOGLE)):
        return {"text": f"[{name}: {url}]"}
    return {"fileData": {"mimeType": mime, "fileUri": url}}


def _inline(mime: str, data: str) -> Body | None:
    """The content itself; None if it has no known type, or is not what it says it is."""
    try:
        sound = bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        sound = False
    return {"inlineData": {"mimeType": mime, "data": data}} if mime and sound else None


def _omitted(name: str) -> Body:
    return {"text": f"[{name} omitted: its content cannot be read]"}


def _type_of(address: str) -> str:
    """The media type that the end of a name or an address gives away, or nothing."""
    path = address.partition("?")[0].partition("#")[0]
    return _TYPES.get(path.rpartition(".")[2].casefold(), "")
