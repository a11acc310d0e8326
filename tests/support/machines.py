"""State machines and bridges for tests, with fixed ids and clock, and their events as documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from antiphon.core.deltas import Delta, Usage
from antiphon.core.events import Event
from antiphon.core.response import Response
from antiphon.core.stream.blocks import Seal
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.source import Source
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.translation.translation import Translation
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.dialects.dialect import Framer, StreamDecoder
from antiphon.dialects.responses.render import event_to_dict
from antiphon.framing.limits import DEFAULT_LIMITS, ResponseLimits
from antiphon.framing.sse import Frame

Document = dict[str, Any]

NOW = 1_700_000_100
TOOLS = (
    ToolIdentity("get_weather", "get_weather"),
    ToolIdentity("mcp__files__read", "read", namespace="mcp__files"),
    ToolIdentity("exec", "exec", "custom"),
    ToolIdentity("shell", "shell", "shell"),
    ToolIdentity("local_shell", "local_shell", "local_shell"),
    ToolIdentity("apply_patch", "apply_patch", "apply_patch"),
    ToolIdentity("tool_search", "tool_search", "tool_search"),
)


def counting_ids() -> Callable[[str], str]:
    given: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        given[prefix] += 1
        return f"{prefix}_n{given[prefix]}"

    return new_id


def machine(
    tools: Iterable[ToolIdentity] = TOOLS,
    *,
    model: str = "m",
    seal: Seal | None = None,
    empty_arguments: str = "",
    limits: ResponseLimits = DEFAULT_LIMITS,
    earlier_usage: Usage | None = None,
) -> ResponseMachine:
    return ResponseMachine(
        Response(id="resp_1", created_at=NOW - 100, model=model),
        new_id=counting_ids(),
        now=lambda: NOW,
        tools=ToolIdentityMap(tools),
        seal=seal,
        empty_arguments=empty_arguments,
        limits=limits,
        earlier_usage=earlier_usage,
    )


Step = Sequence[Delta] | Exception


class ReadFramer:
    """A framer that makes one frame of each network read."""

    def feed(self, chunk: bytes) -> list[Frame]:
        return [Frame(chunk)]

    def close(self) -> list[Frame]:
        return []


class ScriptedDecoder:
    """A decoder that returns one step of deltas for each frame; a step may be an error."""

    def __init__(self, steps: Sequence[Step], last: Step = ()) -> None:
        self.ended = False
        self._steps = iter(steps)
        self._last = last

    def feed(self, frame: Frame) -> list[Delta]:
        return _deltas_of(next(self._steps))

    def close(self) -> list[Delta]:
        return _deltas_of(self._last)


def _deltas_of(step: Step) -> list[Delta]:
    if isinstance(step, Exception):
        raise step
    return list(step)


class ScriptedDialect(ChatDialect):
    """A dialect with a given framer and decoder."""

    def __init__(self, decoder: StreamDecoder, framer: Framer | None = None) -> None:
        self._framer = framer or ReadFramer()
        self._decoder = decoder

    def framer(self, max_bytes: int = 0) -> Framer:
        return self._framer

    def decoder(self) -> StreamDecoder:
        return self._decoder

    def decode(self, body: bytes) -> list[Delta]:
        return self._decoder.feed(Frame(body))


def run_steps(steps: Sequence[Step], machine: ResponseMachine, last: Step = ()) -> list[Document]:
    """Run a translation whose decoder takes these steps, one for each read; return its events."""
    translation = Translation(machine, Source(ScriptedDialect(ScriptedDecoder(steps, last))))
    events = [event for _ in steps for event in translation.feed(b"x")]
    return documents(events + translation.close())


def run(deltas: Iterable[Delta], tools: Iterable[ToolIdentity] = TOOLS) -> list[Document]:
    """Run a translation with these deltas, each in its own chunk; return its events."""
    return run_steps([[delta] for delta in deltas], machine(tools))


def documents(events: Iterable[Event]) -> list[Document]:
    return [event_to_dict(event, number) for number, event in enumerate(events)]
