"""A history as Anthropic messages: whatever happened, the turns alternate and nothing is empty.

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
from antiphon.dialects.anthropic_block import REDACTED, THINKING
from antiphon.dialects.anthropic_media import media_block, text_block
from antiphon.dialects.call_id import CallIdForm, CallIds

Body: TypeAlias = dict[str, Any]

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_CALL_IDS = CallIdForm(r"[a-zA-Z0-9_-]{1,64}", 32)
_NO_TEXT = "[no text]"
_NO_OUTPUT = "[no output]"
_GO_ON = "Continue."


def leading(history: Sequence[Step]) -> list[str]:
    """Instructions that stand before everything else: they belong to the system prompt."""
    told = takewhile(_instructs, history)
    return [_joined(step.parts, "\n") for step in told if isinstance(step, Said)]


def conversation(plan: Plan, *, unsigned_thinking: bool) -> list[Body]:
    """The messages of a request. `unsigned_thinking`: thought goes back even if it has no state."""
    ids = CallIds(_CALL_IDS)
    messages: list[Body] = []
    steps = dropwhile(_instructs, plan.history)
    for own, group in groupby(steps, key=_is_own):
        if own:
            content = _answer(group, ids, plan.identities, unsigned_thinking)
            if content and not messages:
                _say(messages, "user", [text_block(_NO_TEXT)])
            _say(messages, "assistant", content)
        else:
            _say(messages, "user", _words(group, ids) or [text_block(_NO_TEXT)])
    if not messages:
        _say(messages, "user", [text_block(_NO_TEXT)])
    elif messages[-1]["role"] == "assistant":  # to go on from there is called a prefill: refused
        _say(messages, "user", [text_block(_GO_ON)])
    return messages


def _say(messages: list[Body], role: str, content: list[Body]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    elif content:
        messages.append({"role": role, "content": content})


def _instructs(step: Step) -> bool:
    return isinstance(step, Said) and step.role in ("system", "developer")


def _is_own(step: Step) -> bool:
    """Whether a step is part of an assistant's turn."""
    return isinstance(step, Thought | Called) or (
        isinstance(step, Said) and step.role == "assistant"
    )


# --- what a model has thought ---------------------------------------------------------------------


def without_thoughts(messages: Iterable[Body]) -> list[Body]:
    """The same messages for a request that does not think."""
    return [
        message | {"content": [b for b in message["content"] if b["type"] not in _THOUGHTS]}
        for message in messages
    ]


def resumes_without_thought(messages: Sequence[Body]) -> bool:
    """Whether results of tools answer a turn that did not begin with a thought.

    A model that thinks by a budget is refused then. A turn may have gone through several rounds of
    calls: it began where the user had last said something.
    """
    if messages[-1]["content"][0]["type"] != "tool_result":
        return False
    place = len(messages) - 3
    while all(block["type"] == "tool_result" for block in messages[place]["content"]):
        place -= 2
    return messages[place + 1]["content"][0]["type"] not in _THOUGHTS


def _thought(thought: Thought, unsigned: bool) -> Iterator[Body]:
    states = [state for state in thought.states if state.scheme in (THINKING, REDACTED)]
    yield from (dict(state.value) for state in states if isinstance(state.value, Mapping))
    if unsigned and not states and thought.text:
        yield {"type": "thinking", "thinking": thought.text, "signature": ""}


# --- turns ----------------------------------------------------------------------------------------


def _answer(
    steps: Iterable[Step], ids: CallIds, identities: ToolIdentityMap, unsigned: bool
) -> list[Body]:
    """One turn of the assistant. A call must be the last thing it says, and a thought must not."""
    content: list[Body] = []
    calls: list[Body] = []
    for step in steps:
        if isinstance(step, Thought):
            content += _thought(step, unsigned)
        elif isinstance(step, Called):
            calls.append(_call(step, ids, identities))
        else:
            assert isinstance(step, Said)  # the client's steps are a turn of their own
            content += _texts([_joined(step.parts, "")])
    while content and not calls and content[-1]["type"] in _THOUGHTS:
        content.pop()
    return content + calls


def _call(call: Called, ids: CallIds, identities: ToolIdentityMap) -> Body:
    known = identities.declared(call.name, call.namespace)
    return {
        "type": "tool_use",
        "id": ids.called(call.call_id),
        "name": known.provider_name if known else provider_name(call.name, call.namespace),
        "input": Raw(call.arguments.encode()),  # an object, and as the model wrote it
    }


def _words(steps: Iterable[Step], ids: CallIds) -> list[Body]:
    """One turn of the client: results first, as pairing has put them, then what was said."""
    content: list[Body] = []
    for step in steps:
        if isinstance(step, Answered):
            result = _parts(step.parts) or [text_block(_NO_OUTPUT)]
            used = ids.answered(step.call_id)
            content.append({"type": "tool_result", "tool_use_id": used, "content": result})
        else:
            assert isinstance(step, Said)  # the assistant's steps are a turn of their own
            content += _parts(step.parts) if step.role == "user" else _instruction(step)
    return content


def _instruction(said: Said) -> list[Body]:
    """Instructions in the middle of a thread: their place matters more than their rank."""
    text = _joined(said.parts, "\n")
    return [text_block(f"<system>\n{text}\n</system>")] if text.strip() else []


def _parts(parts: Iterable[Part]) -> list[Body]:
    content: list[Body] = []
    for part in parts:
        if isinstance(part, TextPart | RefusalPart):
            content += _texts([part.text])
        else:
            content.append(media_block(part))
    return content


def _texts(texts: Iterable[str]) -> list[Body]:
    return [text_block(text) for text in texts if text.strip()]


def _joined(parts: Iterable[Part], separator: str) -> str:
    """A model's own words as it wrote them (no separator), anybody else's part by part."""
    return separator.join(part.text for part in parts if isinstance(part, TextPart | RefusalPart))
