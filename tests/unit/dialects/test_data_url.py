"""`data:` URLs and bare base64 in a request."""

from __future__ import annotations

from antiphon.dialects.data_url import (
    DataURL,
    decode_base64,
    decode_text,
    parse_bare_pdf,
    parse_data_url,
)
from tests.support.tables import table


@table(
    ("url", "expected"),
    [
        ("data:image/png;base64,AQI=", DataURL("image/png", "AQI=")),
        ("data:image/JPG;name=a;base64,AQI=", DataURL("image/jpeg", "AQI=")),
        ("data:;base64,AQI=", DataURL("", "AQI=")),
        ("data:image/png,AQI=", None),
        ("data:image/png;base64,", None),
        ("image/png;base64,AQI=", None),
    ],
)
def test_a_data_url_has_a_media_type_and_base64(url: str, expected: DataURL | None) -> None:
    assert parse_data_url(url) == expected


def test_a_bare_pdf_is_recognised_by_its_first_bytes() -> None:
    assert parse_bare_pdf("JVBERi0xLjc=") == DataURL("application/pdf", "JVBERi0xLjc=")
    assert parse_bare_pdf("AQI=") is None


@table(
    ("payload", "content", "text"),
    [
        ("w6k=", "é".encode(), "é"),
        ("IA==", b" ", None),
        ("AA==", b"\0", None),
        ("/w==", b"\xff", None),
        ("?", b"", None),
        ("é", b"", None),
    ],
)
def test_text_is_recognised_by_its_content(payload: str, content: bytes, text: str | None) -> None:
    assert decode_base64(payload) == content
    assert decode_text(payload) == text
