"""Encode images, files and audio as parts of a Gemini request.

Content is sent inline, a URL as a `fileUri`. The plan already leaves out, with a diagnostic, what
Gemini would refuse (`ACCEPTED_MEDIA`); what arrives here all the same becomes a text part that
names it.
"""

from __future__ import annotations

import binascii
from typing import assert_never

from antiphon.core.history.media import MediaSupport, guess_media_type
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, Part, RefusalPart, TextPart
from antiphon.core.items import Document
from antiphon.dialects.placeholders import omission

_UNSPECIFIC_TYPES = ("", "application/octet-stream", "binary/octet-stream")
_GOOGLE_URLS = ("gs://", "https://generativelanguage.googleapis.com/", "files/")
_IMAGES = frozenset(f"image/{name}" for name in ("png", "jpeg", "webp", "heic", "heif"))
ACCEPTED_MEDIA = MediaSupport(
    types=_IMAGES | {"audio/*", "video/*", "text/*", "application/pdf"},
    file_ids=r"(gs://|https://generativelanguage\.googleapis\.com/|files/).*",
)
"""Media that the API accepts; it refuses other images, and JSON that is not sent as text."""


def encode_part(content: Part, *, links: bool) -> Document:
    """Encode a client's content part; `links`: the model fetches URLs outside of Google."""
    match content:
        case TextPart(text) | RefusalPart(text):
            return {"text": text}
        case ImagePart(url):
            return _encode_url(url, "image", "image/png", links=links)
        case AudioPart(data, audio_format):
            return _inline_data(f"audio/{audio_format}", data) or _omitted("audio")
        case FilePart():
            return _encode_file(content, links=links)
        case _:
            assert_never(content)


def _encode_file(file: FilePart, *, links: bool) -> Document:
    name = file.filename or "file"
    guess = guess_media_type(name) or guess_media_type(file.url or "")
    if file.data is None:
        location = file.url or file.file_id or ""
        if not file.url and not location.startswith(_GOOGLE_URLS):
            return _omitted(name)  # the id of a file in another provider's store
        return _encode_url(location, name, guess, links=links)
    if file.data.startswith("data:"):
        return _encode_url(file.data, name, guess, links=links)
    return _inline_data(guess, file.data) or _omitted(name)


def _encode_url(url: str, name: str, guess: str, *, links: bool) -> Document:
    """Encode media behind a `data:` URL or another URL; `guess` is their type if none is given."""
    if url.startswith("data:"):
        header, _, data = url[5:].partition(",")
        declared, *options = header.split(";")
        mime = guess if declared in _UNSPECIFIC_TYPES else declared
        inline = _inline_data(mime, data) if "base64" in options else None
        return inline or _omitted(name)
    mime = guess_media_type(url) or guess
    is_google = url.startswith(_GOOGLE_URLS)
    is_known = bool(mime) and (mime in _IMAGES or not mime.startswith("image/"))
    if not is_google and not (links and is_known):
        return {"text": f"[{name}: {url}]"}
    typed = {"mimeType": mime} if mime else {}  # Google knows the types of its own files
    return {"fileData": {**typed, "fileUri": url}}


def _inline_data(mime: str, data: str) -> Document | None:
    """The content itself; None without a known type, or if it is not valid base64."""
    try:
        is_valid = bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        is_valid = False
    return {"inlineData": {"mimeType": mime, "data": data}} if mime and is_valid else None


def _omitted(name: str) -> Document:
    return {"text": omission(name, "its content cannot be read")}
