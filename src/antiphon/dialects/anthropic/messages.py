"""History as Anthropic messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Raw

from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, ReasoningStep
from antiphon.core.plan.plan import Plan
from antiphon.dialects import message_writer
from antiphon.dialects.anthropic.blocks import REDACTED, THINKING
from antiphon.dialects.anthropic.media import media_block, text_block
from antiphon.dialects.message_writer import MessageWriter
from antiphon.dialects.reasoning import reasoning_states
from antiphon.wire.items import Document

_REASONING_TYPES = frozenset({"thinking", "redacted_thinking"})


def write_messages(plan: Plan, *, unsigned_thinking: bool) -> list[Document]:
    """The messages of a request. `unsigned_thinking`: reasoning goes back even without state."""
    return _AnthropicMessageWriter(plan, unsigned_thinking).write()


def remove_reasoning(messages: Iterable[Document]) -> list[Document]:
    """The same messages for a request with thinking disabled."""
    return [
        message | {"content": [block for block in message["content"] if not _is_reasoning(block)]}
        for message in messages
    ]


def resumes_without_reasoning(messages: Sequence[Document]) -> bool:
    """Whether the last message holds tool results for a turn that did not begin with reasoning."""
    return message_writer.resumes_without_reasoning(messages, _is_result, _is_reasoning)


def _is_result(block: Document) -> bool:
    return bool(block["type"] == "tool_result")


def _is_reasoning(block: Document) -> bool:
    return block["type"] in _REASONING_TYPES


class _AnthropicMessageWriter(MessageWriter):
    def __init__(self, plan: Plan, unsigned_thinking: bool) -> None:
        super().__init__(plan)
        self._unsigned_thinking = unsigned_thinking

    def text(self, text: str) -> Document:
        return text_block(text)

    def media(self, part: ImagePart | FilePart | AudioPart) -> Document:
        return media_block(part)

    def call(self, call_id: str, name: str, arguments: Raw) -> Document:
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def result(self, call_id: str, content: list[Document]) -> Document:
        return {"type": "tool_result", "tool_use_id": call_id, "content": content}

    def reasoning(self, step: ReasoningStep) -> Iterator[Document]:
        states = [*reasoning_states([step], THINKING, REDACTED)]
        yield from (dict(state.value) for state in states if isinstance(state.value, Mapping))
        if self._unsigned_thinking and not states and step.text:
            yield {"type": "thinking", "thinking": step.text, "signature": ""}

    def is_reasoning(self, block: Document) -> bool:
        return _is_reasoning(block)
