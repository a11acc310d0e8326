"""A history as turns of blocks: whatever happened, the turns alternate and nothing is empty.

1. A client's words between two answers are one user turn, with the results of tools first; all
   steps of an answer are one assistant turn, with its calls last. The first and the last turn are
   the user's.
2. Text without a visible character is refused, so it is left out; a turn left without any content
   of the client's says so.
3. What stands in a turn never depends on later ones: a thread that grows keeps its past.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile, groupby, takewhile
from typing import Any, TypeAlias

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
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.naming import provider_name
from antiphon.dialects.call_ids import CallIdForm, CallIds

Body: TypeAlias = dict[str, Any]

GO_ON = "Continue."
_CALL_IDS = CallIdForm(r"[a-zA-Z0-9_-]{1,64}", 32)
_NO_TEXT = "[no text]"
_NO_OUTPUT = "[no output]"


def joined(parts: Iterable[Part], separator: str) -> str:
    """A model's own words as it wrote them (no separator), anybody else's part by part."""
    return separator.join(part.text for part in parts if isinstance(part, TextPart | RefusalPart))


def leading(history: Sequence[Step]) -> list[str]:
    """Instructions that stand before everything else: they belong to the system prompt."""
    told = takewhile(_instructs, history)
    return [joined(step.parts, "\n") for step in told if isinstance(step, MessageStep)]


def _instructs(step: Step) -> bool:
    return isinstance(step, MessageStep) and step.role in ("system", "developer")


def resumes_without_thought(
    messages: Sequence[Body], is_result: Callable[[Body], bool], is_thought: Callable[[Body], bool]
) -> bool:
    """Whether results of tools answer a turn that did not begin with a thought.

    A model that thinks by a budget is refused then. A turn may have gone through several rounds of
    calls: it began where the user had last said something.
    """
    if not is_result(messages[-1]["content"][0]):
        return False
    place = len(messages) - 3
    while all(map(is_result, messages[place]["content"])):
        place -= 2
    return not is_thought(messages[place + 1]["content"][0])


class TurnWriter(ABC):
    """Steps in, turns out; it remembers the ids it gave out. A dialect says how blocks look."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ids = CallIds(_CALL_IDS)

    @abstractmethod
    def text(self, text: str) -> Body: ...
    @abstractmethod
    def media(self, part: ImagePart | FilePart | AudioPart) -> Body: ...
    @abstractmethod
    def call(self, call_id: str, name: str, arguments: Raw) -> Body: ...
    @abstractmethod
    def result(self, call_id: str, content: list[Body]) -> Body: ...
    @abstractmethod
    def thought(self, thought: ReasoningStep) -> Iterable[Body]: ...
    @abstractmethod
    def is_thought(self, block: Body) -> bool: ...

    def said(self, said: MessageStep) -> list[Body]:
        """What a user says at a time."""
        return self._parts(said.parts)

    def conversation(self) -> list[Body]:
        """The messages of a request."""
        messages: list[Body] = []
        for own, group in groupby(dropwhile(_instructs, self._plan.history), key=is_own):
            if own:
                content = self._answer(group)
                if content and not messages:
                    _say(messages, "user", [self.text(_NO_TEXT)])
                _say(messages, "assistant", content)
            else:
                _say(messages, "user", self._words(group) or [self.text(_NO_TEXT)])
        if not messages:
            _say(messages, "user", [self.text(_NO_TEXT)])
        elif messages[-1]["role"] == "assistant":  # to go on there is called a prefill: refused
            _say(messages, "user", [self.text(GO_ON)])
        return messages

    def _answer(self, steps: Iterable[Step]) -> list[Body]:
        """One turn of the assistant. A call must be the last thing in it, a thought must not."""
        content: list[Body] = []
        calls: list[Body] = []
        for step in steps:
            if isinstance(step, ReasoningStep):
                content += self.thought(step)
            elif isinstance(step, ToolCallStep):
                calls.append(self._call(step))
            else:
                assert isinstance(step, MessageStep)  # the client's steps are a turn of their own
                content += self._texts(joined(step.parts, ""))
        while content and not calls and self.is_thought(content[-1]):
            content.pop()
        return content + calls

    def _call(self, call: ToolCallStep) -> Body:
        known = self._plan.identities.by_requested_name(call.name, call.namespace)
        name = known.provider_name if known else provider_name(call.name, call.namespace)
        # An object, and as the model wrote it.
        return self.call(self._ids.called(call.call_id), name, Raw(call.arguments.encode()))

    def _words(self, steps: Iterable[Step]) -> list[Body]:
        """One turn of the client: results first, as pairing has put them, then what was said."""
        content: list[Body] = []
        for step in steps:
            if isinstance(step, ToolResultStep):
                result = self._parts(step.parts) or [self.text(_NO_OUTPUT)]
                content.append(self.result(self._ids.answered(step.call_id), result))
            else:
                assert isinstance(
                    step, MessageStep
                )  # the assistant's steps are a turn of their own
                content += self.said(step) if step.role == "user" else self._instruction(step)
        return content

    def _instruction(self, said: MessageStep) -> list[Body]:
        """Instructions in the middle of a thread: their place matters more than their rank."""
        text = joined(said.parts, "\n")
        return self._texts(f"<system>\n{text}\n</system>") if text.strip() else []

    def _parts(self, parts: Iterable[Part]) -> list[Body]:
        content: list[Body] = []
        for part in parts:
            if isinstance(part, TextPart | RefusalPart):
                content += self._texts(part.text)
            else:
                content.append(self.media(part))
        return content

    def _texts(self, text: str) -> list[Body]:
        return [self.text(text)] if text.strip() else []


def _say(messages: list[Body], role: str, content: list[Body]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    elif content:
        messages.append({"role": role, "content": content})
