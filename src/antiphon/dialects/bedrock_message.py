"""A history as Converse messages: whatever happened, the turns alternate and nothing is empty.

1. A client's words between two answers are one user turn, with the results of tools first; all
   steps of an answer are one assistant turn, with its calls last. The first and the last turn are
   the user's.
2. Text without a visible character is refused, so it is left out; a turn left without any content
   of the client's says so.
3. What stands in a turn never depends on later ones: a thread that grows keeps its past.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, groupby, takewhile
from typing import Any, TypeAlias

from msgspec import Raw

from antiphon.core.history import Answered, Called, Part, RefusalPart, Said, Step, TextPart, Thought
from antiphon.core.plan import Plan
from antiphon.core.toolbox import provider_name
from antiphon.core.tools import ToolIdentityMap
from antiphon.dialects.bedrock_block import REASONING
from antiphon.dialects.bedrock_media import Media, text_block
from antiphon.dialects.call_id import CallIdForm, CallIds

Body: TypeAlias = dict[str, Any]

_CALL_IDS = CallIdForm(r"[a-zA-Z0-9_-]{1,64}", 32)
_NO_TEXT = "[no text]"
_NO_OUTPUT = "[no output]"
_SEE_FILE = "[see the file]"
_GO_ON = "Continue."
MARK: Mapping[str, Any] = {"cachePoint": {"type": "default"}}


def leading(history: Sequence[Step]) -> list[str]:
    """Instructions that stand before everything else: they belong to the system prompt."""
    told = takewhile(_instructs, history)
    return [_joined(step.parts, "\n") for step in told if isinstance(step, Said)]


def conversation(plan: Plan, *, tools_apart: bool) -> list[Body]:
    """The messages of a request. `tools_apart`: words never share a message with calls."""
    messages: list[Body] = []
    writer = _Writer(plan.identities)
    steps = dropwhile(_instructs, plan.history)
    for own, group in groupby(steps, key=_is_own):
        if own:
            content = writer.answer(group)
            if content and not messages:
                _say(messages, "user", [text_block(_NO_TEXT)])
            _say(messages, "assistant", content)
        else:
            _say(messages, "user", writer.words(group) or [text_block(_NO_TEXT)])
    if not messages:
        _say(messages, "user", [text_block(_NO_TEXT)])
    elif messages[-1]["role"] == "assistant":  # to go on from there is called a prefill: refused
        _say(messages, "user", [text_block(_GO_ON)])
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


def _say(messages: list[Body], role: str, content: list[Body]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    elif content:
        messages.append({"role": role, "content": content})


def _taken_apart(messages: Iterable[Body]) -> Iterator[Body]:
    """The same turns with something in between wherever a call or a result stands beside words.

    Thought belongs to both of them, so it cannot stay; these models sign none.
    """
    others = {"user": "assistant", "assistant": "user"}
    for message in messages:
        content = (block for block in message["content"] if "reasoningContent" not in block)
        halves = groupby(content, key=_is_tool_block)
        for place, (_, blocks) in enumerate(halves):
            if place:
                yield {"role": others[message["role"]], "content": [text_block(_GO_ON)]}
            yield {"role": message["role"], "content": [*blocks]}


def _is_tool_block(block: Body) -> bool:
    return "toolUse" in block or "toolResult" in block


def _instructs(step: Step) -> bool:
    return isinstance(step, Said) and step.role in ("system", "developer")


def _is_own(step: Step) -> bool:
    """Whether a step is part of an assistant's turn."""
    return isinstance(step, Thought | Called) or (
        isinstance(step, Said) and step.role == "assistant"
    )


# --- what a conversation is asked about -----------------------------------------------------------


def used_tools(messages: Iterable[Body]) -> list[str]:
    """The names of all tools that were called, in the order of their first calls."""
    blocks = (block for message in messages for block in message["content"])
    return [*dict.fromkeys(block["toolUse"]["name"] for block in blocks if "toolUse" in block)]


def resumes_without_thought(messages: Sequence[Body]) -> bool:
    """Whether results of tools answer a turn that did not begin with a thought.

    A model that thinks by a budget is refused then. A turn may have gone through several rounds of
    calls: it began where the user had last said something.
    """
    if "toolResult" not in messages[-1]["content"][0]:
        return False
    place = len(messages) - 3
    while all("toolResult" in block for block in messages[place]["content"]):
        place -= 2
    return "reasoningContent" not in messages[place + 1]["content"][0]


# --- turns ----------------------------------------------------------------------------------------


class _Writer:
    """Steps in, blocks out; it remembers the ids and names that were given out."""

    def __init__(self, identities: ToolIdentityMap) -> None:
        self._identities = identities
        self._ids = CallIds(_CALL_IDS)
        self._media = Media()

    def answer(self, steps: Iterable[Step]) -> list[Body]:
        """One turn of the assistant. A call must be the last thing in it, a thought must not."""
        content: list[Body] = []
        calls: list[Body] = []
        for step in steps:
            if isinstance(step, Thought):
                content += _thought(step)
            elif isinstance(step, Called):
                calls.append(self._call(step))
            else:
                assert isinstance(step, Said)  # the client's steps are a turn of their own
                content += _texts([_joined(step.parts, "")])
        while content and not calls and "reasoningContent" in content[-1]:
            content.pop()
        return content + calls

    def _call(self, call: Called) -> Body:
        known = self._identities.declared(call.name, call.namespace)
        return {
            "toolUse": {
                "toolUseId": self._ids.called(call.call_id),
                "name": known.provider_name if known else provider_name(call.name, call.namespace),
                "input": Raw(call.arguments.encode()),  # an object, and as the model wrote it
            }
        }

    def words(self, steps: Iterable[Step]) -> list[Body]:
        """One turn of the client: results first, as pairing has put them, then what was said."""
        content: list[Body] = []
        for step in steps:
            if isinstance(step, Answered):
                result = self._parts(step.parts) or [text_block(_NO_OUTPUT)]
                used = self._ids.answered(step.call_id)
                content.append({"toolResult": {"toolUseId": used, "content": result}})
            else:
                assert isinstance(step, Said)  # the assistant's steps are a turn of their own
                content += self._said(step) if step.role == "user" else _instruction(step)
        return content

    def _said(self, said: Said) -> list[Body]:
        content = self._parts(said.parts)
        alone = any("document" in block for block in content) and not any(
            "text" in block for block in content
        )
        return [text_block(_SEE_FILE), *content] if alone else content  # refused without a word

    def _parts(self, parts: Iterable[Part]) -> list[Body]:
        content: list[Body] = []
        for part in parts:
            if isinstance(part, TextPart | RefusalPart):
                content += _texts([part.text])
            else:
                content.append(self._media.block(part))
        return content


def _thought(thought: Thought) -> Iterator[Body]:
    """The blocks that were signed, as they came; any other thought stays behind."""
    for state in thought.states:
        if state.scheme == REASONING and isinstance(state.value, Mapping):
            yield dict(state.value)


def _instruction(said: Said) -> list[Body]:
    """Instructions in the middle of a thread: their place matters more than their rank."""
    text = _joined(said.parts, "\n")
    return [text_block(f"<system>\n{text}\n</system>")] if text.strip() else []


def _texts(texts: Iterable[str]) -> list[Body]:
    return [text_block(text) for text in texts if text.strip()]


def _joined(parts: Iterable[Part], separator: str) -> str:
    """A model's own words as it wrote them (no separator), anybody else's part by part."""
    return separator.join(part.text for part in parts if isinstance(part, TextPart | RefusalPart))
