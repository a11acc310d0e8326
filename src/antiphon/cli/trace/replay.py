"""`antiphon trace replay`: the events that the client of a traced request received, made again.

What the provider said is translated again, with its dialect, for the request and the software of
the client. The trace also has what the client received: where both differ, that is shown, and the
difference is named. A replay knows the bytes of the provider alone: not how a connection broke, and
not what the gateway did between several requests. MCP servers are not called: the recorded items
have what they returned.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, cast

import msgspec

from antiphon.cli.load_config import load_config_or_default
from antiphon.cli.replay import write_events
from antiphon.cli.terminal import make_console
from antiphon.core.capabilities import Capabilities
from antiphon.core.client_profile import resolve_profile
from antiphon.core.items import Document
from antiphon.errors import InvalidRequest
from antiphon.framing.sse import SSEDecoder
from antiphon.library.formats import Format
from antiphon.library.replay import replay
from antiphon.providers.registry import build_providers
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import TraceFinish, TraceStream

_MADE_ANEW = frozenset(
    """
    id item_id call_id created_at completed_at encrypted_content obfuscation sequence_number
    """.split()
)
"""Fields that differ in every response."""


def replay_request(
    args: argparse.Namespace, detail: TraceDetail, asked: TraceStream, said: TraceStream
) -> int:
    """Write the events that the client received, and say how far they can be made again."""
    received = _read_received(detail)
    try:
        made = _translate(args, detail, asked, said, received)
    except InvalidRequest as error:
        made = []
        _note(f"the request cannot be planned now: {error.message}")
    if received is None:
        if detail.server_calls:
            _note(_SERVERS_UNKNOWN)
        elif detail.finish is not None:
            _note("what the client received is not in the trace: these events are made again")
        write_events(made)
        return 0
    difference = _find_difference(made, received)
    if difference is not None:
        _note(f"{difference}; the recorded events are shown. {_NOT_KNOWN}")
    write_events(made if difference is None else received)
    return 0


_SERVERS_UNKNOWN = (
    "the gateway called MCP servers for this response, and what they returned is not in the trace:"
    " these events are not those that the client received"
)
_NOT_KNOWN = (
    "A replay does not know how a connection broke, nor what followed the first request of a"
    " response that took several."
)


def _translate(
    args: argparse.Namespace,
    detail: TraceDetail,
    asked: TraceStream,
    said: TraceStream,
    received: Sequence[Document] | None,
) -> list[Document]:
    finish = detail.finish
    request = detail.request
    return replay(
        said.blob,
        dialect=(finish and finish.dialect) or "chat",
        request=msgspec.json.decode(asked.blob, type=dict),
        capabilities=_find_capabilities(args, finish),
        client=resolve_profile("", request.software if request else "", {}).name,
        format=cast(Format, (request and request.format) or "responses"),
        output=_read_output(received),
        rounds=[said.offsets[chunk][0] for chunk in said.rounds if chunk < len(said.offsets)],
    )


def _read_output(received: Sequence[Document] | None) -> Sequence[Document]:
    """Read the items of the response that the client received."""
    response = received[-1].get("response") if received else None
    return [] if response is None else response["output"]


def _find_capabilities(args: argparse.Namespace, finish: TraceFinish | None) -> Capabilities | None:
    """Find what the model that answered supports; None if its provider is not configured now."""
    if finish is None:
        return None
    config = load_config_or_default(args.config, needs=())
    provider = build_providers(config, os.environ).get(finish.provider)
    return None if provider is None else provider.capabilities(finish.provider_model)


def _read_received(detail: TraceDetail) -> list[Document] | None:
    """Read the events that the client received; of a whole response, its last event. None if the
    trace does not have all of them."""
    found = [stream for stream in detail.streams if stream.kind == "transformed"]
    if not found or found[0].truncated:
        return None
    blob = found[0].blob
    if blob.startswith(b"{"):
        response = msgspec.json.decode(blob)
        name = f"response.{response['status']}"
        return [{"type": name, "sequence_number": 0, "response": response}]
    decoder = SSEDecoder()
    frames = [*decoder.feed(blob), *decoder.close()]
    return [msgspec.json.decode(frame.data) for frame in frames if frame.data != b"[DONE]"]


def _find_difference(made: Sequence[Document], received: Sequence[Document]) -> str | None:
    """Name the first event that differs; None if the same events were made again."""
    if len(received) == 1:  # a whole response
        made = [{**event, "sequence_number": 0} for event in made[-1:]]
    for number, (ours, theirs) in enumerate(zip_longest(made, received)):
        if ours is None or theirs is None or _strip(ours) != _strip(theirs):
            return (
                f"event {number} would be another one now: the client received {_name(theirs)}, the"
                f" recorded bytes give {_name(ours)}"
            )
    return None


def _name(event: Document | None) -> str:
    return "no event" if event is None else str(event["type"])


def _strip(value: Any) -> Any:
    """Leave out what differs in every response."""
    if isinstance(value, dict):
        return {name: _strip(each) for name, each in value.items() if name not in _MADE_ANEW}
    return [_strip(each) for each in value] if isinstance(value, list) else value


def _note(text: str) -> None:
    make_console(stderr=True).print(f"antiphon: {text}", soft_wrap=True)
