"""What all programs here share: they play the scenario that is named, and print what they saw.

They run in an environment of their own, that of the pinned clients. All they are given is
`OPENAI_BASE_URL`, `OPENAI_API_KEY` and `MODEL`; or, instead of the URL, `IN_PROCESS`: the path of
an `antiphon.toml`. They then use Antiphon as a library, and may use no socket other than those to
the upstream, whose port is `UPSTREAM_PORT`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

MODEL = os.environ["MODEL"]
IN_PROCESS = os.environ.get("IN_PROCESS")
forbidden: list[str] = []
"""Every use of a socket that is not allowed."""


def watch_sockets(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to listen anywhere, and to connect to anything but the upstream."""
    if event == "socket.bind":
        allowed = False
    elif event == "socket.connect":
        allowed = arguments[1] == ("127.0.0.1", int(os.environ["UPSTREAM_PORT"] or 0))
    else:
        return
    if not allowed:
        forbidden.append(f"{event} to {arguments[1]} is not allowed")
        sys.stderr.write(f"{forbidden[-1]}\n")
        raise PermissionError(forbidden[-1])


def http_client(*, blocking: bool) -> Any:
    """The `http_client` of an OpenAI client: the library, or None for the client's own."""
    if IN_PROCESS is None:
        return None
    import antiphon

    return antiphon.openai_http_client(IN_PROCESS, blocking=blocking)


if IN_PROCESS is not None:
    sys.addaudithook(watch_sockets)


class City(BaseModel):
    """What the model is asked to fill in."""

    name: str
    people: int


def forecast(city: str) -> str:
    """The answer of every tool that is asked for the weather."""
    return f"sunny in {city}"


def play(*scenarios: Callable[[], Any]) -> None:
    """One JSON document on stdout is all that a scenario leaves behind."""
    [scenario] = [each for each in scenarios if each.__name__ == sys.argv[1]]
    seen = scenario()
    if asyncio.iscoroutine(seen):
        seen = asyncio.run(seen)
    if forbidden:
        sys.exit("\n".join(forbidden))
    sys.stdout.write(json.dumps(seen) + "\n")
