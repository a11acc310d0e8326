"""A history as Anthropic messages: how the blocks of its turns look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Raw

from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, ReasoningStep
from antiphon.core.plan.plan import Plan
from antiphon.dialects import message_writer as turn
from antiphon.dialects.anthropic.blocks import REDACTED, THINKING
from antiphon.dialects.anthropic.media import media_block, text_block
from antiphon.dialects.message_writer import Body, TurnWriter

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


def conversation(plan: Plan, *, unsigned_thinking: bool) -> list[Body]:
    """The messages of a request. `unsigned_thinking`: thought goes back even if it has no state."""
    return _Writer(plan, unsigned_thinking).conversation()


def without_thoughts(messages: Iterable[Body]) -> list[Body]:
    """The same messages for a request that does not think."""
    return [
        message | {"content": [block for block in message["content"] if not _is_thought(block)]}
        for message in messages
    ]


def resumes_without_thought(messages: Sequence[Body]) -> bool:
    """Whether results of tools answer a turn that did not begin with a thought."""
    return turn.resumes_without_thought(messages, _is_result, _is_thought)


def _is_result(block: Body) -> bool:
    return bool(block["type"] == "tool_result")


def _is_thought(block: Body) -> bool:
    return block["type"] in _THOUGHTS


class _Writer(TurnWriter):
    def __init__(self, plan: Plan, unsigned_thinking: bool) -> None:
        super().__init__(plan)
        self._unsigned = unsigned_thinking

    def text(self, text: str) -> Body:
        return text_block(text)

    def media(self, part: ImagePart | FilePart | AudioPart) -> Body:
        return media_block(part)

    def call(self, call_id: str, name: str, arguments: Raw) -> Body:
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def result(self, call_id: str, content: list[Body]) -> Body:
        return {"type": "tool_result", "tool_use_id": call_id, "content": content}

    def thought(self, thought: ReasoningStep) -> Iterator[Body]:
        states = [state for state in thought.states if state.scheme in (THINKING, REDACTED)]
        yield from (dict(state.value) for state in states if isinstance(state.value, Mapping))
        if self._unsigned and not states and thought.text:
            yield {"type": "thinking", "thinking": thought.text, "signature": ""}

    def is_thought(self, block: Body) -> bool:
        return _is_thought(block)
