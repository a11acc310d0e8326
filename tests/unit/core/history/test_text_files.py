"""Text of files: found by type, name and content."""

from __future__ import annotations

import base64

from antiphon.core.history.text_files import is_pdf, read_content, read_text
from tests.support.tables import table


def base64_url(content: bytes, media_type: str = "") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@table(
    ("data", "name", "text"),
    [
        (base64_url(b"plain"), "", "plain"),
        (base64_url(b"plain", "application/octet-stream"), "a.bin", "plain"),
        (base64_url("größe".encode()), "", "größe"),
        (base64_url(b"\xef\xbb\xbfmarked"), "", "marked"),
        (base64_url("wide".encode("utf-16")), "", "wide"),
        (base64_url("größe".encode("cp1252"), "text/csv"), "", "größe"),
        (base64_url("größe".encode("cp1252"), "application/json"), "", "größe"),
        (base64_url("größe".encode("cp1252")), "a.csv", "größe"),
        (base64_url("größe".encode("cp1252")), "", None),
        (base64_url("дом".encode("koi8-r"), "text/plain;charset=koi8-r"), "", "дом"),
        (base64_url(b"plain", "text/plain;charset=no-such-thing"), "", "plain"),
        (base64_url(b"\x1b[31mred\x1b[0m"), "", "\x1b[31mred\x1b[0m"),
        ("data:text/plain,one%20two", "", "one two"),
        ("cGxhaW4=", "", "plain"),
        (base64_url(b"%PDF-1.4 text"), "a.txt", None),
        (base64_url(b"a\0b", "text/plain"), "a.txt", None),
        (base64_url(b"\x89PNG\r\n\x1a\n"), "a.png", None),
        (base64_url(b" \n"), "a.txt", None),
        ("data:text/plain;base64,***", "a.txt", None),
        ("", "", None),
    ],
)
def test_text_is_read_from_files_that_have_it(data: str, name: str, text: str | None) -> None:
    assert read_text(data, name) == text


@table(
    ("data", "expected"),
    [
        (base64_url(b"%PDF-1.4"), True),
        (base64_url(b"%PDF-1.4", "text/plain"), True),
        (base64.b64encode(b"%PDF-1.4").decode(), True),
        (base64_url(b"plain", "application/pdf"), False),
        ("", False),
    ],
)
def test_a_pdf_is_recognised_by_its_content(data: str, expected: bool) -> None:
    assert is_pdf(data) is expected


def test_content_is_decoded_from_each_form() -> None:
    assert read_content("data:;base64,AAE=") == read_content("AAE=") == b"\0\x01"
    assert read_content("data:,%00%01") == b"\0\x01"
