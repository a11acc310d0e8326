"""Calls of MCP tools, as the model of a simulated provider writes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.simulation.mcp.plan import LABELS
from tests.support.scripted_providers.session import Call

MOST_ROUNDS = 4
"""Of a response with calls; then the model calls no more tools."""
_CALL_RATE, _SAME_SERVER_RATE = 0.7, 0.5
_OWN_RATE, _HIDDEN_RATE, _MALFORMED_RATE = 0.1, 0.05, 0.05
_PREFIXES = tuple(f"{label}__" for label in LABELS)
_OWN = "get_weather"


def draw_mcp_calls(
    rng: random.Random, body: bytes, label: str, *, made: int, takes_text: bool
) -> tuple[Call, ...]:
    """Draw calls of the tools that a request declares: of servers, of the client, and sometimes of
    none. `made`: earlier calls of the provider for the same request; `takes_text`: arguments are
    text in this dialect, and may be anything."""
    declared = list(_find_names(body))
    names = [name for name in declared if name.startswith(_PREFIXES)]
    if not names or made >= MOST_ROUNDS or rng.random() >= _CALL_RATE:
        return ()
    if rng.random() < _SAME_SERVER_RATE:
        prefix = rng.choice(names).partition("__")[0]
        names = [name for name in names if name.startswith(f"{prefix}__")]
    calls = []
    for number in range(rng.choice((1, 2, 2, 3))):
        name = rng.choice(names)
        if _OWN in declared and rng.random() < _OWN_RATE:
            name = _OWN
        elif rng.random() < _HIDDEN_RATE:
            name = f"{rng.choice(_PREFIXES)}hidden"
        token = f"{label.removesuffix('x')}-{number}x"
        arguments = msgspec.json.encode({"q": token}).decode()
        if takes_text and name in names and rng.random() < _MALFORMED_RATE:
            arguments = f'["{token}"]'
        calls.append(Call(name, arguments, ""))
    return tuple(calls)


def _find_names(body: bytes) -> Iterator[str]:
    """The names of declared functions, wherever a dialect has them."""
    try:
        request = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return
    for member in ("tools", "toolConfig"):
        yield from _walk(request.get(member))


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(name := value.get("name"), str):
            yield name
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each)
