"""Text of files, for models without file input: read by media type, file name and content.

Content that is UTF-8 text counts as text whatever its type is. Other encodings are read where a
byte order mark, the `charset` of the `data:` URL, a text type or the file name shows them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from antiphon.core.history.media import decode_base64, guess_media_type

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig"} | dict.fromkeys(
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"
)
_TEXT_TYPE = re.compile(
    r"text/.+|.+[+/](x-)?(json|ndjson|jsonl|xml|yaml|toml|sql|javascript|typescript|sh|python|tex)"
)
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters that text does not have. Terminal output has escape characters (0x1b)."""
_PDF = b"%PDF-"
_PDF_BASE64 = "JVBERi"


def is_pdf(data: str) -> bool:
    """Whether file content, as a `data:` URL or base64, is a PDF; only its beginning is read."""
    return data[data.find(",") + 1 :][: len(_PDF_BASE64)] == _PDF_BASE64


def read_content(data: str) -> bytes:
    """Decode file content: a `data:` URL, with base64 or percent-encoded, or bare base64."""
    header, _, payload = data.partition(",") if data.startswith("data:") else ("", "", data)
    if header and ";base64" not in header.lower():
        return _decode_percent(payload)
    return decode_base64(payload)


def _decode_percent(text: str) -> bytes:
    """Decode `%20` and the like; other characters stand for themselves."""
    encoded = text.encode("utf-8", "replace")
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), encoded)


def read_text(data: str, name: str = "") -> str | None:
    """Read the text of a file from its content; None if it is not text, or blank."""
    content = read_content(data)
    if content.startswith(_PDF):
        return None
    for encoding in _encodings(content, data, name):
        try:
            text = content.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        if text.strip() and not _BINARY.search(text):
            return text
    return None


def _encodings(content: bytes, data: str, name: str) -> Iterator[str]:
    """The encodings to try, the most likely first."""
    yield from (
        encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if content.startswith(mark)
    )
    header = data.partition(",")[0].lower() if data.startswith("data:") else ""
    if charset := re.search(r";charset=\"?([a-z0-9_-]+)", header):
        yield charset[1]
    yield "utf-8"
    declared = header.removeprefix("data:").partition(";")[0]
    if any(map(_TEXT_TYPE.fullmatch, (declared, guess_media_type(name)))):
        yield "cp1252"  # an export of Windows
