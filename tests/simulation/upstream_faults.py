"""Faults of upstreams: how one answer goes wrong, as a script of timed steps.

A script is a list of `Step`s: bytes to send, or the end of the connection, each after a delay. The
connection stays open where a script ends without closing it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Literal, NamedTuple

from tests.simulation.answers import UpstreamResponse, error_body, in_band_error, split_frames


class Step(NamedTuple):
    delay_s: float
    action: Literal["send", "close", "reset"]
    data: bytes = b""


Script = list[Step]
_LAST_CHUNK = b"0\r\n\r\n"
CHECKS_REUSE = find_spec("antiphon.engine.connections") is not None
"""Whether a connection with unexpected bytes is not used again."""


@dataclass(frozen=True)
class Draft:
    """An answer without a fault, which a fault changes."""

    rng: random.Random
    dialect: str
    answer: UpstreamResponse
    key: str
    idle_s: float
    """After how many seconds of silence the gateway gives up."""

    def delay(self) -> float:
        """Draw the time between two chunks: mostly none, or some milliseconds."""
        return self.rng.choice((0.0, 0.0, 0.001, 0.01, 0.05))

    def cuts(self, data: bytes, most: int = 5) -> list[bytes]:
        """Cut bytes into a few chunks, anywhere."""
        places = sorted(self.rng.randrange(len(data) + 1) for _ in range(self.rng.randrange(most)))
        ends = [0, *places, len(data)]
        return [data[a:b] for a, b in pairwise(ends) if a < b]

    def frames(self) -> list[bytes]:
        return split_frames(self.dialect, self.answer.data)


def head(status: int, content_type: str, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Simulated", f"content-type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def _begin(draft: Draft) -> Step:
    start = head(200, draft.answer.content_type, transfer_encoding="chunked")
    return Step(draft.delay(), "send", start)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _send(draft: Draft, data: bytes) -> Script:
    return [Step(draft.delay(), "send", _chunk(piece)) for piece in draft.cuts(data)]


def _whole(draft: Draft, data: bytes) -> Script:
    """A complete answer with this body."""
    return [_begin(draft), *_send(draft, data), Step(0.0, "send", _LAST_CHUNK)]


def _prefix(draft: Draft) -> Script:
    """The answer up to any byte."""
    data = draft.answer.data
    return [_begin(draft), *_send(draft, data[: draft.rng.randrange(len(data) + 1)])]


def _error(draft: Draft, status: int, **headers: str) -> Script:
    body = error_body(status, draft.key)
    sized = head(status, "application/json", content_length=str(len(body)), **headers)
    return [Step(draft.delay(), "send", sized + body)]


def no_fault(draft: Draft) -> Script:
    return _whole(draft, draft.answer.data)


def pause_after_item(draft: Draft) -> Script:
    """A complete answer with a pause in its second half, when its first item is finished."""
    frames, rng = draft.frames(), draft.rng
    at = rng.randrange(len(frames) // 2, len(frames))
    pause = Step(0.8 * draft.idle_s, "send", _chunk(b"".join(frames[at:])))
    begin = Step(draft.delay(), "send", _chunk(b"".join(frames[:at])))
    return [_begin(draft), begin, pause, Step(0.0, "send", _LAST_CHUNK)]


def cut(draft: Draft) -> Script:
    return [*_prefix(draft), Step(draft.delay(), "close")]


def reset(draft: Draft) -> Script:
    return [*_prefix(draft), Step(draft.delay(), "reset")]


def stall(draft: Draft) -> Script:
    return _prefix(draft)


def early_end(draft: Draft) -> Script:
    return [*_prefix(draft), Step(0.0, "send", _LAST_CHUNK)]


def drip(draft: Draft) -> Script:
    data = draft.answer.data
    size = max(1, len(data) // 60)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    steps = [Step(0.02, "send", _chunk(piece)) for piece in pieces]
    return [_begin(draft), *steps, Step(0.0, "send", _LAST_CHUNK)]


def crawl(draft: Draft) -> Script:
    """Send frame by frame, each just before the gateway would give up."""
    steps = [Step(0.8 * draft.idle_s, "send", _chunk(frame)) for frame in draft.frames()]
    return [_begin(draft), *steps, Step(0.0, "send", _LAST_CHUNK)]


def pauses(draft: Draft) -> Script:
    script = no_fault(draft)
    at = draft.rng.randrange(len(script))
    late = draft.rng.choice((1.0, draft.idle_s / 2, draft.idle_s * 1.5))
    script[at] = script[at]._replace(delay_s=late)
    return script


def garbage(draft: Draft) -> Script:
    data, rng = draft.answer.data, draft.rng
    at = rng.randrange(len(data) + 1)
    return _whole(draft, data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:])


def html(draft: Draft) -> Script:
    page = b"<html><body><h1>It works!</h1></body></html>"
    return [Step(0.0, "send", head(200, "text/html", content_length=str(len(page))) + page)]


def error_in_stream(draft: Draft) -> Script:
    frames = draft.frames()
    kept = frames[: draft.rng.randrange(len(frames) + 1)]
    return _whole(draft, b"".join(kept) + in_band_error(draft.dialect))


def missing_end(draft: Draft) -> Script:
    frames = draft.frames()
    return _whole(draft, b"".join(frames[: -draft.rng.choice((1, 2))]))


def repeated_end(draft: Draft) -> Script:
    frames = draft.frames()
    return _whole(draft, b"".join(frames + frames[-draft.rng.choice((1, 2)) :]))


def lost_frame(draft: Draft) -> Script:
    frames = draft.frames()
    frames.pop(draft.rng.randrange(len(frames)))
    return _whole(draft, b"".join(frames))


def late_usage(draft: Draft) -> Script:
    *frames, last = draft.frames()
    late = Step(draft.rng.choice((0.5, 1.5, 5.0)), "send", _chunk(last))
    return [
        _begin(draft),
        *_send(draft, b"".join(frames)),
        late,
        Step(0.0, "send", _LAST_CHUNK),
    ]


def slow_close(draft: Draft) -> Script:
    return [_begin(draft), *_send(draft, draft.answer.data)]


def second_answer(draft: Draft) -> Script:
    """Send a second answer together with the end of the first, on a connection that may be reused:
    it must not become the answer to another request."""
    script = no_fault(draft)
    if CHECKS_REUSE:
        surplus = b"".join(step.data for step in script)
        script[-1] = script[-1]._replace(data=script[-1].data + surplus)
    return script


def late_head(draft: Draft) -> Script:
    script = no_fault(draft)
    script[0] = script[0]._replace(delay_s=draft.rng.choice((0.5, 3.0, 8.0, 20.0)))
    return script


def no_answer(draft: Draft) -> Script:
    return [Step(draft.delay(), draft.rng.choice(("close", "reset")))]


def silence(draft: Draft) -> Script:
    return []


def empty_body(draft: Draft) -> Script:
    return _whole(draft, b"")


def head_and_close(draft: Draft) -> Script:
    return [_begin(draft), Step(draft.delay(), "close")]


def broken_chunk(draft: Draft) -> Script:
    return [*_prefix(draft), Step(0.0, "send", b"zz\r\nthis is no chunk\r\n")]


def redirect(draft: Draft) -> Script:
    return _error(draft, 307, location="http://203.0.113.9/elsewhere")


def cut_error(draft: Draft) -> Script:
    script = _error(draft, draft.rng.choice((500, 503)))
    data = script[0].data[: -draft.rng.randrange(1, 20)]
    return [Step(0.0, "send", data), Step(draft.delay(), "close")]


def _status(status: int) -> Callable[[Draft], Script]:
    return lambda draft: _error(draft, status)


def rate_limit(draft: Draft) -> Script:
    return _error(draft, 429)


def retry_later(draft: Draft) -> Script:
    wait = draft.rng.choice((1, 2, 20, 90))
    return _error(draft, draft.rng.choice((429, 503)), retry_after=str(wait))


def read_sent(script: Script) -> bytes:
    """The body that a script sends in chunks, as far as it is one."""
    data = b"".join(step.data for step in script).partition(b"\r\n\r\n")[2]
    body = b""
    while (found := _CHUNK_SIZE.match(data)) is not None and (size := int(found[1], 16)):
        body += data[found.end() : found.end() + size]
        data = data[found.end() + size + 2 :]
    return body


_CHUNK_SIZE = re.compile(rb"([0-9a-f]+)\r\n")
Fault = Callable[[Draft], Script]
FAULTS: Mapping[str, tuple[int, Fault]] = {
    "connection closed in mid-stream": (5, cut),
    "connection reset in mid-stream": (4, reset),
    "stall in mid-stream": (3, stall),
    "stream ends early": (4, early_end),
    "one byte at a time": (2, drip),
    "long pause": (3, pauses),
    "frame by frame": (3, crawl),
    "garbage in the stream": (3, garbage),
    "an HTML page": (1, html),
    "error in the stream": (4, error_in_stream),
    "missing end": (3, missing_end),
    "repeated end": (3, repeated_end),
    "lost frame": (3, lost_frame),
    "late usage": (3, late_usage),
    "connection left open": (3, slow_close),
    "a second answer": (2, second_answer),
    "late head": (3, late_head),
    "closed without an answer": (3, no_answer),
    "no answer at all": (1, silence),
    "empty body": (2, empty_body),
    "closed after the head": (2, head_and_close),
    "broken chunk": (2, broken_chunk),
    "redirect": (1, redirect),
    "error body cut": (1, cut_error),
    "status 400": (1, _status(400)),
    "status 401": (1, _status(401)),
    "status 403": (1, _status(403)),
    "status 404": (1, _status(404)),
    "status 429": (3, rate_limit),
    "Retry-After": (3, retry_later),
    "status 500": (3, _status(500)),
    "status 502": (2, _status(502)),
    "status 503": (2, _status(503)),
    "status 529": (1, _status(529)),
}
FAULT_NAMES = tuple(FAULTS)
FAULT_WEIGHTS = tuple(weight for weight, _ in FAULTS.values())
