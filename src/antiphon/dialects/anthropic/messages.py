"""History as Anthropic messages.

A history from a client of the same format keeps the client's messages and the order of its blocks
(`BlockPlace`), with its cache breakpoints and the members that only this format has. Any other
history is written as `MessageWriter` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any

from msgspec import Raw

from antiphon.core.history.steps import (
    AudioPart,
    BlockPlace,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
    is_own,
)
from antiphon.core.items import CacheBreakpoint, Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.anthropic.blocks import REDACTED, THINKING
from antiphon.dialects.anthropic.kept_blocks import is_server_block
from antiphon.dialects.anthropic.media import media_block, text_block
from antiphon.dialects.message_writer import MessageWriter, is_instruction, join_text
from antiphon.dialects.placeholders import CONTINUE, NO_OUTPUT, NO_TEXT
from antiphon.dialects.reasoning import reasoning_states

_REASONING_TYPES = frozenset({"thinking", "redacted_thinking"})
_SYSTEM_BETA = "mid-conversation-"
"""The beginning of the betas that allow messages of the system between others."""


def write_messages(plan: Plan, *, unsigned_thinking: bool) -> list[Document]:
    """The messages of a request. `unsigned_thinking`: reasoning goes back even without state."""
    writer = _MessageWriter(plan, unsigned_thinking)
    return writer.write_placed() if _has_places(plan.history) else writer.write()


def _has_places(history: Iterable[Step]) -> bool:
    return any(step.place is not None or _has_client_block(step) for step in history)


def _has_client_block(step: Step) -> bool:
    """Whether a step has a whole content block of this format, from the store."""
    parts = step.parts if isinstance(step, MessageStep) else ()
    return any(isinstance(part, TextPart) and "type" in (part.extra or ()) for part in parts)


def remove_reasoning(messages: Iterable[Document]) -> list[Document]:
    """The same messages for a request with thinking disabled."""
    return [
        message | {"content": [block for block in message["content"] if not _is_reasoning(block)]}
        for message in messages
    ]


def resumes_without_reasoning(messages: Sequence[Document]) -> bool:
    """Whether the last message holds tool results for a turn that did not begin with reasoning.

    The API refuses a thinking budget then. A turn may span several rounds of calls: it began after
    the last user message that was more than tool results.
    """
    if not _is_result(messages[-1]["content"][0]):
        return False
    turn = [*takewhile(_continues_turn, reversed(messages))]
    answers = [message for message in turn if message["role"] == "assistant"]
    return not (answers and _is_reasoning(answers[-1]["content"][0]))


def _continues_turn(message: Document) -> bool:
    """Whether a message is a response, or holds nothing but results of its calls."""
    return message["role"] == "assistant" or all(map(_is_result, message["content"]))


def _is_result(block: Document) -> bool:
    return bool(block["type"] == "tool_result")


def _is_paused(message: Document) -> bool:
    """Whether a message has tools that the provider runs: a turn that it has paused, and goes on
    with if it gets it back as it was."""
    return any(is_server_block(block) for block in message["content"])


def _is_reasoning(block: Document) -> bool:
    return block["type"] in _REASONING_TYPES


def system_blocks(step: MessageStep) -> list[Document]:
    """The blocks of a system message before all others: one, unless the client has sent blocks."""
    if step.place is None:
        text = join_text(step.parts, "\n")
        return [text_block(text)] if text.strip() else []
    return [block for part in step.parts for block in _part_blocks(part)]


def cache_control(cache: CacheBreakpoint) -> Document:
    members = {"ttl": cache.ttl, "scope": cache.scope}
    return {"type": "ephemeral"} | {name: each for name, each in members.items() if each}


def limit_breakpoints(messages: Iterable[Document], most: int) -> None:
    """Remove the first breakpoints of a client if there are more than the API accepts: those of the
    earlier turns of a thread are stored with them."""
    blocks = (block for message in messages for block in message["content"])
    marked = [each for block in blocks for each in _inner_blocks(block) if "cache_control" in each]
    for block in marked[: max(0, len(marked) - most)]:
        del block["cache_control"]


def _inner_blocks(block: Document) -> Iterator[Document]:
    """The blocks of a tool's result, and the block itself."""
    if _is_result(block):
        yield from block["content"]
    yield block


def with_client_members(
    block: Document, cache: CacheBreakpoint | None, extra: Mapping[str, Any] | None
) -> Document:
    """A block with the client's cache breakpoint and the members that only this format has; a
    whole block of the client takes its place."""
    if extra is not None:
        block = dict(extra) if "type" in extra else block | dict(extra)
    return block if cache is None else block | {"cache_control": cache_control(cache)}


def _part_blocks(part: Part) -> list[Document]:
    if isinstance(part, RefusalPart | TextPart) and not part.text.strip():
        return []
    if isinstance(part, RefusalPart):
        return [text_block(part.text)]
    if isinstance(part, AudioPart):
        return [media_block(part)]
    if not isinstance(part, TextPart):
        block = media_block(part)
    elif part.tool is None:
        block = text_block(part.text)
    else:
        block = {"type": "tool_reference", "tool_name": part.tool}
    return [with_client_members(block, part.cache, part.extra)]


class _PlacedMessage:
    """One message while its blocks are collected, each with its number in the client's message."""

    def __init__(self, role: str, place: BlockPlace | None) -> None:
        self.role = role
        self.place = place
        self._extra: Document = {}
        self._blocks: list[tuple[bool, int, Document]] = []

    def takes(self, role: str, place: BlockPlace | None) -> bool:
        """Whether a step belongs to this message, and not to the next one of the same role."""
        known = self.place is None or place is None or self.place.message == place.message
        return role == self.role and known

    def add(
        self,
        blocks: Iterable[Document],
        place: BlockPlace | None,
        extra: Mapping[str, Any] | None,
    ) -> None:
        """Add the blocks of a step; one without a place stays behind the step before it."""
        self._extra |= extra or {}
        previous = self._blocks[-1][1] if self._blocks else 0
        number = previous if place is None else place.block
        # The API requires results before everything else of a message.
        self._blocks += [(not _is_result(block), number, block) for block in blocks]

    def document(self) -> Document:
        """The message. It must not end with reasoning, and calls come last where no place says
        otherwise."""
        blocks = [block for _, _, block in sorted(self._blocks, key=lambda each: each[:2])]
        while blocks and self.role == "assistant" and _is_reasoning(blocks[-1]):
            blocks.pop()
        return {"role": self.role, "content": blocks, **self._extra}


class _MessageWriter(MessageWriter):
    def __init__(self, plan: Plan, unsigned_thinking: bool) -> None:
        super().__init__(plan)
        self._unsigned_thinking = unsigned_thinking
        betas = plan.parameters.get("betas") or ()
        self._system_role = any(beta.startswith(_SYSTEM_BETA) for beta in betas)

    # --- messages as the client grouped them ------------------------------------------------------

    def write_placed(self) -> list[Document]:
        """The messages of a history from a client of this format."""
        messages: list[_PlacedMessage] = []
        for step in dropwhile(is_instruction, self._plan.history):
            role = self._role(step)
            # A system message that becomes text of the user belongs to the message before it.
            place = None if role == "user" and is_instruction(step) else step.place
            extra = step.extra if place is not None and isinstance(step, MessageStep) else None
            if not messages or not messages[-1].takes(role, place):
                messages.append(_PlacedMessage(role, place))
            messages[-1].add(self._step_blocks(step), place, extra)
        written = [message.document() for message in messages]
        return self._complete([each for each in written if each["content"]])

    def _role(self, step: Step) -> str:
        if is_own(step):
            return "assistant"
        return "system" if self._system_role and is_instruction(step) else "user"

    def _complete(self, messages: list[Document]) -> list[Document]:
        """Messages that begin with the user, and end with the assistant only for a prefill."""
        if not messages or messages[0]["role"] == "assistant":
            messages.insert(0, {"role": "user", "content": [text_block(NO_TEXT)]})
        is_complete = messages[-1]["role"] == "assistant" and not _is_paused(messages[-1])
        if is_complete and not self._plan.parameters.get("prefill"):
            messages.append({"role": "user", "content": [text_block(CONTINUE)]})
        return messages

    def _step_blocks(self, step: Step) -> list[Document]:
        if isinstance(step, ReasoningStep):
            return [*self.reasoning(step)]
        if isinstance(step, ToolCallStep):
            return [with_client_members(self._call(step), step.cache, step.extra)]
        if isinstance(step, ToolResultStep):
            return [self._placed_result(step)]
        if is_instruction(step) and not self._system_role:
            return self._instruction(step)
        return [block for part in step.parts for block in _part_blocks(part)]

    def _placed_result(self, step: ToolResultStep) -> Document:
        content = [block for part in step.parts for block in _part_blocks(part)]
        call_id = self._ids.find(step.call_id)
        whole = content or [text_block(NO_OUTPUT)]
        result = self.result(call_id, whole, is_error=bool(step.is_error))
        if step.is_error is False:  # the default; but the client has sent it
            result["is_error"] = False
        return with_client_members(result, step.cache, step.extra)

    # --- blocks -----------------------------------------------------------------------------------

    def text(self, text: str) -> Document:
        return text_block(text)

    def media(self, part: ImagePart | FilePart | AudioPart) -> Document:
        return media_block(part)

    def call(self, call_id: str, name: str, arguments: Raw) -> Document:
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def result(self, call_id: str, content: list[Document], *, is_error: bool) -> Document:
        result: Document = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        return result | {"is_error": True} if is_error else result

    def reasoning(self, step: ReasoningStep) -> Iterator[Document]:
        states = [*reasoning_states([step], THINKING, REDACTED)]
        yield from (dict(state.value) for state in states if isinstance(state.value, Mapping))
        if self._unsigned_thinking and not states and step.text:
            yield {"type": "thinking", "thinking": step.text, "signature": ""}

    def is_reasoning(self, block: Document) -> bool:
        return _is_reasoning(block)
