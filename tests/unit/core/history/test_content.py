"""Content: supported parts are unchanged, unsupported ones are replaced by a marker."""

from __future__ import annotations

from typing import Any

from antiphon.core.history.content import ContentReader
from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    HistoryCode,
    ImagePart,
    MessageStep,
    Part,
    RefusalPart,
    TextPart,
)
from tests.support.tables import table

EVERYTHING = frozenset({"text", "image", "file", "file_url", "audio"})
TEXT = frozenset({"text"})
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "high"}
PICTURE = ImagePart("data:image/png;base64,AA==", "high")
PAPER = FilePart(filename="a.pdf", data="data:application/pdf;base64,AA==")


def reader(inputs: frozenset[str] = EVERYTHING, *, images: bool = False) -> ContentReader:
    found = ContentReader(inputs, tool_output_images=images)
    found.diagnostics.begin_item(3, "input", "message")
    return found


def read(content: Any, inputs: frozenset[str] = EVERYTHING) -> tuple[Part, ...]:
    return reader(inputs).read_parts(content)


def codes(found: ContentReader) -> list[str]:
    return [diagnostic.code for diagnostic in found.diagnostics.found]


@table(
    ("content", "texts"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("hello", ["hello"]),
        (["a", {"type": "input_text", "text": "b"}], ["a", "b"]),
        ([{"type": "output_text", "text": "c", "annotations": []}], ["c"]),
        ([{"type": "text", "text": "d"}, {"type": "summary_text", "text": "e"}], ["d", "e"]),
        ({"type": "input_text", "text": "alone"}, ["alone"]),
        ([{"type": "acme:note", "text": "whatever carries text"}], ["whatever carries text"]),
        ([{"type": "input_text", "text": ""}, {"type": "input_text", "text": None}], []),
        ([None], []),
        ({"celsius": 21.5}, ['{"celsius":21.5}']),
        ([7, True], ["7", "true"]),
    ],
)
def test_text_is_read_in_every_shape(content: Any, texts: list[str]) -> None:
    assert read(content) == tuple(map(TextPart, texts))


def test_a_refusal_is_read_as_a_refusal_part() -> None:
    assert read([{"type": "refusal", "refusal": "No."}]) == (RefusalPart("No."),)
    assert read([{"type": "refusal", "refusal": ""}]) == ()


@table(
    ("part", "image"),
    [
        (IMAGE, PICTURE),
        ({"type": "input_image", "image_url": "https://x.test/a.png"}, "https://x.test/a.png"),
        ({"type": "computer_screenshot", "image_url": "https://x.test/b"}, "https://x.test/b"),
        ({"type": "image", "url": "https://x.test/c"}, "https://x.test/c"),
        ({"type": "image_url", "image_url": {"url": "https://x.test/d"}}, "https://x.test/d"),
        ({"image_url": "https://x.test/e", "detail": None}, "https://x.test/e"),
        (
            {"type": "image_url", "image_url": {"url": "https://x.test/f", "detail": "low"}},
            ImagePart("https://x.test/f", "low"),
        ),
    ],
)
def test_an_image_is_read_by_its_url(part: Any, image: str | ImagePart) -> None:
    assert read([part]) == ((ImagePart(image) if isinstance(image, str) else image),)


def test_files_and_audio_are_read() -> None:
    paper = {"type": "input_file", "filename": "a.pdf", "file_data": PAPER.data}
    linked = {"type": "input_file", "file_url": "https://x.test/a.pdf"}
    stored = {"type": "input_file", "file_id": "file_1", "file_url": "https://x.test/a.pdf"}
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    assert read([paper, linked, stored, sound]) == (
        PAPER,
        FilePart(url="https://x.test/a.pdf"),
        FilePart(url="https://x.test/a.pdf", file_id="file_1"),
        AudioPart("AA==", "wav"),
    )


@table(
    ("part", "inputs", "text", "code"),
    [
        (IMAGE, TEXT, "[image omitted: this model takes no images]", "history.image.replaced"),
        (
            {"type": "input_image", "file_id": "file_1"},
            EVERYTHING,
            "[image omitted: it is kept elsewhere]",
            "history.image.replaced",
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:;base64,AA=="},
            TEXT,
            "[file a.pdf omitted: this model takes no files]",
            "history.file.replaced",
        ),
        (
            {"type": "input_file", "file_data": "data:;base64,AA=="},
            TEXT,
            "[file omitted: this model takes no files]",
            "history.file.replaced",
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_url": "https://x.test/a.pdf"},
            TEXT | {"file"},
            "[a.pdf: https://x.test/a.pdf]",
            "history.file.replaced",
        ),
        (
            {"type": "input_file", "file_url": "https://x.test/a.pdf"},
            TEXT,
            "[file: https://x.test/a.pdf]",
            "history.file.replaced",
        ),
        (
            {"type": "input_file", "filename": "a.pdf"},
            EVERYTHING,
            "[file a.pdf omitted: it came without content]",
            "history.file.replaced",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            TEXT,
            "[audio omitted: this model takes no audio]",
            "history.audio.replaced",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
            EVERYTHING,
            "[audio omitted: it came without content]",
            "history.audio.replaced",
        ),
        (
            {"type": "input_video", "video_url": "https://x.test/a.mp4"},
            EVERYTHING,
            "[video omitted: this model takes no video]",
            "history.video.replaced",
        ),
    ],
)
def test_unsupported_media_is_replaced_by_a_marker(
    part: Any, inputs: frozenset[str], text: str, code: str
) -> None:
    found = reader(inputs)
    assert found.read_parts([part]) == (TextPart(text),)
    [diagnostic] = found.diagnostics.found
    assert (diagnostic.code, diagnostic.decision) == (code, "degraded")
    assert (diagnostic.param, diagnostic.subject) == ("input[3]", "message")


@table(
    ("descriptions", "text", "code", "message"),
    [
        (
            {PICTURE.url: "A red door."},
            "[image: not shown, but described by another model: A red door.]",
            "history.image.described",
            "description from another model",
        ),
        (
            {PICTURE.url: ""},
            "[image omitted: this model takes no images]",
            "history.image.replaced",
            "could not be described",
        ),
        (
            {"https://x.test/another": "A blue door."},
            "[image omitted: this model takes no images]",
            "history.image.replaced",
            "does not support images.",
        ),
    ],
    ids=["described", "asked in vain", "not asked"],
)
def test_an_unsupported_image_is_replaced_by_its_description(
    descriptions: dict[str, str], text: str, code: str, message: str
) -> None:
    found = ContentReader(TEXT, tool_output_images=False, descriptions=descriptions)
    assert found.read_parts([IMAGE]) == (TextPart(text),)
    assert codes(found) == [code]
    assert message in found.diagnostics.found[0].message


def test_a_supported_image_is_not_replaced_by_its_description() -> None:
    found = ContentReader(
        EVERYTHING, tool_output_images=False, descriptions={PICTURE.url: "A red door."}
    )
    assert found.read_parts([IMAGE]) == (PICTURE,)


def test_an_image_without_a_url_has_no_description() -> None:
    found = ContentReader(TEXT, tool_output_images=False, descriptions={"": "A red door."})
    [part] = found.read_parts([{"type": "input_image", "file_id": "file_1"}])
    assert part == TextPart("[image omitted: this model takes no images]")


@table(
    ("part", "inputs", "expected"),
    [
        ({"type": "input_file", "file_id": "f"}, TEXT, ("`file_id`", "`file_data`")),
        ({"type": "input_image", "file_id": "f"}, EVERYTHING, ("`file_id`", "`image_url`")),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            TEXT,
            ("`input_audio`", "`input_text`"),
        ),
        ({"type": "input_audio", "audio_url": "https://x.test/a"}, EVERYTHING, ("`audio_url`",)),
        ({"type": "input_audio", "input_audio": {}}, EVERYTHING, ("`input_audio`", "`format`")),
        ({"type": "input_image"}, EVERYTHING, ("without an address",)),
    ],
)
def test_a_diagnostic_of_lost_media_names_the_field_and_what_to_send(
    part: Any, inputs: frozenset[str], expected: tuple[str, ...]
) -> None:
    found = reader(inputs)
    found.read_parts([part])
    [diagnostic] = found.diagnostics.found
    assert [text for text in expected if text not in diagnostic.message] == []


# --- files as text --------------------------------------------------------------------------------

NOTES = "data:text/plain;base64,YWxwaGE="
PDF = "data:application/pdf;base64,JVBERi0xLjQK"


@table(
    ("name", "text"),
    [
        ("a.txt", "[file a.txt]\nalpha\n[end of file a.txt]"),
        (None, "[file]\nalpha\n[end of file]"),
    ],
)
def test_a_file_with_text_is_replaced_by_its_text(name: str | None, text: str) -> None:
    found = reader(TEXT)
    part = {"type": "input_file", "filename": name, "file_data": NOTES}
    assert found.read_parts([part]) == (TextPart(text),)
    assert codes(found) == ["history.file.inlined"]


def test_a_file_of_an_unsupported_type_is_replaced_by_its_text() -> None:
    pdf_only = MediaSupport(types=frozenset({"application/pdf"}))
    found = ContentReader(EVERYTHING, tool_output_images=False, media=pdf_only)
    part = {"type": "input_file", "filename": "a.txt", "file_data": NOTES}
    assert "alpha" in str(found.read_parts([part]))
    assert codes(found) == ["history.file.inlined"]


def test_a_supported_file_is_not_replaced_by_its_text() -> None:
    part = {"type": "input_file", "filename": "a.txt", "file_data": NOTES}
    assert read([part]) == (FilePart(filename="a.txt", data=NOTES),)


@table(
    ("file_texts", "code", "message"),
    [
        ({PDF: "beta"}, "history.file.inlined", "replaced by its text"),
        ({PDF: ""}, "history.file.replaced", "no text of this PDF can be read"),
        ({}, "history.file.replaced", "antiphon[pdf]"),
    ],
    ids=["with text", "without text", "without a PDF reader"],
)
def test_a_pdf_is_replaced_by_its_text_if_that_was_read(
    file_texts: dict[str, str], code: str, message: str
) -> None:
    found = ContentReader(TEXT, tool_output_images=False, file_texts=file_texts)
    [part] = found.read_parts([{"type": "input_file", "filename": "a.pdf", "file_data": PDF}])
    assert isinstance(part, TextPart)
    assert ("beta" in part.text) is bool(file_texts.get(PDF))
    assert codes(found) == [code]
    assert message in found.diagnostics.found[0].message


def test_a_content_part_of_unknown_type_is_ignored_with_a_diagnostic() -> None:
    found = reader()
    assert found.read_parts([{"type": "hologram", "data": 1}]) == ()
    [diagnostic] = found.diagnostics.found
    assert diagnostic.code == HistoryCode.PART_IGNORED
    assert "'hologram'" in diagnostic.message


def test_media_of_a_text_only_role_moves_to_a_user_message() -> None:
    found = reader()
    kept, moved = found.move_media([TextPart("look:"), PICTURE, PAPER, TextPart("done")])
    assert [part.text for part in kept if isinstance(part, TextPart)] == [
        "look:",
        "[image: see the next message]",
        "[file: see the next message]",
        "done",
    ]
    assert moved == (MessageStep("user", (PICTURE, PAPER)),)
    assert codes(found) == ["history.image.moved", "history.file.moved"]


def test_text_alone_moves_nothing() -> None:
    found = reader()
    assert found.move_media([TextPart("hello")]) == ((TextPart("hello"),), ())
    assert found.diagnostics.found == []


def test_a_tool_result_keeps_images_where_the_provider_supports_them() -> None:
    found = reader(images=True)
    kept, moved = found.move_tool_media([PICTURE, PAPER])
    assert kept == (PICTURE, TextPart("[file: see the next message]"))
    assert moved == (MessageStep("user", (PAPER,)),)
    assert reader().move_tool_media([PICTURE])[1] == (MessageStep("user", (PICTURE,)),)


# --- media types ----------------------------------------------------------------------------------

STRICT = MediaSupport(
    types=frozenset({"image/png", "text/*"}), image_links="s3://.*", file_ids="files/.*"
)


@table(
    ("part", "kept"),
    [
        (IMAGE, PICTURE),
        ({"image_url": "s3://a/b.png"}, ImagePart("s3://a/b.png")),
        (
            {"type": "input_file", "filename": "a", "file_data": "data:;base64,aGk="},
            FilePart("a", data="data:text/plain;base64,aGk="),
        ),
        ({"type": "input_file", "file_id": "files/1"}, FilePart(file_id="files/1")),
        (
            {"type": "input_file", "file_id": "file-1", "file_data": "data:text/plain;base64,aGk="},
            FilePart(data="data:text/plain;base64,aGk="),
        ),
        ({"type": "input_file", "file_url": "https://a/b.txt"}, FilePart(url="https://a/b.txt")),
    ],
)
def test_supported_media_is_normalized(part: Any, kept: Part) -> None:
    found = ContentReader(EVERYTHING, tool_output_images=False, media=STRICT)
    assert found.read_parts([part]) == (kept,)
    assert codes(found) == []


@table(
    ("part", "code", "text"),
    [
        (
            {"image_url": "https://a.test/b.png"},
            HistoryCode.IMAGE_REPLACED,
            "[image: https://a.test/b.png]",
        ),
        (
            {"image_url": "file-1"},
            HistoryCode.IMAGE_REPLACED,
            "[image omitted: its address cannot be read]",
        ),
        (
            {"image_url": "data:image/gif;base64,AA=="},
            HistoryCode.IMAGE_REPLACED,
            "[image omitted: image/gif is not accepted]",
        ),
        (
            {"type": "input_file", "filename": "a.zip", "file_data": "data:a/zip;base64,AA=="},
            HistoryCode.FILE_REPLACED,
            "[file a.zip omitted: a/zip is not accepted]",
        ),
        (
            {"type": "input_file", "file_id": "file-1"},
            HistoryCode.FILE_REPLACED,
            "[file omitted: it is kept elsewhere]",
        ),
        (
            {"type": "input_file", "file_url": "https://a.test/b"},
            HistoryCode.FILE_REPLACED,
            "[file: https://a.test/b]",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            HistoryCode.AUDIO_REPLACED,
            "[audio omitted: audio/wav is not accepted]",
        ),
    ],
)
def test_media_that_a_provider_would_reject_is_replaced_by_a_marker(
    part: Any, code: HistoryCode, text: str
) -> None:
    found = ContentReader(EVERYTHING, tool_output_images=False, media=STRICT)
    assert found.read_parts([part]) == (TextPart(text),)
    assert codes(found) == [code]
