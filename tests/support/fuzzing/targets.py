"""What is fuzzed: every framer, decoder and error body, the HTTP client, and the body of a request.

A target takes any bytes and raises `AssertionError`, or the exception that escaped, if a promise is
broken. Where a stream is cut is derived from its bytes, so a case is one file.
"""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, TypeAlias, get_args
from zlib import crc32

import msgspec

from antiphon import replay
from antiphon.core.events import Event
from antiphon.dialects.dialect import DIALECTS, Framer
from antiphon.errors import InvalidRequest, ResponseTooLarge
from antiphon.framing.eventstream import EventStreamDecoder
from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.framing.sse import Frame, SSEDecoder
from antiphon.server.body import BodyDecoder, BodyLimits, BodyScanner
from tests.support.http_verdicts import Ending, Verdict, after_each_head, judge
from tests.support.request_body import parse_body
from tests.support.stream_validator import TERMINALS, check
from tests.support.wire_schemas import hosted_stage

Target: TypeAlias = Callable[[bytes], None]

MADE_HERE = {
    tag
    for tag in (str(kind.__struct_config__.tag) for kind in get_args(Event))
    if hosted_stage(tag) is None
}
"""Events of other types are the progress of hosted tools, passed on as the provider sent it."""
_ODD_CODING = re.compile(rb"transfer-encoding\s*:(\s*\n|[^\n]*\n[ \t])", re.IGNORECASE)
"""An empty one is refused by the newer llhttp of httptools, and not by that of aiohttp. Of one in
two lines, our client takes `chunked` for a promise of chunks, and reports a body without them."""
FRAME_BYTES = 4096
"""Limit of a frame for the framers alone: small, so that inputs reach it."""


def split(data: bytes) -> list[bytes]:
    """Cut data at up to eight places."""
    random = Random(crc32(data))
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(9)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def read_frames(framer: Framer, chunks: list[bytes]) -> list[Frame] | str:
    """Return all frames, or the limit that they exceed."""
    try:
        return [frame for chunk in chunks for frame in framer.feed(chunk)] + framer.close()
    except ResponseTooLarge as error:
        return str(error)


def check_framer(make: Callable[[int], Framer], data: bytes) -> None:
    """Frames are the same however the stream is cut, and no larger than what was sent."""
    whole, cut = read_frames(make(FRAME_BYTES), [data]), read_frames(make(FRAME_BYTES), split(data))
    if isinstance(whole, str) or isinstance(cut, str):
        assert whole == cut, f"too large in one way of cutting only: {whole!r:.200} {cut!r:.200}"
        return
    assert whole == cut, "the frames depend on the cuts"
    assert sum(len(frame.data) for frame in whole) <= len(data) + 200, "frames were invented"


def check_stream(dialect: str, data: bytes) -> None:
    """Decoding never raises; the events are valid, and the same however the stream is cut."""
    spoken = DIALECTS[dialect]
    frames = read_frames(spoken.framer(), split(data))
    decoder = spoken.decoder()
    for frame in frames if isinstance(frames, list) else ():
        decoder.feed(frame)
    decoder.close()
    if data.lstrip()[:1] in (b"{", b"["):
        spoken.decode(data)
    pieces = split(data)
    cuts = [sum(map(len, pieces[:count])) for count in range(len(pieces))]
    events = check_events(replay(data, dialect=dialect))
    assert events == replay(data, dialect=dialect, cuts=cuts), "the events depend on the cuts"
    size = len(msgspec.json.encode(events))
    assert size <= 50_000 + 200 * len(data), f"{len(data)} bytes became {size}"


def check_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exactly one terminal event, at the end, and every rule of the validator."""
    terminals = [event["type"] for event in events if event["type"] in TERMINALS]
    assert len(terminals) == 1, f"terminal events: {terminals}"
    assert events[-1]["type"] in TERMINALS
    error = events[-1]["response"]["error"] or {}
    assert "defect of the gateway" not in error.get("message", ""), "an exception was caught"
    made = [_without_foreign_content(event) for event in events if event["type"] in MADE_HERE]
    check([event | {"sequence_number": number} for number, event in enumerate(made)])
    return events


def _without_foreign_content(event: dict[str, Any]) -> dict[str, Any]:
    """Leave out the content of items that are passed on as the provider sent them."""
    if "item" in event:
        return event | {"item": _own_content(event["item"])}
    if "response" in event:
        output = [_own_content(item) for item in event["response"]["output"]]
        return event | {"response": event["response"] | {"output": output}}
    return event


def _own_content(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] in ("message", "reasoning"):
        return item
    return {name: value for name, value in item.items() if name != "content"}


def check_whole(dialect: str, data: bytes) -> None:
    """A whole body of any content is decoded without an exception."""
    deltas = DIALECTS[dialect].decode(data)
    assert isinstance(deltas, list)


def check_error_body(dialect: str, data: bytes) -> None:
    """An error response of any content is classified and described."""
    spoken = DIALECTS[dialect]
    for status in (400, 401, 429, 500):
        fault = spoken.classify(status, {}, data)
        assert spoken.describe(fault), "a fault without a text"


def check_http_response(data: bytes) -> None:
    """Our HTTP client and aiohttp's make the same of a response, however it is cut."""
    ending: Ending = ("close", "reset", "open")[crc32(data) % 3]
    apart = after_each_head(data)
    ours, theirs = (judge(apart, ending, use_aiohttp=each) for each in (False, True))
    is_refused = theirs.status is not None and theirs.status < 100
    if not is_refused and not _ODD_CODING.search(data):
        assert _comparable(ours, data) == _comparable(theirs, data), "another verdict than aiohttp"
    cut = judge([each for each in split(data) if each], ending, use_aiohttp=False)
    assert cut.status == ours.status, "the status depends on the cuts"
    is_decoded = b"content-encoding" in data.lower()  # then what precedes an error may be read
    assert is_decoded or cut.body == ours.body, "the body depends on the cuts"


def _comparable(verdict: Verdict, data: bytes) -> Verdict:
    """Leave out where the clients differ: ours closes a connection after a switch of protocols, but
    not after a body that cannot be decompressed, of which it reads a read of the network at once
    and aiohttp a chunk."""
    is_compressed = b"content-encoding" in data.lower()
    if is_compressed and verdict.end.startswith("connection"):
        return verdict._replace(body=b"", end="connection", is_reused=False)
    return verdict.without_reuse() if is_compressed or verdict.status == 101 else verdict


def check_request_body(data: bytes) -> None:
    """A body is decoded the same however it is cut, or rejected with `InvalidRequest`."""
    document = _read_body([data])
    assert (document is None) == (_read_body(split(data)) is None), "rejected by its cuts"
    if document is None:
        return
    assert document == _read_body(split(data)), "the document depends on the cuts"
    with suppress(InvalidRequest):
        parse_body(data)


def _read_body(pieces: list[bytes]) -> dict[str, Any] | None:
    decoder = BodyDecoder(BodyScanner(BodyLimits()))
    try:
        for piece in pieces:
            decoder.feed(piece)
        return decoder.close()
    except InvalidRequest:
        return None


TARGETS: Mapping[str, Target] = {
    **{f"stream-{name}": partial(check_stream, name) for name in DIALECTS},
    **{f"whole-{name}": partial(check_whole, name) for name in DIALECTS},
    **{f"error-{name}": partial(check_error_body, name) for name in DIALECTS},
    "frames-sse": partial(check_framer, SSEDecoder),
    "frames-ndjson": partial(check_framer, NDJSONDecoder),
    "frames-eventstream": partial(check_framer, EventStreamDecoder),
    "http-response": check_http_response,
    "request-body": check_request_body,
}


def run_target(name: str, data: bytes) -> None:
    """Run a target; its CPU time is bounded by the size of the input."""
    start = time.process_time()
    TARGETS[name](data)
    spent = time.process_time() - start
    limit = 1.0 + 100e-6 * len(data)
    assert spent <= limit, f"{len(data)} bytes took {spent:.2f} s of CPU time"


def run_with_memory(name: str, data: bytes) -> None:
    """Run a target; its memory is bounded by the size of the input, too."""
    run_target(name, data)  # fills caches
    tracemalloc.start()
    try:
        TARGETS[name](data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    limit = 2_000_000 + 2_000 * len(data)
    assert peak <= limit, f"{len(data)} bytes took {peak:,} bytes of memory"
