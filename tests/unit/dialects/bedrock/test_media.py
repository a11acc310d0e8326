"""Images, files and audio as Converse blocks; refused media become text blocks."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from antiphon.core.history.steps import AudioPart, FilePart, ImagePart
from antiphon.dialects.bedrock.media import Media
from tests.support.tables import table

Body = dict[str, Any]


def inline(kind: str, form: str, data: str = "eA==") -> Body:
    return {kind: {"format": form, "source": {"bytes": data}}}


def data_url(media_type: str, content: bytes = b"x") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def file(data: str | None = None, name: str | None = None, **fields: Any) -> Body:
    return Media().block(FilePart(filename=name, data=data, **fields))


def form_of(data: str, name: str | None = None) -> str:
    form: str = file(data, name)["document"]["format"]
    return form


@pytest.mark.parametrize(
    ("media_type", "form"),
    [
        ("image/png", "png"),
        ("image/jpeg", "jpeg"),
        ("image/jpg", "jpeg"),
        ("IMAGE/GIF", "gif"),
        ("image/webp;x=1", "webp"),
    ],
)
def test_an_image_is_sent_as_bytes(media_type: str, form: str) -> None:
    assert Media().block(ImagePart(data_url(media_type))) == inline("image", form)


@pytest.mark.parametrize(("ending", "form"), [("jpg", "jpeg"), ("webp", "webp"), ("tiff", "png")])
def test_an_image_may_be_an_s3_address(ending: str, form: str) -> None:
    uri = f"s3://my-bucket/a.{ending}"
    source = {"s3Location": {"uri": uri}}
    assert Media().block(ImagePart(uri)) == {"image": {"format": form, "source": source}}


@table(
    ("url", "text"),
    [
        ("https://x.test/a.png", "[image: https://x.test/a.png]"),
        (data_url("image/svg+xml"), "[image omitted: image/svg+xml is not accepted]"),
        ("data:;base64,eA==", "[image omitted: its type is not accepted]"),
        ("data:image/png;base64,", "[image omitted: it cannot be read from here]"),
        ("data:image/png;base64,%%", "[image omitted: it cannot be read from here]"),
        ("data:image/png;base64,é", "[image omitted: it cannot be read from here]"),
        ("data:image/png,abc", "[image omitted: it cannot be read from here]"),
        ("file:///etc/passwd", "[image omitted: it cannot be read from here]"),
        ("s3://A", "[image omitted: it cannot be read from here]"),
    ],
)
def test_a_refused_image_becomes_a_text_block(url: str, text: str) -> None:
    assert Media().block(ImagePart(url)) == {"text": text}


@table(
    ("media_type", "name", "form"),
    [
        ("application/pdf", None, "pdf"),
        ("text/csv", "a.txt", "csv"),
        ("text/markdown", None, "md"),
        ("application/octet-stream", "a.DOCX", "docx"),
        ("application/json", "a.json", "txt"),
        ("", None, "txt"),
    ],
)
def test_the_format_of_a_file_comes_from_its_type_name_or_content(
    media_type: str, name: str | None, form: str
) -> None:
    assert form_of(data_url(media_type), name) == form


def test_a_pdf_may_be_bare_base64() -> None:
    data = base64.b64encode(b"%PDF-1.7").decode()
    assert file(data) == {
        "document": {"format": "pdf", "name": "document", "source": {"bytes": data}}
    }


def test_an_image_given_as_a_file_is_an_image() -> None:
    assert file(data_url("image/png")) == inline("image", "png")


@table(
    ("block", "text"),
    [
        (file("x"), "[file omitted: its content cannot be read]"),
        (file("JVBERi%"), "[file omitted: its content cannot be read]"),
        (file(data_url("a/b", b"\xff"), "a.b"), "[file a.b omitted: a/b is not accepted]"),
        (file(data_url("", b"\0")), "[file omitted: its type is not accepted]"),
        (file(data_url("a/b", b" ")), "[file omitted: a/b is not accepted]"),
        (file(url="https://x.test/a"), "[file: https://x.test/a]"),
        (file(file_id="f"), "[file omitted: it cannot be read from here]"),
    ],
)
def test_a_refused_file_becomes_a_text_block(block: Body, text: str) -> None:
    assert block == {"text": text}


def test_document_names_are_sanitized_and_unique() -> None:
    media = Media()
    names = ["a_b.pdf", "a-b.pdf", "  x  y\n(1) [2].md ", "", None, "é" * 300, "a_b.pdf"]
    pdf = data_url("application/pdf")
    given = [media.block(FilePart(filename=name, data=pdf))["document"]["name"] for name in names]
    assert given == [
        "a-b-pdf",
        "a-b-pdf (2)",
        "x y-(1) [2]-md",
        "document",
        "document (2)",
        "-" * 180,
        "a-b-pdf (3)",
    ]


def test_audio_is_sent_as_bytes_if_its_format_is_known() -> None:
    assert Media().block(AudioPart("eA==", "wav")) == inline("audio", "wav")
    for part in (AudioPart("eA==", "midi"), AudioPart("%", "wav")):
        assert Media().block(part) == {"text": "[audio omitted: its form is not accepted]"}
