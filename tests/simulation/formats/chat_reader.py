"""Second reader of Chat Completions: chunks and whole responses, by the rules of the format."""

from __future__ import annotations

from typing import Any

from tests.simulation.formats.reading import (
    Document,
    ReadCall,
    Reading,
    is_count,
    parse_json,
    read_frames,
)

_REASONS = ("stop", "length", "tool_calls", "content_filter")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_ERROR = {"message", "type", "param", "code"}
_PREFIX = "chatcmpl-"


class ChatReader:
    """Reads the frames of one stream."""

    def __init__(self, request: Document) -> None:
        self.reading = Reading()
        self._request = request
        self._wants_usage = (request.get("stream_options") or {}).get("include_usage") is True
        self._identity: tuple[Any, ...] | None = None
        self._is_done = False

    def read(self, frames: list[bytes], *, is_complete: bool) -> Reading:
        """Read what has arrived; `is_complete`: the body has ended as it should."""
        data = (frame for frame in frames if not frame.startswith(b":"))
        read_frames(self.reading, data, self._read_frame)
        if is_complete:
            self._check_end()
        return self.reading

    def _read_frame(self, frame: bytes) -> None:
        reading = self.reading
        reading.expect(not self._is_done, f"{frame[:40]!r} follows [DONE]")
        reading.expect(reading.error is None, f"{frame[:40]!r} follows an error")
        reading.expect(frame.startswith(b"data: "), f"{frame[:40]!r} is no data")
        payload = frame.removeprefix(b"data: ")
        if payload == b"[DONE]":
            self._is_done = True
            return
        chunk = parse_json(payload)
        if not isinstance(chunk, dict):
            reading.problems.append(f"{payload[:40]!r} is no chunk")
        elif "error" in chunk:
            self._read_error(chunk)
        else:
            self._read_chunk(chunk)

    def _read_error(self, chunk: Document) -> None:
        reading = self.reading
        reading.expect(not reading.reason, "an error follows the finish reason")
        reading.expect(chunk["error"].keys() == _ERROR, f"an error has {[*chunk['error']]}")
        reading.expect(chunk["error"].get("message"), "an error has no message")
        reading.error = chunk["error"]

    def _read_chunk(self, chunk: Document) -> None:
        reading = self.reading
        identity = tuple(chunk.get(name) for name in ("id", "object", "created", "model"))
        if self._identity is None:
            self._begin(chunk, identity)
        reading.expect(identity == self._identity, f"a chunk has another identity: {identity}")
        if not chunk["choices"]:
            self._read_usage(chunk)
            return
        reading.expect(not chunk.get("usage"), "usage stands beside a choice")
        [choice] = chunk["choices"]
        reading.expect(choice["index"] == 0, "a choice has another index than 0")
        reading.expect(not reading.reason, "a choice follows the finish reason")
        self._read_delta(choice["delta"])
        if choice["finish_reason"] is not None:
            self._read_finish(choice["finish_reason"])

    def _begin(self, chunk: Document, identity: tuple[Any, ...]) -> None:
        reading = self.reading
        self._identity = identity
        reading.expect(chunk["object"] == "chat.completion.chunk", "a chunk has another type")
        reading.expect(chunk["id"].startswith(_PREFIX), f"the id is {chunk['id']}")
        reading.id, reading.model = chunk["id"].removeprefix(_PREFIX), chunk["model"]
        first = chunk["choices"][0]["delta"] if chunk["choices"] else {}
        reading.expect(first.get("role") == "assistant", "the first chunk has no role")

    def _read_delta(self, delta: Document) -> None:
        reading = self.reading
        reading.text += (delta.get("content") or "") + (delta.get("refusal") or "")
        thoughts = delta.get("reasoning_content"), delta.get("reasoning")
        reading.expect(thoughts[0] == thoughts[1], f"reasoning has two texts: {thoughts}")
        reading.reasoning += thoughts[0] or ""
        reading.blocks += delta.get("reasoning_details") or ()
        for piece in delta.get("tool_calls") or ():
            self._read_call(piece)

    def _read_call(self, piece: Document) -> None:
        reading, index = self.reading, piece["index"]
        kind = "custom" if "custom" in piece else "function"
        given = piece.get(kind) or {}
        if index == len(reading.calls):
            is_named = piece.get("id") and piece.get("type") == kind and given.get("name")
            reading.expect(is_named, f"call {index} begins without id, type and name")
            reading.calls.append(ReadCall(piece.get("id", ""), given.get("name", ""), kind))
        else:
            is_known = 0 <= index < len(reading.calls)
            reading.expect(is_known, f"call {index} is the next of {len(reading.calls)}")
            reading.expect("id" not in piece and "name" not in given, f"call {index} begins twice")
        call = reading.calls[min(index, len(reading.calls) - 1)]
        call.arguments += given.get("input" if kind == "custom" else "arguments") or ""

    def _read_finish(self, reason: str) -> None:
        reading = self.reading
        reading.reason = reason
        check_calls(reading)

    def _read_usage(self, chunk: Document) -> None:
        reading = self.reading
        reading.expect(reading.reason, "usage comes before the finish reason")
        reading.expect(self._wants_usage, "usage was not asked for")
        reading.expect(reading.usage is None, "usage comes twice")
        reading.usage = chunk.get("usage") or {}
        check_usage(reading)

    def _check_end(self) -> None:
        reading = self.reading
        is_good = reading.error is None
        reading.expect(self._identity or not is_good, "the stream is empty")
        reading.expect(bool(reading.reason) == is_good, "neither a finish reason nor an error")
        reading.expect(self._is_done == is_good, "[DONE] stands behind a failure, or is missing")
        if is_good and self._wants_usage:
            reading.expect(reading.usage is not None, "usage was asked for, and is missing")


def check_calls(reading: Reading) -> None:
    """The finish reason agrees with the calls, and every call can be run."""
    reading.expect(reading.reason in _REASONS, f"the finish reason is {reading.reason}")
    reading.is_cut = reading.reason in ("length", "content_filter")
    ids = [call.id for call in reading.calls]
    reading.expect(len({*ids}) == len(ids), f"two calls have one id: {ids}")
    if reading.reason in ("stop", "tool_calls"):
        has_calls = reading.reason == "tool_calls"
        reading.expect(has_calls == bool(ids), f"{len(ids)} calls end with {reading.reason}")
        for call in reading.calls:
            reading.malformed += [] if call.has_arguments else [call.arguments]


def check_usage(reading: Reading) -> None:
    usage = reading.usage or {}
    counts = [usage.get(name) for name in _COUNTS]
    reading.expect(all(map(is_count, counts)), f"the usage is {usage}")


def read_whole(document: Document) -> Reading:
    """Read a response that was not streamed."""
    reading = Reading(id=document["id"].removeprefix(_PREFIX), model=document["model"])
    reading.expect(document["object"] == "chat.completion", "the response has another type")
    [choice] = document["choices"]
    message = choice["message"]
    reading.expect(message["role"] == "assistant", "the message has another role")
    reading.text = (message.get("content") or "") + (message.get("refusal") or "")
    reading.reasoning = message.get("reasoning_content") or ""
    reading.blocks = message.get("reasoning_details") or []
    for call in message.get("tool_calls") or ():
        given = call[call["type"]]
        arguments = given["input" if call["type"] == "custom" else "arguments"]
        reading.calls.append(ReadCall(call["id"], given["name"], call["type"], arguments))
    reading.reason, reading.usage = choice["finish_reason"], document["usage"]
    check_calls(reading)
    check_usage(reading)
    return reading
