"""Descriptions of images, files and audio by the echo model: what can be read of their headers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from antiphon.dialects.data_url import decode_base64, parse_data_url

_PNG = b"\x89PNG\r\n\x1a\n"
_GIF = b"GIF8"


def describe_part(part: Mapping[str, Any]) -> str:
    """Describe a content part of a Chat Completions message that is not text."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _describe_image(url)
        case {"type": "file", "file": {"file_data": str(data), **file}}:
            return f"[file {file.get('filename', '')!r}: {_size(_content(data))}]"
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return f"[audio: {form}, {_size(decode_base64(data))}]"
    return f"[{part.get('type')}]"


def _describe_image(url: str) -> str:
    found = parse_data_url(url)
    if found is None:
        return f"[image at {url}]"
    content = decode_base64(found.base64)
    return f"[image: {found.media_type}, {_dimensions(content)}{_size(content)}]"


def _content(data: str) -> bytes:
    found = parse_data_url(data)
    return decode_base64(data if found is None else found.base64)


def _size(content: bytes) -> str:
    return f"{len(content):,} bytes"


def _dimensions(content: bytes) -> str:
    """Width and height of a PNG or GIF image; empty for others."""
    if content.startswith(_PNG) and len(content) >= 24:
        width, height = struct.unpack(">II", content[16:24])
    elif content.startswith(_GIF) and len(content) >= 10:
        width, height = struct.unpack("<HH", content[6:10])
    else:
        return ""
    return f"{width} × {height} pixels, "
