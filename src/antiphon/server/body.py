"""Decoding of request bodies while they arrive.

A body is scanned and decoded while it arrives, so that a limit is enforced before the memory is
spent, and no single call to the JSON decoder takes long (docs/adr/0030-bounded-requests.md):

1. `BodyScanner` looks at each piece once. Outside of strings it counts commas and brackets, which
   bound the number of JSON values and the nesting.
2. `BodyDecoder` cuts a large body before a comma into fragments of about `FRAGMENT_BYTES`. The open
   brackets make each fragment a JSON document of its own; the values that it adds to the containers
   still open are moved there.

A small body that has arrived as a whole is decoded at once (`BodyReader`): none of its limits can
be exceeded.

The limits make a document safe to walk recursively, to store and to encode again.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.items import Document
from antiphon.dialects.validate import json_type
from antiphon.errors import InvalidRequest

FRAGMENT_BYTES = 16 * 1024
"""Smallest fragment that is decoded by itself; a smaller body is decoded as a whole."""
_LARGE_VALUES = 2_500
_LARGE_BYTES = 512 * 1024
_LONGEST_BLANK = 256  # whitespace before a comma that may be a cut

_BYTE_OFFSET = re.compile(r" \(byte (\d+)\)")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_CONTINUED = "\uffff continued"
"""Key of the value in a fragment that continues a value of the fragment before."""
_OPENINGS = {ord("["): b"[", ord("{"): b'{"%b":' % _CONTINUED.encode()}
_CLOSINGS = {ord("["): b"]", ord("{"): b"}"}


class BodyLimits(Struct, frozen=True, kw_only=True):
    """Limits of a request body; keys of `[server]` in the configuration."""

    max_body_bytes: int = 64 * 1024 * 1024
    """Bytes after decompression."""
    max_body_values: int = 500_000
    """JSON values: objects, arrays, strings, numbers and literals."""
    max_body_depth: int = 100
    """Levels of objects and arrays. Real schemas need a fraction of it; attacks need more."""
    max_text_bytes: int = 10 * 1024 * 1024
    """Bytes of one string with escapes or non-ASCII characters, which is slow to decode. Base64
    data has neither."""
    max_input_items: int = 50_000
    max_settings_bytes: int = 8 * 1024 * 1024
    """Bytes of all fields but `input`: the response repeats most of them in several events."""


DEFAULT_LIMITS = BodyLimits()


def decode_body(body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> Document:
    """Decode the JSON object of a request, or raise an `InvalidRequest` with its line."""
    reader = BodyReader(limits)
    reader.feed(body)
    return reader.close()


class BodyReader:
    """Decodes the JSON object of a request from its pieces: `feed` each, then `close`."""

    __slots__ = ("_decoder", "_first", "_limits", "is_large")

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._first = b""
        """The only piece so far; it is decoded when more of them follow, or none."""
        self._decoder: BodyDecoder | None = None
        self.is_large = False
        """Whether validation and planning take long enough to delay other requests."""

    def feed(self, piece: bytes) -> None:
        if self._decoder is None:
            if not self._first:
                self._first = piece
                return
            self._decoder = self._begin()
        self._decoder.feed(piece)

    def close(self) -> Document:
        """Return the object; raises `InvalidRequest` for anything else."""
        decoder = self._decoder
        if decoder is None:
            document = _decode_small(self._first, self._limits)
            if document is not None:
                return document
            decoder = self._begin()
        self.is_large = decoder.scanner.is_large
        return decoder.close()

    def _begin(self) -> BodyDecoder:
        decoder = BodyDecoder(BodyScanner(self._limits))
        decoder.feed(self._first)
        return decoder


def _decode_small(body: bytes, limits: BodyLimits) -> Document | None:
    """Decode a whole body that is so small that it exceeds no limit. None: it may be larger, or it
    is invalid, which a `BodyDecoder` explains."""
    size = len(body)
    if size >= FRAGMENT_BYTES or size > limits.max_body_bytes or size > limits.max_text_bytes:
        return None
    opened = body.count(b"[") + body.count(b"{")  # within strings as well: an upper bound
    values = opened + body.count(b",")
    if opened > limits.max_body_depth or values > min(_LARGE_VALUES, limits.max_body_values):
        return None
    try:
        body.decode()
        document = _decode(body)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None
    return document if type(document) is dict else None


_decode = msgspec.json.Decoder().decode


@dataclass
class BodyScanner:
    """Counts the bytes, values and levels of a JSON body, and checks its UTF-8."""

    limits: BodyLimits = DEFAULT_LIMITS
    size: int = 0
    values: int = 0
    """An upper bound of the number of JSON values."""
    _depth: int = 0
    _utf8: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    _in_string: bool = False
    _is_escaped: bool = False
    """Whether the last byte was a backslash that escapes the next one."""
    _string_size: int = 0
    _string_is_plain: bool = True

    def feed(self, piece: bytes) -> list[bytes]:
        """Check a piece; return what of it is outside of strings. What follows the first part of
        the result begins after a string."""
        self.size += len(piece)
        if self.size > self.limits.max_body_bytes:
            raise _too_large("is larger than", "bytes", "max_body_bytes", self.limits)
        self._check_utf8(piece)
        parts = self._mask_escapes(piece).split(b'"')
        outside = parts[self._in_string :: 2]
        self._check_strings(piece, parts)
        self._count(b"".join(outside))
        return parts

    @property
    def in_string(self) -> bool:
        return self._in_string

    @property
    def is_large(self) -> bool:
        """Whether validation and planning take long enough to delay other requests."""
        return self.values > _LARGE_VALUES or self.size > _LARGE_BYTES

    def _check_utf8(self, piece: bytes) -> None:
        pending = len(self._utf8.getstate()[0])
        try:
            self._utf8.decode(piece)
        except UnicodeDecodeError as error:
            start = self.size - len(piece) - pending + error.start
            raise _invalid_json(f"not UTF-8 at byte {start}") from None

    def _mask_escapes(self, piece: bytes) -> bytes:
        """Replace escaped quotes and backslashes; what remains keeps its position."""
        if self._is_escaped:
            piece = b"_" + piece[1:]
        self._is_escaped = False
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
            self._is_escaped = piece.endswith(b"\\")
        return piece

    def _check_strings(self, piece: bytes, parts: Sequence[bytes]) -> None:
        """Measure the strings that go on over several pieces; others are short."""
        if self._in_string:
            self._extend_string(piece[: len(parts[0])])
        if len(parts) % 2 == 0:
            self._in_string = not self._in_string
        if self._in_string and len(parts) > 1:
            self._string_size = 0
            self._string_is_plain = True
            self._extend_string(piece[len(piece) - len(parts[-1]) :])

    def _extend_string(self, text: bytes) -> None:
        self._string_size += len(text)
        if self._string_is_plain and (b"\\" in text or not text.isascii()):
            self._string_is_plain = False
        if not self._string_is_plain and self._string_size > self.limits.max_text_bytes:
            kind = "bytes in a string with escapes or non-ASCII characters"
            raise _too_large("has more than", kind, "max_text_bytes", self.limits)

    def _count(self, outside: bytes) -> None:
        brackets = outside.translate(None, _NOT_BRACKETS)
        opened = brackets.count(b"[") + brackets.count(b"{")
        self.values += outside.count(b",") + opened
        if self.values > self.limits.max_body_values:
            raise _too_large("has more than", "JSON values", "max_body_values", self.limits)
        deepest = self._depth + opened
        if deepest > self.limits.max_body_depth:  # only then the order matters
            deepest = max(accumulate(map(_STEPS.__getitem__, brackets), initial=self._depth))
        if deepest > self.limits.max_body_depth:
            raise _too_deep(self.limits.max_body_depth)
        self._depth += 2 * opened - len(brackets)


@dataclass
class BodyDecoder:
    """Decodes a JSON object from pieces of any size: `feed` each, then `close`."""

    scanner: BodyScanner = field(default_factory=BodyScanner)
    _fragment: bytearray = field(default_factory=bytearray)
    """JSON text since the last cut, after the openings of the containers still open."""
    _openings: int = 0
    """Bytes of these openings."""
    _brackets: bytes = b""
    """Brackets since the last cut."""
    _stack: bytes = b""
    """Brackets that were open at the last cut."""
    _open: list[Any] = field(default_factory=list)
    """The containers of `_stack`, outermost first."""
    _root: Any = None
    _start: int = 0
    """Offset of the fragment in the body; then the number and the offset of its line."""
    _line: int = 0
    _line_start: int = 0

    def feed(self, piece: bytes) -> None:
        scanner = self.scanner
        begins_in_string = scanner.in_string
        parts = scanner.feed(piece)
        if len(self._fragment) + len(piece) < FRAGMENT_BYTES:
            self._append(piece, parts[begins_in_string::2])
            return
        cut = _find_last_comma(parts, begins_in_string)
        if cut is None:
            self._append(piece, parts[begins_in_string::2])
            return
        index, position = cut
        part = parts[index]
        offset = sum(map(len, parts[:index])) + index + position
        self._append(piece[:offset], [*parts[begins_in_string:index:2], part[:position]])
        self._cut()
        self._append(piece[offset:], [part[position:], *parts[index + 2 :: 2]])

    def close(self) -> Document:
        """Return the object; raises `InvalidRequest` for anything else."""
        self._merge(self._decode_fragment())
        if not isinstance(self._root, dict):
            problem = f"The request body must be an object, not {json_type(self._root)}."
            raise InvalidRequest(problem, code="invalid_type")
        return self._root

    def _append(self, piece: bytes, outside: Sequence[bytes]) -> None:
        self._fragment += piece
        self._brackets += b"".join(outside).translate(None, _NOT_BRACKETS)

    def _cut(self) -> None:
        """Decode the text since the last cut, before a comma.

        A comma outside of any container, or at the beginning of one, is left to the decoder as a
        part of a longer fragment: it is an error, which a cut would hide."""
        stack, kept = _apply_brackets(self._stack, self._brackets)
        before = self._fragment[-_LONGEST_BLANK:].rstrip()
        if not stack or not before or before[-1] in _OPENINGS:
            return
        size = len(self._fragment)
        self._fragment += b"".join(_CLOSINGS[bracket] for bracket in reversed(stack))
        self._merge(self._decode_fragment())
        self._follow_open_containers(kept, len(stack))
        self._count_lines(size)
        self._stack = stack
        self._brackets = b""
        self._fragment = bytearray(b"".join(_OPENINGS[bracket] for bracket in stack) + b"0")
        self._openings = len(self._fragment)

    def _decode_fragment(self) -> Any:
        try:
            return msgspec.json.decode(self._fragment)
        except msgspec.ValidationError:  # well-formed numbers that Python cannot represent
            raise _invalid_json("a number is out of range") from None
        except msgspec.DecodeError as error:
            raise _invalid_json(self._locate(str(error))) from None

    def _merge(self, node: Any) -> None:
        """Move the values of a fragment to the containers that were open at its beginning."""
        if not self._open:
            self._root = node
        for container in self._open:
            if type(node) is not type(container):
                raise _invalid_json("an object has a key twice")
            if isinstance(container, list):
                continued = node[0]
                added = node[1:]
                container.extend(added)
            else:
                continued = node.pop(_CONTINUED)
                container.update(node)
            node = continued

    def _follow_open_containers(self, kept: int, depth: int) -> None:
        """Find the containers that are open at a cut: each is the last value of the one around."""
        self._open = self._open[:kept] or [self._root]
        while len(self._open) < depth:
            around = self._open[-1]
            last = around[-1] if isinstance(around, list) else around[next(reversed(around))]
            if not isinstance(last, dict | list):
                raise _invalid_json("an object has a key twice")
            self._open.append(last)

    def _count_lines(self, size: int) -> None:
        """Move the position of the fragment to its end, `size` bytes with the openings."""
        newline = self._fragment.rfind(b"\n")
        if newline >= 0:
            self._line += self._fragment.count(b"\n")
            self._line_start = self._start + newline + 1 - self._openings
        self._start += size - self._openings

    def _locate(self, reason: str) -> str:
        """Replace the byte offset in a message of the decoder by a line and a column."""
        found = _BYTE_OFFSET.search(reason)
        offset = int(found[1]) if found else len(self._fragment)
        reason = reason.removeprefix("JSON is malformed: ") if found else "unexpected end of input"
        line = self._line + self._fragment.count(b"\n", 0, offset) + 1
        newline = self._fragment.rfind(b"\n", 0, offset)
        start = self._line_start if newline < 0 else self._start + newline + 1 - self._openings
        column = self._start + offset - self._openings - start + 1
        return f"{_BYTE_OFFSET.sub('', reason)} (line {line}, column {column})"


def _find_last_comma(parts: Sequence[bytes], first: int) -> tuple[int, int] | None:
    """Find the last comma outside of strings: the index of its part, and its offset there.

    `first` is the index of the first part outside of strings; every second one follows.
    """
    for index in reversed(range(first, len(parts), 2)):
        position = parts[index].rfind(b",")
        if position >= 0:
            return index, position
    return None


def _apply_brackets(stack: bytes, brackets: bytes) -> tuple[bytes, int]:
    """Open and close containers; return the open ones, and how many of `stack` stayed open."""
    opened = bytearray(stack)
    kept = len(stack)
    for bracket in brackets:
        if bracket in _OPENINGS:
            opened.append(bracket)
        else:
            del opened[-1:]
            kept = min(kept, len(opened))
    return bytes(opened), kept


_ITEMS = ("input", "messages")
"""The fields that hold the thread of a request, in the formats that clients speak."""


def check_input_items(document: Document, limits: BodyLimits) -> None:
    """Raise `InvalidRequest` for a thread with too many items."""
    for name in _ITEMS:
        items = document.get(name)
        if isinstance(items, list) and len(items) > limits.max_input_items:
            kind = f"items in `{name}`"
            raise _too_large("has more than", kind, "max_input_items", limits, name)


def check_settings(document: Document, limits: BodyLimits) -> None:
    """Raise `InvalidRequest` for too many bytes in the fields other than the thread."""
    size = 0
    for name, value in document.items():
        if name not in _ITEMS:
            members = value if isinstance(value, list) else (value,)
            size += sum(len(msgspec.json.encode(each)) for each in members)
    if size > limits.max_settings_bytes:
        thread = next((name for name in _ITEMS if name in document), _ITEMS[0])
        kind = f"bytes in the fields other than `{thread}`"
        raise _too_large("has more than", kind, "max_settings_bytes", limits)


def _invalid_json(reason: str) -> InvalidRequest:
    return InvalidRequest(f"The request body is not valid JSON: {reason}.")


def _too_deep(limit: int) -> InvalidRequest:
    return InvalidRequest(
        f"The request body is nested more than {limit} levels deep. Flatten it, or raise"
        " `max_body_depth` in [server], up to 100.",
        code="invalid_value",
    )


def _too_large(
    relation: str, kind: str, setting: str, limits: BodyLimits, param: str | None = None
) -> InvalidRequest:
    return InvalidRequest(
        f"The request body {relation} {getattr(limits, setting)} {kind}. Send less, or raise"
        f" `{setting}` in [server].",
        param=param,
        code="request_too_large",
        status=413,
    )
