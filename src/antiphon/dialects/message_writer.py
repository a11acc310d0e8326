"""History as alternating user and assistant messages of content blocks.

1. Everything the client sent between two responses is one user message, with tool results first;
   all steps of a response are one assistant message, with its calls last. The first and the last
   message are the user's.
2. Text without a visible character is refused by providers, so it is left out; a user message
   without content gets a placeholder.
3. A message never depends on later ones: a growing thread keeps its prefix, and with it the
   provider's prompt cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import dropwhile, groupby
from typing import TypeGuard

from msgspec import Raw

from antiphon.core.history.steps import (
    AudioPart,
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
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.call_ids import CallIdFormat, CallIds
from antiphon.dialects.placeholders import CONTINUE, NO_OUTPUT, NO_TEXT

_CALL_IDS = CallIdFormat(r"[a-zA-Z0-9_-]{1,64}", 32)


def join_text(parts: Iterable[Part], separator: str) -> str:
    """The text of a message's parts; no separator for the model's own output, which is one text."""
    return separator.join(part.text for part in parts if isinstance(part, (TextPart, RefusalPart)))


def leading_instructions(history: Sequence[Step]) -> list[str]:
    """System and developer messages at the start of a history: part of the system prompt."""
    return [join_text(step.parts, "\n") for step in leading_system_messages(history)]


def leading_system_messages(history: Sequence[Step]) -> Iterator[MessageStep]:
    for step in history:
        if not is_instruction(step):
            return
        yield step


def is_instruction(step: Step) -> TypeGuard[MessageStep]:
    return isinstance(step, MessageStep) and step.role in ("system", "developer")


def resumes_without_reasoning(
    messages: Sequence[Document],
    is_result: Callable[[Document], bool],
    is_reasoning: Callable[[Document], bool],
) -> bool:
    """Whether the last message holds tool results for a turn that did not begin with reasoning.

    Providers refuse a thinking budget then. A turn may span several rounds of calls: it began after
    the last user message that was more than tool results.
    """
    if not is_result(messages[-1]["content"][0]):
        return False
    index = len(messages) - 3
    while all(map(is_result, messages[index]["content"])):
        index -= 2
    return not is_reasoning(messages[index + 1]["content"][0])


class MessageWriter(ABC):
    """Writes the messages of one request; a dialect defines the form of each block."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ids = CallIds(_CALL_IDS)

    @abstractmethod
    def text(self, text: str) -> Document: ...
    @abstractmethod
    def media(self, part: ImagePart | FilePart | AudioPart) -> Document: ...
    @abstractmethod
    def call(self, call_id: str, name: str, arguments: Raw) -> Document: ...
    @abstractmethod
    def result(self, call_id: str, content: list[Document], *, is_error: bool) -> Document: ...
    @abstractmethod
    def reasoning(self, step: ReasoningStep) -> Iterable[Document]: ...
    @abstractmethod
    def is_reasoning(self, block: Document) -> bool: ...

    def user_content(self, step: MessageStep) -> list[Document]:
        """The blocks of one message of the user."""
        return self._content(step.parts)

    def write(self) -> list[Document]:
        """The messages of the request."""
        messages: list[Document] = []
        for own, steps in groupby(dropwhile(is_instruction, self._plan.history), key=is_own):
            if own:
                content = self._assistant_content(steps)
                if content and not messages:
                    _append(messages, "user", [self.text(NO_TEXT)])
                _append(messages, "assistant", content)
            else:
                _append(messages, "user", self._client_content(steps) or [self.text(NO_TEXT)])
        if not messages:
            _append(messages, "user", [self.text(NO_TEXT)])
        elif messages[-1]["role"] == "assistant" and not self._plan.parameters.get("prefill"):
            _append(messages, "user", [self.text(CONTINUE)])
        return messages

    def _assistant_content(self, steps: Iterable[Step]) -> list[Document]:
        """One assistant turn. Calls come last in it, and it must not end with reasoning."""
        content: list[Document] = []
        calls: list[Document] = []
        for step in steps:
            if isinstance(step, ReasoningStep):
                content += self.reasoning(step)
            elif isinstance(step, ToolCallStep):
                calls.append(self._call(step))
            else:
                # The steps of the client are a group of their own.
                assert isinstance(step, MessageStep)
                content += self._text_blocks(join_text(step.parts, ""))
        while content and not calls and self.is_reasoning(content[-1]):
            content.pop()
        return content + calls

    def _call(self, step: ToolCallStep) -> Document:
        name = self._plan.identities.name_for_provider(step.name, step.namespace)
        # The arguments are a JSON object; they keep the model's bytes.
        return self.call(self._ids.assign(step.call_id), name, Raw(step.arguments.encode()))

    def _client_content(self, steps: Iterable[Step]) -> list[Document]:
        """One client turn: results first, as `core.history.pairing` orders them, then messages."""
        content: list[Document] = []
        for step in steps:
            if isinstance(step, ToolResultStep):
                result = self._content(step.parts) or [self.text(NO_OUTPUT)]
                call_id = self._ids.find(step.call_id)
                content.append(self.result(call_id, result, is_error=bool(step.is_error)))
            else:
                # The steps of the assistant are a group of their own.
                assert isinstance(step, MessageStep)
                user = step.role == "user"
                content += self.user_content(step) if user else self._instruction(step)
        return content

    def _instruction(self, step: MessageStep) -> list[Document]:
        """A system message inside a thread: user text with a tag, so that it keeps its position."""
        text = join_text(step.parts, "\n")
        return self._text_blocks(f"<system>\n{text}\n</system>") if text.strip() else []

    def _content(self, parts: Iterable[Part]) -> list[Document]:
        content: list[Document] = []
        for part in parts:
            if isinstance(part, TextPart | RefusalPart):
                content += self._text_blocks(part.text)
            else:
                content.append(self.media(part))
        return content

    def _text_blocks(self, text: str) -> list[Document]:
        return [self.text(text)] if text.strip() else []


def _append(messages: list[Document], role: str, content: list[Document]) -> None:
    """Append content, to the last message if that has the same role."""
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    elif content:
        messages.append({"role": role, "content": content})
