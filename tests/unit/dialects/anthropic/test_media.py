"""Images and files as content blocks; refused media become text blocks."""

from __future__ import annotations

import base64

import pytest

from antiphon.core.history.steps import AudioPart, FilePart, ImagePart
from antiphon.dialects.anthropic.media import media_block
from tests.support.tables import table


def data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


@pytest.mark.parametrize("url", ["https://x.test/1.png", "http://x.test/1.png"])
def test_an_image_may_be_a_link(url: str) -> None:
    assert media_block(ImagePart(url)) == {"type": "image", "source": {"type": "url", "url": url}}


@pytest.mark.parametrize(
    ("given", "sent"), [("image/png", "image/png"), ("image/JPG;name=a", "image/jpeg")]
)
def test_an_image_may_be_base64(given: str, sent: str) -> None:
    source = {"type": "base64", "media_type": sent, "data": "AQI="}
    assert media_block(ImagePart(data_url(given, b"\1\2"))) == {"type": "image", "source": source}


@table(
    ("url", "why"),
    [
        ("file:///etc/passwd", "its address cannot be read"),
        ("data:image/png,plain", "its address cannot be read"),
        ("data:image/png;base64,", "its address cannot be read"),
        ("image/png;base64,AQI=", "its address cannot be read"),
        ("data:image/bmp;base64,AQI=", "image/bmp is not accepted"),
        ("data:;base64,AQI=", "its type is not accepted"),
    ],
)
def test_a_refused_image_becomes_a_text_block(url: str, why: str) -> None:
    assert media_block(ImagePart(url)) == text(f"[image omitted: {why}]")


def test_a_pdf_is_a_document() -> None:
    data = base64.b64encode(b"%PDF-1.7").decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    document = {"type": "document", "source": source}
    url = data_url("application/pdf", b"%PDF-1.7")
    assert media_block(FilePart(data=url)) == document
    assert media_block(FilePart(filename="a.pdf", data=url)) == document | {"title": "a.pdf"}
    assert media_block(FilePart(data=data)) == document  # some leave out what it is


def test_a_file_may_be_a_link() -> None:
    source = {"type": "url", "url": "https://x.test/a.pdf"}
    part = FilePart(filename="x" * 300, url="https://x.test/a.pdf")
    assert media_block(part) == {"type": "document", "source": source, "title": "x" * 200}


def test_an_image_given_as_a_file_is_an_image() -> None:
    block = media_block(FilePart(filename="a.gif", data=data_url("image/gif", b"\1")))
    source = {"type": "base64", "media_type": "image/gif", "data": "AQ=="}
    assert block == {"type": "image", "source": source}


@pytest.mark.parametrize("media_type", ["text/plain", "application/json", ""])
def test_any_file_of_text_is_a_document(media_type: str) -> None:
    part = FilePart(filename="a.txt", data=data_url(media_type, "é".encode()))
    source = {"type": "text", "media_type": "text/plain", "data": "é"}
    assert media_block(part) == {"type": "document", "source": source, "title": "a.txt"}


@table(
    ("part", "why"),
    [
        (FilePart(filename="a", data="AQI="), "[file a omitted: its content cannot be read]"),
        (FilePart(data=data_url("text/plain", b" ")), "[file omitted: text/plain is not accepted]"),
        (FilePart(data=data_url("a/zip", b"\0")), "[file omitted: a/zip is not accepted]"),
        (FilePart(data=data_url("a/zip", b"\xff")), "[file omitted: a/zip is not accepted]"),
        (FilePart(data="data:a/b;base64,?"), "[file omitted: a/b is not accepted]"),
        (FilePart(data=data_url("", b"\xff")), "[file omitted: its type is not accepted]"),
        (FilePart(url="ftp://x.test/a"), "[file omitted: it is kept elsewhere]"),
        (FilePart(file_id="file-1"), "[file omitted: it is kept elsewhere]"),
        (AudioPart("AQI=", "wav"), "[audio omitted: this model takes no audio]"),
    ],
)
def test_refused_media_become_text_blocks(part: FilePart | AudioPart, why: str) -> None:
    assert media_block(part) == text(why)


def test_a_file_of_the_api_is_named_by_its_id() -> None:
    block = media_block(FilePart(filename="a.pdf", file_id="file_011C"))
    source = {"type": "file", "file_id": "file_011C"}
    assert block == {"type": "document", "source": source, "title": "a.pdf"}


def test_a_document_has_a_context_and_may_be_cited() -> None:
    source = {"type": "url", "url": "https://x.test/a.pdf"}
    part = FilePart(url="https://x.test/a.pdf", context="a draft", citations=True)
    expected = {"context": "a draft", "citations": {"enabled": True}}
    assert media_block(part) == {"type": "document", "source": source, **expected}
    image = FilePart(data=data_url("image/gif", b"\1"), context="a draft", citations=True)
    assert media_block(image)["type"] == "image"
