"""Descriptions of media by the echo model."""

from __future__ import annotations

import base64
import struct
from typing import Any

from antiphon.providers.echo_media import describe_part
from tests.support.tables import table

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 3, 2)


def encoded(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@table(
    ("part", "description"),
    [
        (image(encoded(PNG)), "[image: image/png, 640 × 480 pixels, 24 bytes]"),
        (image(encoded(GIF, "image/gif")), "[image: image/gif, 3 × 2 pixels, 10 bytes]"),
        (image(encoded(PNG[:20])), "[image: image/png, 20 bytes]"),
        (image(encoded(b"x" * 2_000, "image/jpeg")), "[image: image/jpeg, 2,000 bytes]"),
        (image("data:image/png;base64,%%"), "[image: image/png, 0 bytes]"),
        (image("https://example.org/a.png"), "[image at https://example.org/a.png]"),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": encoded(b"%PDF")}},
            "[file 'a.pdf': 4 bytes]",
        ),
        ({"type": "file", "file": {"file_data": "JVBERi0="}}, "[file '': 5 bytes]"),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            "[audio: wav, 3 bytes]",
        ),
        ({"type": "image_url"}, "[image_url]"),
        ({}, "[None]"),
    ],
)
def test_a_part_is_described_by_its_type_and_size(part: dict[str, Any], description: str) -> None:
    assert describe_part(part) == description
