"""Rules that request validators share. Every problem is one line of text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
GrammarChecker = Callable[[Any], Iterable[str]]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_request(
    body: bytes, known: Set[str], each: GrammarChecker, *, last: str = "messages"
) -> tuple[Body, list[Any], list[str]]:
    """Return a request, the list in its last field, and the problems of its keys and items."""
    document = json.loads(body)
    if not isinstance(document, dict):
        return {}, [], ["the body is not an object"]
    found = [f"unknown key {key}" for key in document.keys() - known]
    if list(document)[-1:] != [last]:
        found.append(f"{last} must be the last field")
    if "model" in known and not isinstance(document.get("model"), str):
        found.append("model is not a string")
    items = document.get(last)
    if not isinstance(items, list) or not items:
        return document, [], [*found, f"there are no {last}"]
    for index, item in enumerate(items):
        found += [f"{last}[{index}]: {problem}" for problem in each(item)]
    return document, items, found


def is_visible(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def is_object(text: Any) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


# --- messages with roles, one of them for tool results --------------------------------------------


def check_by_role(
    keys: Mapping[str, Set[str]], each: Callable[[Body], Iterable[str]]
) -> GrammarChecker:
    """Make a checker of messages: the keys that a role may have, then everything else."""

    def check_item(message: Any) -> Iterator[str]:
        role: Any = message.get("role") if isinstance(message, dict) else None
        if role not in keys:
            yield f"bad role {role!r}"
            return
        yield from (f"unknown key {key}" for key in message.keys() - keys[role])
        yield from each(message)

    return check_item


def result_problems(
    messages: list[Body],
    *,
    call: Callable[[Body], object] = lambda call: call.get("id"),
    answer: Callable[[Body], object] = lambda message: message.get("tool_call_id"),
) -> Iterator[str]:
    """Each call has one result, directly after the message of the call, in the same order."""
    expected: list[object] = []
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            if not expected:
                yield f"messages[{index}]: a result without a call"
            elif answer(message) != expected.pop(0):
                yield f"messages[{index}]: a result of another call"
            continue
        if expected:
            yield f"messages[{index}]: {len(expected)} calls before it have no result"
        expected = [call(each) for each in message.get("tool_calls") or ()]
        if len(expected) != len(set(expected)):
            yield f"messages[{index}]: two calls share an id"
    if expected:
        yield f"{len(expected)} calls at the end have no result"


def consecutive_assistant_problems(messages: list[Body]) -> Iterator[str]:
    roles = [message.get("role") for message in messages]
    for index in range(1, len(roles)):
        if roles[index - 1] == roles[index] == "assistant":
            yield f"messages[{index}]: two assistant messages in a row"


# --- turns of blocks ------------------------------------------------------------------------------


@dataclass
class Turn:
    """The role of a turn and its blocks: a call or a result with its id, thinking, or text."""

    role: str
    blocks: list[tuple[str, str]]

    def ids(self, kind: str) -> list[str]:
        return [block_id for each, block_id in self.blocks if each == kind]


def turn_problems(message: Any, blocks: Callable[[Any, str], Iterable[str]]) -> Iterator[str]:
    if not isinstance(message, dict) or set(message) != {"role", "content"}:
        yield "bad keys of a message"
    elif message["role"] not in ("user", "assistant"):
        yield f"bad role {message['role']!r}"
    else:
        yield from blocks(message["content"], message["role"])


def order_problems(turns: Sequence[Turn]) -> Iterator[str]:
    """Turns alternate; calls end their turn, and their results start the next."""
    if turns[0].role != "user" or turns[-1].role != "user":
        yield "the first and the last message must be the user's"
    used: list[str] = []
    expected: list[str] = []
    for index, turn in enumerate(turns):
        if index and turns[index - 1].role == turn.role:
            yield f"messages[{index}]: two messages of one role in a row"
        kinds, results_found = [kind for kind, _ in turn.blocks], turn.ids("result")
        if sorted(results_found) != sorted(expected):
            yield f"messages[{index}]: results {results_found} to the calls {expected}"
        if "result" in kinds[len(results_found) :]:
            yield f"messages[{index}]: a result after another block"
        expected = turn.ids("call")
        used += expected
        if "call" in kinds[: len(kinds) - len(expected)]:
            yield f"messages[{index}]: a block after a call"
        if kinds[-1] == "thinking":
            yield f"messages[{index}]: thinking at the end"
    if len(used) != len(set(used)):
        yield "two calls share an id"


def resumes_without_thinking(turns: Sequence[Turn]) -> bool:
    """Whether the turn that tool results resume did not begin with thinking.

    It began after the last user message that is not only tool results.
    """
    if turns[-1].blocks[0][0] != "result":
        return False
    user_turns = [
        index
        for index, turn in enumerate(turns[:-1])
        if turn.role == "user" and any(kind != "result" for kind, _ in turn.blocks)
    ]
    return turns[user_turns[-1] + 1].blocks[0][0] != "thinking"


def declaration_problems(tool: Body, schema_key: str, schema: Body) -> Iterator[str]:
    if not tool.keys() <= {"name", "description", schema_key, "strict"}:
        yield f"bad keys of a tool {tool}"
    if not NAME.fullmatch(tool["name"]):
        yield f"bad tool name {tool['name']!r}"
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf"}:
        yield "an input schema that is not a plain object"
