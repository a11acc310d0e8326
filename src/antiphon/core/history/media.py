"""Media types: the images, files and audio that a provider supports.

Content is checked once, here, before anything is sent. Supported content becomes a `data:` URL of a
type that the provider accepts; other content is rejected with a reason.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["image", "file", "audio"]

_GENERIC_TYPES = ("", "application/octet-stream", "binary/octet-stream")
_UNREADABLE = "its content cannot be read"
_OFFICE = "application/vnd.openxmlformats-officedocument"

_EXTENSIONS: Mapping[str, str] = {
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
"""Types by file extension."""

_SIGNATURES = {  # by their first bytes
    "application/pdf": re.compile(rb"%PDF"),
    "image/gif": re.compile(rb"GIF8"),
    "image/png": re.compile(rb"\x89PNG\r\n\x1a"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}


class RejectedMedia(Struct, frozen=True):
    """Content that the provider would reject, and the reason, for the model and the client."""

    reason: str


class MediaSupport(Struct, frozen=True, kw_only=True):
    """The images, files and audio that a provider supports, of the kinds that a model supports."""

    types: frozenset[str] = frozenset()
    """Media types. `image/*` is every image type; `text/*` is every file that is UTF-8 text. Empty:
    content is not checked here, only by the provider."""
    image_links: str = ".*"
    """A regular expression of the image URLs that the provider fetches."""
    file_links: frozenset[str] = frozenset()
    """Media types of files that the provider fetches by their URL alone. Empty: all of `types`, but
    the request names the type, so that it has to be shown by the URL or the name."""
    file_ids: str = ".*"
    """A regular expression of the file ids that the provider can resolve."""

    def can_fetch_image(self, url: str) -> bool:
        return re.fullmatch(self.image_links, url, re.DOTALL) is not None

    def accepts_file_id(self, file_id: str) -> bool:
        return re.fullmatch(self.file_ids, file_id, re.DOTALL) is not None

    def accepts_file_url(self, url: str, name: str, declared: str = "") -> bool:
        """Whether a file's URL or name shows a supported type, or a declared type is enough: the
        file itself is not fetched."""
        shown = guess_media_type(url) or guess_media_type(name)
        if self.file_links:
            return (declared or shown) in self.file_links
        return not self.types or self._lists(shown)

    def read(self, data: str, kind: Kind, name: str = "") -> str | RejectedMedia:
        """Read content into a `data:` URL of a supported type; `data` is one, or bare base64."""
        if not self.types:
            return data
        declared, payload = _split_data_url(data)
        content = decode_base64(payload)
        if not content:
            return RejectedMedia(_UNREADABLE)
        signed = _type_of_signature(content)
        declared = _correct_image_type(declared, signed)
        # data:image/png;base64,…           the declared type
        # data:;base64,iVBORw0KGg…          without one, or a wrong one: the content's signature
        # data:application/octet-stream;…   and `filename`: "a.pdf": the extension
        for found in (declared, signed, guess_media_type(name)):
            if self._accepts(found, kind):
                return f"data:{found};base64,{payload}"
        # data:application/toml;base64,…    where `text/*` is supported: any UTF-8 text
        if kind == "file" and "text/*" in self.types and _is_utf8_text(content):
            text_type = declared if _is_text_type(declared) else "text/plain"
            return f"data:{text_type};base64,{payload}"
        return RejectedMedia(f"{declared or 'its type'} is not accepted")

    def _accepts(self, media_type: str, kind: Kind) -> bool:
        """Whether a type alone is enough. A text type that only `text/*` covers is not: the content
        has to be UTF-8, which the type does not guarantee."""
        if kind != "file" and not media_type.startswith(f"{kind}/"):
            return False
        if _is_text_type(media_type):
            return media_type in self.types
        return self._lists(media_type)

    def _lists(self, media_type: str) -> bool:
        major = media_type.partition("/")[0]
        return media_type in self.types or f"{major}/*" in self.types


def guess_media_type(address: str) -> str:
    """Guess a media type by the extension of a file name or URL; "" if it is unknown."""
    path = address.partition("?")[0].partition("#")[0]
    return _EXTENSIONS.get(path.rpartition(".")[2].casefold(), "")


def _type_of_signature(content: bytes) -> str:
    types = (found for found, start in _SIGNATURES.items() if start.match(content))
    return next(types, "")


def _split_data_url(data: str) -> tuple[str, str]:
    """Split a `data:` URL into its type and its base64; a missing or malformed part is ""."""
    if not data.startswith("data:"):
        return "", data
    header, _, payload = data.removeprefix("data:").partition(",")
    declared, *options = header.lower().split(";")
    if "base64" not in options:
        return declared, ""
    if declared in _GENERIC_TYPES:
        return "", payload
    return "image/jpeg" if declared == "image/jpg" else declared, payload


def decode_base64(payload: str) -> bytes:
    """Decode base64; nothing if it is invalid."""
    try:
        return binascii.a2b_base64(payload, strict_mode=True)
    except ValueError:
        return b""


def _is_utf8_text(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and "\0" not in text


def _correct_image_type(declared: str, signed: str) -> str:
    """The type of an image: providers refuse one that is declared as another type."""
    are_images = declared.startswith("image/") and signed.startswith("image/")
    return signed if are_images else declared


def _is_text_type(media_type: str) -> bool:
    return media_type.startswith("text/")
