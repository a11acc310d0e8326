"""Media inside a request: `data:` URLs and bare base64."""

from __future__ import annotations

import base64
import binascii

from msgspec import Struct

PDF = "application/pdf"
_PDF_PREFIX = "JVBERi"  # base64 of `%PDF-`


class DataURL(Struct, frozen=True):
    """Media type and base64 content of a `data:` URL."""

    media_type: str
    base64: str


def parse_data_url(url: str) -> DataURL | None:
    """The media in a `data:` URL; None unless it is base64 and not empty."""
    header, _, payload = url.partition(",")
    media_type, *options = header.removeprefix("data:").lower().split(";")
    if not header.startswith("data:") or not payload or "base64" not in options:
        return None
    return DataURL("image/jpeg" if media_type == "image/jpg" else media_type, payload)


def parse_bare_pdf(data: str) -> DataURL | None:
    """A PDF sent as base64 without the `data:` header, as some clients do."""
    return DataURL(PDF, data) if data.startswith(_PDF_PREFIX) else None


def decode_base64(payload: str) -> bytes:
    """The content, or no bytes if it is not valid base64."""
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        return b""


def decode_text(payload: str) -> str | None:
    """The content as text if it is UTF-8 text, whatever media type it declares."""
    try:
        text = decode_base64(payload).decode()
    except UnicodeDecodeError:
        return None
    return text if text.strip() and "\0" not in text else None
