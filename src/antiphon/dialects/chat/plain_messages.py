"""A plain dialogue, for servers that know neither tools nor two messages of one role in a row.

Calls and answers of earlier turns are told in words, later words of the system come from the user,
and neighbours of one role become one message. What stood before still stands before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

_NOTHING = "[nothing]"
_BEGIN = {"role": "user", "content": "Hello."}


def dialogue(messages: Iterable[Mapping[str, Any]]) -> list[Body]:
    """The same messages: the system first, then user and assistant by turns."""
    leading: list[Body] = []
    turns: list[Body] = []
    for message in map(_told, messages):
        if message["role"] == "system" and not turns:
            leading.append(message)
        else:
            role = "assistant" if message["role"] == "assistant" else "user"
            turns.append({**message, "role": role})
    merged = [_merged(role, list(group)) for role, group in groupby(turns, lambda m: m["role"])]
    begun = merged if merged and merged[0]["role"] == "user" else [_BEGIN, *merged]
    return [*([_merged("system", leading)] if leading else []), *begun]


def _told(message: Mapping[str, Any]) -> Body:
    """A message in words alone."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"[a tool answered]: {_text(message['content'])}"}
    called = [
        f"[called {call['function']['name']} with {call['function']['arguments']}]"
        for call in message.get("tool_calls", ())
    ]
    if not called:
        return {"role": message["role"], "content": message["content"] or _NOTHING}
    words = [message["content"]] if message["content"] else []
    return {"role": message["role"], "content": "\n\n".join([*words, *called])}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content or _NOTHING
    return "\n".join(part["text"] for part in content if part["type"] == "text") or _NOTHING


def _merged(role: str, messages: list[Body]) -> Body:
    contents = [message["content"] for message in messages]
    if all(isinstance(content, str) for content in contents):
        return {"role": role, "content": "\n\n".join(contents)}
    return {"role": role, "content": [part for content in contents for part in _parts(content)]}


def _parts(content: Any) -> Iterator[Body]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    else:
        yield from content
