"""History as Converse messages, and the tools and cache points that depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Raw

from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, MessageStep, ReasoningStep
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects import message_writer
from antiphon.dialects.bedrock.blocks import REASONING
from antiphon.dialects.bedrock.media import Media, text_block
from antiphon.dialects.message_writer import MessageWriter
from antiphon.dialects.placeholders import CONTINUE
from antiphon.dialects.reasoning import reasoning_states

_SEE_FILE = "[see the file]"
CACHE_POINT: Mapping[str, Any] = {"cachePoint": {"type": "default"}}


def write_messages(plan: Plan, *, separate_tool_messages: bool) -> list[Document]:
    """The messages of a request. `separate_tool_messages`: text never stands beside calls."""
    messages = _MessageWriter(plan).write()
    return [*_separate_tool_blocks(messages)] if separate_tool_messages else messages


def add_cache_points(messages: Sequence[Document]) -> list[Document]:
    """Messages with a cache point behind each of the last two user messages.

    The next turn finds its prefix at the last one. This turn finds its own at the one before, even
    if more blocks were added since than the service looks back.
    """
    found = [*messages]
    for index in range(len(messages) - 1, -1, -2)[:2]:
        found[index] = messages[index] | {"content": [*messages[index]["content"], CACHE_POINT]}
    return found


def list_called_tools(messages: Iterable[Document]) -> list[str]:
    """Names of all tools that were called, in the order of their first calls."""
    blocks = (block for message in messages for block in message["content"])
    return [*dict.fromkeys(block["toolUse"]["name"] for block in blocks if "toolUse" in block)]


def resumes_without_reasoning(messages: Sequence[Document]) -> bool:
    """Whether the last message holds tool results for a turn that did not begin with reasoning."""
    return message_writer.resumes_without_reasoning(messages, _is_result, _is_reasoning)


def _separate_tool_blocks(messages: Iterable[Document]) -> Iterator[Document]:
    """Split each message where calls or results stand beside text, with a filler in between.

    Reasoning belongs to both halves and is left out; the models that need this sign none.
    """
    others = {"user": "assistant", "assistant": "user"}
    for message in messages:
        content = (block for block in message["content"] if not _is_reasoning(block))
        for index, (_, blocks) in enumerate(groupby(content, key=_is_tool_block)):
            if index:
                yield {"role": others[message["role"]], "content": [text_block(CONTINUE)]}
            yield {"role": message["role"], "content": [*blocks]}


def _is_tool_block(block: Document) -> bool:
    return "toolUse" in block or _is_result(block)


def _is_result(block: Document) -> bool:
    return "toolResult" in block


def _is_reasoning(block: Document) -> bool:
    return "reasoningContent" in block


class _MessageWriter(MessageWriter):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._media = Media()

    def text(self, text: str) -> Document:
        return text_block(text)

    def media(self, part: ImagePart | FilePart | AudioPart) -> Document:
        return self._media.block(part)

    def call(self, call_id: str, name: str, arguments: Raw) -> Document:
        return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}

    def result(self, call_id: str, content: list[Document], *, is_error: bool) -> Document:
        status = {"status": "error"} if is_error else {}
        return {"toolResult": {"toolUseId": call_id, "content": content, **status}}

    def reasoning(self, step: ReasoningStep) -> Iterator[Document]:
        """The signed blocks as they came; unsigned reasoning is refused, so it is left out."""
        for state in reasoning_states([step], REASONING):
            if isinstance(state.value, Mapping):
                yield dict(state.value)

    def is_reasoning(self, block: Document) -> bool:
        return _is_reasoning(block)

    def user_content(self, step: MessageStep) -> list[Document]:
        content = super().user_content(step)
        has_document = any("document" in block for block in content)
        has_text = any("text" in block for block in content)
        # A document without any text is refused.
        return [text_block(_SEE_FILE), *content] if has_document and not has_text else content
