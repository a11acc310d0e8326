"""Images, files and audio as parts of Gemini turns, or notices in their place."""

from __future__ import annotations

from antiphon.core.history.media import Kind, RejectedMedia
from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    TextPart,
    ToolCallStep,
)
from antiphon.core.items import Document
from antiphon.dialects.gemini.media import ACCEPTED_MEDIA
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from tests.support.dialect_samples.gemini_history import answer, turns
from tests.support.dialect_samples.history import message_step
from tests.support.tables import table

PIXEL = "iVBORw0KGgo="
SVG = RejectedMedia("image/svg+xml is not accepted")


def user(*parts: Part, quirks: GeminiQuirks = PLAIN) -> list[Document]:
    [turn] = turns(MessageStep("user", parts), quirks=quirks)
    found: list[Document] = turn["parts"]
    return found


def omitted(name: str) -> Document:
    return {"text": f"[{name} omitted: its content cannot be read]"}


@table(
    ("part", "expected"),
    [
        (
            ImagePart(f"data:image/webp;base64,{PIXEL}", "high"),
            {"inlineData": {"mimeType": "image/webp", "data": PIXEL}},
        ),
        (
            ImagePart(f"data:;base64,{PIXEL}"),
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        ),
        (ImagePart("data:image/png;base64,***"), omitted("image")),
        (ImagePart("data:image/png;base64,"), omitted("image")),
        (ImagePart("data:image/svg+xml,<svg/>"), omitted("image")),
        (ImagePart("data:"), omitted("image")),
        (
            ImagePart("https://a.test/x.JPG?size=1#top"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a.test/x.JPG?size=1#top"}},
        ),
        (
            ImagePart("https://a.test/x"),
            {"fileData": {"mimeType": "image/png", "fileUri": "https://a.test/x"}},
        ),
        (ImagePart("https://a.test/x.gif"), {"text": "[image: https://a.test/x.gif]"}),
        (AudioPart(PIXEL, "mp3"), {"inlineData": {"mimeType": "audio/mp3", "data": PIXEL}}),
        (AudioPart("é", "mp3"), omitted("audio")),
        (
            FilePart("a.pdf", data=f"data:application/octet-stream;base64,{PIXEL}"),
            {"inlineData": {"mimeType": "application/pdf", "data": PIXEL}},
        ),
        (
            FilePart("a.pdf", data=PIXEL),
            {"inlineData": {"mimeType": "application/pdf", "data": PIXEL}},
        ),
        (FilePart(data=PIXEL), omitted("file")),
        (
            FilePart("a.xyz", data=f"data:;base64,{PIXEL}"),
            omitted("a.xyz"),
        ),
        (
            FilePart(url="https://a.test/b.pdf"),
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.test/b.pdf"}},
        ),
        (FilePart("b", url="https://a.test/b"), {"text": "[b: https://a.test/b]"}),
        (
            FilePart("a.mp4", file_id="gs://bucket/a"),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/a"}},
        ),
        (FilePart("a.pdf", file_id="file_1"), omitted("a.pdf")),
    ],
)
def test_media_are_sent_inline_or_as_a_url_or_replaced_by_a_notice(
    part: Part, expected: Document
) -> None:
    assert user(TextPart("See:"), part) == [{"text": "See:"}, expected]


@table(
    ("given", "kind", "sent"),
    [
        ("data:image/heic;base64,AA==", "image", "data:image/heic;base64,AA=="),
        ("data:image/gif;base64,AA==", "image", RejectedMedia("image/gif is not accepted")),
        ("data:image/svg+xml;base64,PHN2Zz4=", "image", SVG),
        ("data:image/svg+xml;base64,PHN2Zz4=", "file", "data:text/plain;base64,PHN2Zz4="),
        ("data:application/json;base64,e30=", "file", "data:text/plain;base64,e30="),
    ],
)
def test_types_that_the_api_refuses_are_sent_as_text_or_left_out(
    given: str, kind: Kind, sent: str | RejectedMedia
) -> None:
    """microsoft/vscode#286628 (GIF), google/adk-python#5693 (SVG) and #4028 (data files)."""
    assert ACCEPTED_MEDIA.read(given, kind) == sent


def test_without_link_support_a_url_is_sent_as_text() -> None:
    quirks = GeminiQuirks(links=False)
    assert user(ImagePart("https://a.test/x.png"), quirks=quirks) == [
        {"text": "[image: https://a.test/x.png]"}
    ]
    uri = "https://generativelanguage.googleapis.com/v1beta/files/x"
    [part] = user(FilePart("x.pdf", file_id=uri), quirks=quirks)
    assert part["fileData"]["fileUri"] == uri


IMAGE = ImagePart(f"data:image/png;base64,{PIXEL}")
INLINE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


def test_an_image_in_a_tool_result_is_part_of_it_where_supported() -> None:
    history = (
        message_step("user", "hi"),
        ToolCallStep("a", "look", "{}"),
        answer("a", "one", IMAGE),
    )
    *_, response = turns(*history, quirks=GeminiQuirks(media_in_answers=True))
    assert response["parts"] == [
        {
            "functionResponse": {
                "name": "look",
                "id": "a",
                "response": {"output": "one"},
                "parts": [INLINE],
            }
        }
    ]


def test_an_image_in_a_tool_result_otherwise_follows_in_the_user_turn() -> None:
    history = (
        message_step("user", "hi"),
        ToolCallStep("a", "look", "{}"),
        ToolCallStep("b", "look", "{}"),
        answer("a", IMAGE),
        answer("b", "two"),
        message_step("user", "Well?"),
    )
    *_, responses, shown = turns(*history)
    assert len(responses["parts"]) == 2
    assert shown == {"role": "user", "parts": [INLINE, {"text": "Well?"}]}


def test_an_unreadable_image_in_a_tool_result_becomes_a_notice() -> None:
    broken = ImagePart("data:image/png;base64,*")
    *_, response = turns(
        message_step("user", "hi"), ToolCallStep("a", "look", "{}"), answer("a", "one", broken)
    )
    output = response["parts"][0]["functionResponse"]["response"]["output"]
    assert output == "one\n[image omitted: its content cannot be read]"
