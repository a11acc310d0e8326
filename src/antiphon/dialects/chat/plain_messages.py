"""Messages for servers that support neither tools nor consecutive messages of one role.

Calls and results of earlier turns become text, later system messages become user messages, and
neighbours of one role are merged. The order stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from antiphon.core.items import Document

_NOTHING = "[nothing]"
_FIRST_USER_MESSAGE = {"role": "user", "content": "Hello."}


def flatten_messages(messages: Iterable[Mapping[str, Any]]) -> list[Document]:
    """The same messages: one system message, then user and assistant in alternation."""
    system: list[Document] = []
    turns: list[Document] = []
    for message in map(_as_text_message, messages):
        if message["role"] == "system" and not turns:
            system.append(message)
        else:
            role = "assistant" if message["role"] == "assistant" else "user"
            turns.append({**message, "role": role})
    merged = [_merge(role, list(group)) for role, group in groupby(turns, lambda m: m["role"])]
    if not merged or merged[0]["role"] != "user":
        merged = [_FIRST_USER_MESSAGE, *merged]
    return [*([_merge("system", system)] if system else []), *merged]


def _as_text_message(message: Mapping[str, Any]) -> Document:
    """A message whose tool calls or tool result are text."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"[a tool answered]: {_text(message['content'])}"}
    calls = [
        f"[called {call['function']['name']} with {call['function']['arguments']}]"
        for call in message.get("tool_calls", ())
    ]
    if not calls:
        return {"role": message["role"], "content": message["content"] or _NOTHING}
    texts = [message["content"]] if message.get("content") else []
    return {"role": message["role"], "content": "\n\n".join([*texts, *calls])}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content or _NOTHING
    return "\n".join(part["text"] for part in content if part["type"] == "text") or _NOTHING


def _merge(role: str, messages: list[Document]) -> Document:
    contents = [message["content"] for message in messages]
    if all(isinstance(content, str) for content in contents):
        return {"role": role, "content": "\n\n".join(contents)}
    return {"role": role, "content": [part for content in contents for part in _parts(content)]}


def _parts(content: Any) -> Iterator[Document]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    else:
        yield from content
