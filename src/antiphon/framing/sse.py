"""Server-sent events: a decoder from bytes to frames, and the lines that it reads.

1. Chunk boundaries do not matter: the same bytes give the same frames.
2. Only CR, LF and CRLF end a line. All work is on bytes, so U+2028 and similar characters are data.
3. Every byte is scanned once and copied a fixed number of times, however small the chunks.
4. An unfinished last frame is delivered when the stream closes: real servers omit its blank line.
"""

from __future__ import annotations

import msgspec

from antiphon.errors import ResponseTooLarge
from antiphon.framing.limits import DEFAULT_LIMITS

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"
_JSON_BEGINS = (b"{", b"[")


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One message of a stream. The payload stays bytes, the input of a JSON decoder."""

    data: bytes
    event: str = ""


class LineSplitter:
    """Incremental splitter of bytes into complete lines, without line ends or a leading BOM."""

    __slots__ = ("_after_cr", "_at_start", "_max_bytes", "_rest")

    def __init__(self, max_bytes: int) -> None:
        self._rest = bytearray()  # of the incomplete line
        self._max_bytes = max_bytes
        self._at_start = True
        self._after_cr = False

    @property
    def is_at_line_start(self) -> bool:
        """Whether the next byte begins a line, and not the first one of the stream."""
        return not (self._rest or self._at_start or self._after_cr)

    def feed(self, chunk: bytes) -> list[bytes]:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")  # second half of a CRLF that spans two chunks
        if not chunk:
            return []
        lines = chunk.splitlines()  # bytes.splitlines splits at CR, LF and CRLF only
        last = chunk[-1]
        if last == _CR:
            self._after_cr = True
        elif last != _LF:
            return self._join(lines[:-1], rest=lines[-1])
        if self._rest or self._at_start:
            return self._join(lines)
        return lines

    def _join(self, lines: list[bytes], rest: bytes = b"") -> list[bytes]:
        """Prepend the buffered bytes to the first complete line; buffer the rest."""
        if lines:
            if self._rest:
                lines[0] = bytes(self._rest) + lines[0]
                self._rest = bytearray()
            if self._at_start:
                self._at_start = False
                lines[0] = lines[0].removeprefix(_BOM)
        self._rest += rest
        if len(self._rest) > self._max_bytes:
            self._rest = bytearray()
            raise ResponseTooLarge("frame_bytes", self._max_bytes)
        return lines


class SSEDecoder:
    """Decoder of server-sent events, with four deviations from the standard for real servers.

    The last event needs no blank line. An event whose data is empty is dropped like one without
    data: some servers send such events as keep-alives. A field `error` is data: llama.cpp had one
    until September 2025. Lines of a JSON document are data, though they have no field's name:
    Gemini reports an error within a stream like this (googleapis/python-genai#1162).

    A line or an event of more than `max_bytes` raises `ResponseTooLarge`.
    """

    __slots__ = (
        "_data",
        "_event",
        "_held",
        "_is_between_events",
        "_is_document",
        "_lines",
        "_max_bytes",
    )

    def __init__(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> None:
        self._lines = LineSplitter(max_bytes)
        self._max_bytes = max_bytes
        self._data: list[bytes] = []
        self._held = bytearray()  # data lines of earlier chunks, each with a line end
        self._event = ""
        self._is_document = False
        """Whether a JSON document without the names of fields has begun."""
        self._is_between_events = False
        """Whether the next byte begins an event: nothing of one is held back."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that this chunk completes: those of one line at once, others by lines.

        Both ways give the same frames, because chunk boundaries do not matter."""
        if self._is_between_events:
            frames = self._split_events(chunk)
            return self._feed_lines(chunk) if frames is None else frames
        end = chunk.find(b"\n\n") + 2  # of the event that has begun
        if end < 2:
            return self._feed_lines(chunk)
        return self._feed_lines(chunk[:end]) + self.feed(chunk[end:])

    def _split_events(self, chunk: bytes) -> list[Frame] | None:
        """Split a chunk of whole events that are a single line of data each; None for others."""
        end = len(chunk) - 2  # of the only line, if it is one event
        if chunk.find(b"\n") == end > 6 and chunk[-1] == _LF and chunk.find(b"\r") < 0:
            return [Frame(chunk[6:end])] if chunk[:6] == b"data: " else None
        lines = chunk.split(b"\n")
        if any(lines[1::2]) or len(lines) % 2 == 0 or lines.pop() or chunk.find(b"\r") >= 0:
            return None
        frames: list[Frame] = []
        for line in lines[::2]:
            if line[:6] != b"data: " or len(line) == 6:
                return None
            frames.append(Frame(line[6:]))
        return frames

    def _feed_lines(self, chunk: bytes) -> list[Frame]:
        frames: list[Frame] = []
        data = self._data
        for line in self._lines.feed(chunk):
            if not line:
                payload = self._take_held() if self._held else b"\n".join(data)
                if payload:
                    frames.append(Frame(payload, self._event))
                data.clear()
                self._event = ""
                self._is_document = False
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
            else:
                self._read_field(line)
        if data:
            self._hold()
        begun = self._held or self._event or not self._lines.is_at_line_start
        self._is_between_events = not begun
        return frames

    def _hold(self) -> None:
        """Keep the data of an unfinished event as one piece, however many lines it has."""
        self._held += b"\n".join(self._data) + b"\n"
        self._data.clear()
        if len(self._held) > self._max_bytes:
            self._held = bytearray()
            raise ResponseTooLarge("frame_bytes", self._max_bytes)

    def _take_held(self) -> bytes:
        """The data of an event that began in an earlier chunk."""
        held, self._held = self._held, bytearray()
        return bytes(held) + b"\n".join(self._data) if self._data else bytes(held[:-1])

    def close(self) -> list[Frame]:
        return self.feed(b"\n\n")  # end an incomplete last line, and its frame

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":  # without a colon: an empty line
            self._data.append(value)
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        elif name == b"error":
            self._data.append(value.removeprefix(b" "))
            self._event = "error"
        elif self._is_document or self._begins_document(line):
            self._is_document = True
            self._data.append(line)

    def _begins_document(self, line: bytes) -> bool:
        """Whether a line without a field's name is of a JSON document: its first line, or one after
        `data: {`."""
        if self._held:
            return self._held.startswith((b"{\n", b"[\n"))
        return self._data[0] in _JSON_BEGINS if self._data else line.startswith(_JSON_BEGINS)
