"""A history as Converse messages: how the blocks of its turns look, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Raw

from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, MessageStep, ReasoningStep
from antiphon.core.plan.plan import Plan
from antiphon.dialects import message_writer as turn
from antiphon.dialects.bedrock.blocks import REASONING
from antiphon.dialects.bedrock.media import Media, text_block
from antiphon.dialects.message_writer import GO_ON, Body, TurnWriter

_SEE_FILE = "[see the file]"
MARK: Mapping[str, Any] = {"cachePoint": {"type": "default"}}


def conversation(plan: Plan, *, tools_apart: bool) -> list[Body]:
    """The messages of a request. `tools_apart`: words never share a message with calls."""
    messages = _Writer(plan).conversation()
    return [*_taken_apart(messages)] if tools_apart else messages


def marked(messages: Sequence[Body]) -> list[Body]:
    """Messages with a mark behind the last two turns of the user: so far a cache remembers them.

    The last is where the next turn finds this one, the one before is where this turn finds the last
    one, even if more has happened since than the service looks back.
    """
    found = [*messages]
    for place in range(len(messages) - 1, -1, -2)[:2]:
        found[place] = messages[place] | {"content": [*messages[place]["content"], MARK]}
    return found


def used_tools(messages: Iterable[Body]) -> list[str]:
    """The names of all tools that were called, in the order of their first calls."""
    blocks = (block for message in messages for block in message["content"])
    return [*dict.fromkeys(block["toolUse"]["name"] for block in blocks if "toolUse" in block)]


def resumes_without_thought(messages: Sequence[Body]) -> bool:
    """Whether results of tools answer a turn that did not begin with a thought."""
    return turn.resumes_without_thought(messages, _is_result, _is_thought)


def _taken_apart(messages: Iterable[Body]) -> Iterator[Body]:
    """The same turns with something in between wherever a call or a result stands beside words.

    Thought belongs to both of them, so it cannot stay; these models sign none.
    """
    others = {"user": "assistant", "assistant": "user"}
    for message in messages:
        content = (block for block in message["content"] if not _is_thought(block))
        halves = groupby(content, key=_is_tool_block)
        for place, (_, blocks) in enumerate(halves):
            if place:
                yield {"role": others[message["role"]], "content": [text_block(GO_ON)]}
            yield {"role": message["role"], "content": [*blocks]}


def _is_tool_block(block: Body) -> bool:
    return "toolUse" in block or _is_result(block)


def _is_result(block: Body) -> bool:
    return "toolResult" in block


def _is_thought(block: Body) -> bool:
    return "reasoningContent" in block


class _Writer(TurnWriter):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._media = Media()

    def text(self, text: str) -> Body:
        return text_block(text)

    def media(self, part: ImagePart | FilePart | AudioPart) -> Body:
        return self._media.block(part)

    def call(self, call_id: str, name: str, arguments: Raw) -> Body:
        return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}

    def result(self, call_id: str, content: list[Body]) -> Body:
        return {"toolResult": {"toolUseId": call_id, "content": content}}

    def thought(self, thought: ReasoningStep) -> Iterator[Body]:
        """The blocks that were signed, as they came; any other thought stays behind."""
        for state in thought.states:
            if state.scheme == REASONING and isinstance(state.value, Mapping):
                yield dict(state.value)

    def is_thought(self, block: Body) -> bool:
        return _is_thought(block)

    def said(self, said: MessageStep) -> list[Body]:
        content = super().said(said)
        alone = any("document" in block for block in content) and not any(
            "text" in block for block in content
        )
        return [text_block(_SEE_FILE), *content] if alone else content  # refused without a word
