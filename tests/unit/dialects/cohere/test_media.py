"""Media in Cohere requests."""

from __future__ import annotations

import pytest

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
from tests.support.dialect_samples.cohere_history import messages
from tests.support.dialect_samples.history import message_step


def test_images_are_sent_as_content_blocks() -> None:
    parts = (
        TextPart("look"),
        TextPart(" "),
        ImagePart("https://x.test/1", "low"),
        ImagePart("data:image/png;base64,AAAA", "original"),
    )
    [message] = messages(MessageStep("user", parts))
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x.test/1", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (FilePart(filename="a.pdf"), "[file a.pdf omitted: this model takes no files]"),
        (FilePart(), "[file without a name omitted: this model takes no files]"),
        (AudioPart("AA==", "wav"), "[audio omitted: this model takes no audio]"),
    ],
)
def test_unsupported_media_become_a_notice(part: Part, text: str) -> None:
    assert messages(MessageStep("user", (part,))) == [{"role": "user", "content": text}]


def test_an_image_in_a_tool_result_becomes_a_notice() -> None:
    result = ToolResultStep("a", (ImagePart("https://x.test/1"),), "look")
    tool = messages(message_step("user", "hi"), ToolCallStep("a", "look", "{}"), result)[-1]
    assert tool["content"] == "[image omitted: it cannot be shown here]"
