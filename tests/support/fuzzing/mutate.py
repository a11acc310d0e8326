"""Mutations of inputs: of the JSON documents inside, of the frames, and of the bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.support.dialect_samples.aws_event_stream import message

JUNK: Sequence[Any] = (
    *(None, True, False, 0, -1, 1.5, 1e308, 2**63, -(2**64), 10**30),
    *("", "a", "0", "null", "{", '{"a":', "\ud800", "\u2028", "x" * 300, "<think>", "\x00"),
    *([], {}, [None], [[]], {"": None}, {"type": "text"}, [{}], {"index": -1}),
)
TOKENS: Sequence[bytes] = (
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"\x00",
        b"\xff",
        b"data:",
        b"data: [DONE]\n\n",
    ),
    *(
        b"event: error\n",
        b":\n",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b'"',
        b"\\",
        b"\\u",
        b"\\ud83d",
        b"1e999",
    ),
    *(b"HTTP/1.1 200 OK\r\n", b"content-length: 5\r\n", b"0\r\n\r\n", b"chunked", b";", b": "),
)
_SPLITTER = re.compile(rb"(\r?\n\r?\n|\n)")


def mutate(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Return the data with some changes."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        change: Callable[..., bytes] = random.choice(_CHANGES)
        data = change(data, others, random)
    return data


def _change_document(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Change one of the JSON documents; the framing stays whole."""
    messages = _read_messages(data)
    if messages:
        position = random.randrange(len(messages))
        headers, payload = messages[position]
        messages[position] = headers, _change_json(payload, random)
        return b"".join(message(*reversed(each)) for each in messages)
    parts = _SPLITTER.split(data)
    position = random.randrange(len(parts))
    prefix, brace, rest = parts[position].partition(b"{")
    parts[position] = prefix + _change_json(brace + rest, random)
    return b"".join(parts)


def _change_json(text: bytes, random: Random) -> bytes:
    try:
        document = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_change_node(document, random)).encode()


def _change_node(node: Any, random: Random) -> Any:
    """Replace, remove, add or repeat something at a random place of a document."""
    if isinstance(node, dict | list) and node and random.random() < 0.85:
        keys = [*node] if isinstance(node, dict) else [*range(len(node))]
        key = random.choice(keys)
        match random.randrange(8):
            case 0:
                del node[key]
            case 1 if isinstance(node, list):
                node.append(node[key])
            case 1:
                node[random.choice(keys)] = node[key]
            case _:
                node[key] = _change_node(node[key], random)
        return node
    return random.choice(JUNK)


def _read_messages(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return headers and payload of each message of an AWS event stream; nothing of others."""
    messages: list[tuple[bytes, bytes]] = []
    while len(data) >= 16 and data[:2] == b"\0\0":
        size, headers = (int.from_bytes(data[at : at + 4], "big") for at in (0, 4))
        if not 16 + headers <= size <= len(data):
            break
        messages.append((data[12 : 12 + headers], data[12 + headers : size - 4]))
        data = data[size:]
    return messages


def _change_frames(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Drop, repeat, move or insert a frame."""
    messages = _read_messages(data)
    frames = [message(*reversed(each)) for each in messages] or _SPLITTER.split(data)
    position = random.randrange(len(frames))
    match random.randrange(4):
        case 0:
            del frames[position]
        case 1:
            frames.insert(random.randrange(len(frames)), frames[position])
        case 2:
            frames.insert(random.randrange(len(frames)), frames.pop(position))
        case _:
            other = random.choice(others)
            inserted = [message(*reversed(each)) for each in _read_messages(other)]
            frames.insert(position, random.choice(inserted or _SPLITTER.split(other)))
    return b"".join(frames)


def _change_bytes(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Cut, insert, overwrite or flip some bytes."""
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((0, 1, 2, 8, 100)))
    match random.randrange(4):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:start]
        case 2:
            return data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]
        case _:
            return data[:start] + random.choice(TOKENS) + data[end:]


_CHANGES = (_change_document,) * 5 + (_change_frames,) * 2 + (_change_bytes,) * 2
