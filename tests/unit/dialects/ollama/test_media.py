"""Media in Ollama requests."""

from __future__ import annotations

from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from tests.support.dialect_samples.ollama_history import messages
from tests.support.tables import table

PIXEL = "data:image/png;base64,AAAA"


def test_images_are_sent_beside_the_text() -> None:
    parts = (TextPart("look"), ImagePart(PIXEL), TextPart("well"))
    [message] = messages(MessageStep("user", parts))
    assert message == {"role": "user", "content": "look\nwell", "images": ["AAAA"]}
    [message] = messages(MessageStep("user", (ImagePart(PIXEL),)))
    assert message == {"role": "user", "content": "", "images": ["AAAA"]}


def test_an_image_in_a_tool_result_is_sent_beside_it() -> None:
    [_, tool] = messages(
        ToolCallStep("a", "look", "{}"), ToolResultStep("a", (ImagePart(PIXEL),), "look")
    )
    assert tool["images"] == ["AAAA"]


@table(
    ("part", "text"),
    [
        (ImagePart("https://x.test/1.png"), "[image: https://x.test/1.png]"),
        (ImagePart("data:image/png;base64,"), "[image omitted: it cannot be read]"),
        (ImagePart("data:image/png;base64,A"), "[image omitted: it cannot be read]"),
        (ImagePart("data:image/png;base64,Ä"), "[image omitted: it cannot be read]"),
        (ImagePart("data:image/svg+xml,<svg/>"), "[image omitted: it cannot be read]"),
        (FilePart(filename="a.pdf"), "[file a.pdf omitted: this model takes no files]"),
        (FilePart(), "[file without a name omitted: this model takes no files]"),
        (AudioPart("AA==", "wav"), "[audio omitted: this model takes no audio]"),
    ],
)
def test_unsupported_media_become_a_notice(part: Part, text: str) -> None:
    assert messages(MessageStep("user", (part,))) == [{"role": "user", "content": text}]
