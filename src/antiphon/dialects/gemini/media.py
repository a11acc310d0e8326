"""Images, files and audio as parts of a Gemini request.

Content goes inline, an address goes as an address. A plan leaves out, visibly, what Gemini could
only refuse (`TAKEN`); of what comes here all the same, it reads.
"""

from __future__ import annotations

import binascii
from typing import Any, TypeAlias, assert_never

from antiphon.core.history.media import MediaSupport, guess_media_type
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, Part, RefusalPart, TextPart

Body: TypeAlias = dict[str, Any]

_UNTOLD = ("", "application/octet-stream", "binary/octet-stream")
_GOOGLE = ("gs://", "https://generativelanguage.googleapis.com/", "files/")
TAKEN = MediaSupport(
    types=frozenset("image/* audio/* video/* text/* application/pdf application/json".split()),
    file_ids=r"(gs://|https://generativelanguage\.googleapis\.com/|files/).*",
)
"""What the API takes."""


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
    guess = guess_media_type(name) or guess_media_type(file.url or "")
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
    mime, known = guess_media_type(url) or guess, url.startswith(_GOOGLE)
    if not known and not (links and mime):
        return {"text": f"[{name}: {url}]"}
    typed = {"mimeType": mime} if mime else {}  # Google knows its own
    return {"fileData": {**typed, "fileUri": url}}


def _inline(mime: str, data: str) -> Body | None:
    """The content itself; None if it has no known type, or is not what it says it is."""
    try:
        sound = bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        sound = False
    return {"inlineData": {"mimeType": mime, "data": data}} if mime and sound else None


def _omitted(name: str) -> Body:
    return {"text": f"[{name} omitted: its content cannot be read]"}
