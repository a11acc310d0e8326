"""Second reader of Messages: streams of content blocks and whole messages, by the rules of the
format."""

from __future__ import annotations

import msgspec

from tests.simulation.formats.reading import (
    Document,
    ReadCall,
    Reading,
    is_count,
    parse_json,
    read_frames,
)

_DELTAS = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "server_tool_use": ("input_json_delta",),
    "mcp_tool_use": ("input_json_delta",),
    "compaction": ("compaction_delta",),
}
"""The deltas of each kind of block."""
_WHOLE = ("redacted_thinking", "mcp_tool_listing", "container_upload")
"""Kinds of blocks that come whole, beside results. A kind that is neither here nor above is one
that damaged bytes of a provider of the format have made: it is passed on as it is."""
_CUT = ("max_tokens", "model_context_window_exceeded", "pause_turn", "compaction")
"""Reasons of a message that its model has not finished."""
_REASONS = ("end_turn", "tool_use", "stop_sequence", "refusal", *_CUT)
_ENDED = ("end_turn", "tool_use", "stop_sequence")
"""Reasons of a message that its model has finished."""
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_PREFIX = "msg_"


class _WholeMessage(msgspec.Struct):
    """A whole message whose blocks are kept as bytes."""

    content: list[msgspec.Raw]


class _WholeBlock(msgspec.Struct):
    input: msgspec.Raw = msgspec.Raw(b"null")


class MessagesReader:
    """Reads the frames of one stream."""

    def __init__(self) -> None:
        self.reading = Reading()
        self._open: int | None = None
        self._has_begun = False
        self._is_over = False
        self._input = ""
        """The arguments of a call to a server, as far as they have arrived."""

    def read(self, frames: list[bytes], *, is_complete: bool) -> Reading:
        """Read what has arrived; `is_complete`: the body has ended as it should."""
        read_frames(self.reading, frames, self._read_frame)
        if is_complete:
            self.reading.expect(self._is_over, "neither message_stop nor an error ends the stream")
        return self.reading

    def _read_frame(self, frame: bytes) -> None:
        name, _, data = frame.partition(b"\ndata: ")
        event = parse_json(data)
        expect = self.reading.expect
        if not isinstance(event, dict):
            expect(False, f"{frame[:40]!r} is no event")
            return
        kind = event["type"]
        expect(name == b"event: " + kind.encode(), f"{name!r} has an event of type {kind}")
        expect(not self._is_over, f"{kind} follows the end")
        is_first = kind in ("message_start", "error", "ping")  # a ping may hold the line
        expect(self._has_begun or is_first, f"{kind} comes before message_start")
        is_after = bool(self.reading.reason) and kind not in ("message_stop", "error")
        expect(not is_after, f"{kind} follows message_delta")
        match kind:
            case "message_start":
                self._begin(event["message"])
            case "content_block_start":
                self._open_block(event)
            case "content_block_delta":
                self._read_delta(event)
            case "content_block_stop":
                self._close_block(event)
            case "message_delta":
                self._read_end(event)
            case "message_stop":
                expect(self.reading.reason, "message_stop comes without message_delta")
                self._is_over = True
            case "error":
                self._read_error(event)
            case _:
                expect(kind == "ping", f"{kind} is unknown")

    def _begin(self, message: Document) -> None:
        reading = self.reading
        reading.expect(not self._has_begun, "message_start comes twice")
        self._has_begun = True
        _read_head(reading, message)
        reading.expect(message["content"] == [], "message_start has content")
        reading.expect(message["stop_reason"] is None, "message_start has a stop reason")
        reading.expect(is_count(message["usage"].get("input_tokens")), "no input tokens at first")

    def _open_block(self, event: Document) -> None:
        reading, block = self.reading, {**event["content_block"]}
        is_closed = self._open is None or self._is_call_open()
        reading.expect(is_closed, f"a block opens in block {self._open}")
        reading.expect(
            event["index"] == len(reading.blocks),
            f"block {event['index']} follows {len(reading.blocks)} blocks",
        )
        self._open = event["index"]
        reading.blocks.append(block)
        self._input = ""
        if block["type"] == "tool_use":
            reading.calls.append(ReadCall(block["id"], block["name"]))

    def _read_delta(self, event: Document) -> None:
        reading, delta = self.reading, event["delta"]
        reading.expect(event["index"] == self._open, f"a delta for block {event['index']}")
        block = reading.blocks[-1]
        kind = block["type"]
        is_whole = kind in _WHOLE or kind.endswith("_result")
        is_right = delta["type"] in _DELTAS[kind] if kind in _DELTAS else not is_whole
        reading.expect(is_right, f"{delta['type']} in a block of type {kind}")
        match delta:
            case {"type": "text_delta", "text": text}:
                block["text"] = block.get("text", "") + text
                reading.text += text
            case {"type": "thinking_delta", "thinking": text}:
                reading.expect(not block.get("signature"), "a thought goes on after its signature")
                block["thinking"] = block.get("thinking", "") + text
                reading.reasoning += text
            case {"type": "signature_delta", "signature": signature}:
                reading.expect(signature, "a signature is empty")
                reading.expect(not block.get("signature"), "a thought has two signatures")
                block["signature"] = signature
            case {"type": "input_json_delta", "partial_json": piece} if block["type"] == "tool_use":
                reading.calls[-1].arguments += piece
            case {"type": "input_json_delta", "partial_json": piece}:
                self._input += piece

    def _close_block(self, event: Document) -> None:
        reading = self.reading
        reading.expect(event["index"] == self._open, f"block {event['index']} is not open")
        self._open = None
        block = reading.blocks[-1]
        if block["type"] == "tool_use":
            call = reading.calls[-1]
            call.is_closed = True
            reading.malformed += [] if call.has_arguments else [call.arguments]
            block["input"] = parse_json(call.arguments)
        if block["type"] == "mcp_tool_use":
            block["input"] = parse_json(self._input)

    def _read_end(self, event: Document) -> None:
        reading = self.reading
        _read_reason(reading, event["delta"])
        reading.usage = event["usage"]
        is_closed = self._open is None or self._is_call_open()
        reading.expect(is_closed, f"block {self._open} is open at the end")
        is_cut = not all(call.is_closed for call in reading.calls)
        reading.expect(not is_cut or reading.reason not in _ENDED, "a call is open at the end")
        _check_end(reading)

    def _is_call_open(self) -> bool:
        """Whether a call is open: one that was cut off stays so, as a closed one would be run."""
        return self._open is not None and self.reading.blocks[self._open]["type"] == "tool_use"

    def _read_error(self, event: Document) -> None:
        reading = self.reading
        reading.expect(not reading.reason, "an error follows message_delta")
        error = event["error"]
        is_named = error.get("type") and error.get("message")
        reading.expect(is_named, f"the error is {error}")
        reading.error = error
        self._is_over = True


def _read_head(reading: Reading, message: Document) -> None:
    reading.expect(message["id"].startswith(_PREFIX), f"the id is {message['id']}")
    reading.id, reading.model = message["id"].removeprefix(_PREFIX), message["model"]
    is_message = message["type"] == "message" and message["role"] == "assistant"
    reading.expect(is_message, "no message of the assistant")


def _read_reason(reading: Reading, end: Document) -> None:
    reading.reason = end["stop_reason"] or ""
    is_filtered = (end.get("stop_details") or {}).get("reason") == "content_filter"
    reading.is_cut = reading.reason in _CUT or is_filtered
    reading.text += (end.get("stop_details") or {}).get("explanation") or ""  # of a refusal


def _check_end(reading: Reading) -> None:
    """The stop reason agrees with the calls, and the usage is complete."""
    usage, reason = reading.usage or {}, reading.reason
    reading.expect(reason in _REASONS, f"the stop reason is {reason}")
    counts = [usage.get(name) for name in _COUNTS]
    reading.expect(all(map(is_count, counts)), f"the usage is {usage}")
    closed = [call.id for call in reading.calls if call.is_closed]
    if reason in _ENDED:
        is_call = reason == "tool_use"
        reading.expect(is_call == bool(closed), f"{len(closed)} calls end with {reason}")
    reading.expect(len({*closed}) == len(closed), f"two calls have one id: {closed}")


def read_whole(body: bytes) -> Reading:
    """Read a message that was not streamed. Arguments are the bytes that it holds."""
    document = msgspec.json.decode(body)
    reading = Reading(blocks=document["content"])
    _read_head(reading, document)
    raws = msgspec.json.decode(body, type=_WholeMessage).content
    for block, raw in zip(reading.blocks, raws, strict=True):
        match block["type"]:
            case "text":
                reading.text += block["text"]
            case "thinking":
                reading.reasoning += block["thinking"]
            case "tool_use":
                given = bytes(msgspec.json.decode(raw, type=_WholeBlock).input).decode()
                call = ReadCall(block["id"], block["name"], arguments=given, is_closed=True)
                reading.expect(call.has_arguments, f"the arguments are {given}")
                reading.calls.append(call)
    _read_reason(reading, document)
    reading.usage = document["usage"]
    _check_end(reading)
    return reading
