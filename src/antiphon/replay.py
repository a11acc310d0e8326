"""Recorded provider bytes in, the Responses events a client would have seen out.

Ids and times are made up from counters, so the same recording always gives the same events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.dialect import Framer, resolve
from antiphon.pipeline.bridge import Bridge
from antiphon.wire.events import Event
from antiphon.wire.response import Response
from antiphon.wire.sse import NDJSONDecoder, wire_document


def replay(
    data: bytes,
    *,
    dialect: str = "chat",
    request: Mapping[str, Any] | None = None,
    cuts: Iterable[int] = (),
) -> list[dict[str, Any]]:
    """The events of a recording, as plain wire dictionaries.

    `data` is a stream or a whole JSON body; `request` the native request that was recorded with
    it, if known; `cuts` the byte offsets at which the network cut the stream.
    """
    events = replay_events(data, dialect=dialect, request=request, cuts=cuts)
    return [wire_document(event, number) for number, event in enumerate(events)]


def replay_events(
    data: bytes,
    *,
    dialect: str = "chat",
    request: Mapping[str, Any] | None = None,
    cuts: Iterable[int] = (),
) -> list[Event]:
    """The same as `replay`, as event structs."""
    request = request or {}
    new_id = _counting_ids()
    response = Response(id=new_id("resp"), created_at=0, model=_text(request.get("model")))
    machine = ResponseMachine(
        response, new_id=new_id, now=lambda: 0, tools=_declared_tools(request)
    )
    spoken = resolve(dialect)
    bridge = Bridge(machine, spoken)
    if _is_whole(data, spoken.framer()):
        return bridge.feed_whole(data)
    events: list[Event] = []
    for chunk in _chunks(data, cuts):
        events += bridge.feed(chunk)
    return events + bridge.close()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_whole(data: bytes, framer: Framer) -> bool:
    """One JSON document; where every line of a stream is one, a single line."""
    if isinstance(framer, NDJSONDecoder):
        return len(framer.feed(data) + framer.close()) <= 1
    return data.lstrip()[:1] in (b"{", b"[")


def _chunks(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    offsets = sorted({min(max(cut, 0), len(data)) for cut in cuts} | {0, len(data)})
    for begin, end in pairwise(offsets):
        yield data[begin:end]


def _counting_ids() -> Callable[[str], str]:
    given: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        given[prefix] += 1
        return f"{prefix}_{given[prefix]:04d}"

    return new_id


def _declared_tools(request: Mapping[str, Any]) -> ToolIdentityMap:
    """The functions a recorded native request declared, under the names it gave them."""
    tools = request.get("tools")
    names: dict[str, None] = {}
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case (
                {"function": {"name": str(name)}}
                | {"custom": {"name": str(name)}}
                | {"name": str(name), "input_schema": _}
                | {"type": "function", "name": str(name)}
            ):
                names[name] = None
    return ToolIdentityMap(ToolIdentity(name, name) for name in names)
