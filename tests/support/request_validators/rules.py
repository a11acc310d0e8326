"""Rules that strict readers of requests share. Every problem is one line of text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
Judge = Callable[[Any], Iterable[str]]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_request(
    body: bytes, known: Set[str], each: Judge, *, last: str = "messages"
) -> tuple[Body, list[Any], list[str]]:
    """A request, what stands last in it, and what is wrong with its keys and with each of those."""
    document = json.loads(body)
    if not isinstance(document, dict):
        return {}, [], ["the body is no object"]
    found = [f"unknown key {key}" for key in document.keys() - known]
    if list(document)[-1:] != [last]:
        found.append(f"{last} do not stand last")
    if "model" in known and not isinstance(document.get("model"), str):
        found.append("model is no string")
    items = document.get(last)
    if not isinstance(items, list) or not items:
        return document, [], [*found, f"there are no {last}"]
    for place, item in enumerate(items):
        found += [f"{last}[{place}]: {problem}" for problem in each(item)]
    return document, items, found


def is_visible(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def is_object(text: Any) -> bool:
    """The text of one."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


# --- messages of roles, one of which answers calls ------------------------------------------------


def check_by_role(keys: Mapping[str, Set[str]], each: Callable[[Body], Iterable[str]]) -> Judge:
    """Judges a message by the keys that its role may have, and then by the rest."""

    def judge(message: Any) -> Iterator[str]:
        role: Any = message.get("role") if isinstance(message, dict) else None
        if role not in keys:
            yield f"bad role {role!r}"
            return
        yield from (f"unknown key {key}" for key in message.keys() - keys[role])
        yield from each(message)

    return judge


def answer_problems(
    messages: list[Body],
    *,
    call: Callable[[Body], object] = lambda call: call.get("id"),
    answer: Callable[[Body], object] = lambda message: message.get("tool_call_id"),
) -> Iterator[str]:
    """Each call is answered once, right behind the message that made it, in its order."""
    expected: list[object] = []
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            if not expected:
                yield f"messages[{place}]: an answer to no call"
            elif answer(message) != expected.pop(0):
                yield f"messages[{place}]: an answer to another call"
            continue
        if expected:
            yield f"messages[{place}]: {len(expected)} calls before it have no answer"
        expected = [call(each) for each in message.get("tool_calls") or ()]
        if len(expected) != len(set(expected)):
            yield f"messages[{place}]: two calls share an id"
    if expected:
        yield f"{len(expected)} calls at the end have no answer"


def consecutive_assistant_problems(messages: list[Body]) -> Iterator[str]:
    roles = [message.get("role") for message in messages]
    for place in range(1, len(roles)):
        if roles[place - 1] == roles[place] == "assistant":
            yield f"messages[{place}]: two assistant messages in a row"


# --- turns of blocks ------------------------------------------------------------------------------


@dataclass
class Turn:
    """Whose it is, and its blocks: a call or an answer with its id, a thought, or a word."""

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
    """Turns alternate; calls end their turn, and each is answered at the start of the next."""
    if turns[0].role != "user" or turns[-1].role != "user":
        yield "the first and the last message must be the user's"
    used: list[str] = []
    expected: list[str] = []
    for place, turn in enumerate(turns):
        if place and turns[place - 1].role == turn.role:
            yield f"messages[{place}]: two messages of one role in a row"
        kinds, answers = [kind for kind, _ in turn.blocks], turn.ids("answer")
        if sorted(answers) != sorted(expected):
            yield f"messages[{place}]: answers {answers} to the calls {expected}"
        if "answer" in kinds[len(answers) :]:
            yield f"messages[{place}]: an answer behind something else"
        expected = turn.ids("call")
        used += expected
        if "call" in kinds[: len(kinds) - len(expected)]:
            yield f"messages[{place}]: something behind a call"
        if kinds[-1] == "thought":
            yield f"messages[{place}]: a thought at the end"
    if len(used) != len(set(used)):
        yield "two calls share an id"


def resumes_without_thought(turns: Sequence[Turn]) -> bool:
    """The turn that tools answer began after the user's last words, and not with a thought."""
    if turns[-1].blocks[0][0] != "answer":
        return False
    spoken = [
        place
        for place, turn in enumerate(turns[:-1])
        if turn.role == "user" and any(kind != "answer" for kind, _ in turn.blocks)
    ]
    return turns[spoken[-1] + 1].blocks[0][0] != "thought"


def declaration_problems(tool: Body, schema_key: str, schema: Body) -> Iterator[str]:
    if not tool.keys() <= {"name", "description", schema_key, "strict"}:
        yield f"bad keys of a tool {tool}"
    if not NAME.fullmatch(tool["name"]):
        yield f"bad tool name {tool['name']!r}"
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf"}:
        yield "an input schema that is no plain object"
