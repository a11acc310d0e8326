"""Removal of quotes: text of a request that a message repeats is replaced by «request text».

Providers quote prompts in their errors. What may be kept of such a message is the provider's own
words. Message and request are compared by their letters and digits alone, without case, so that
escapes, line breaks and other quotation do not hide a quote. Removed are

- every 16 letters and digits in a row (bytes, in UTF-8) that stand in a string of the request;
- shorter texts of the request (`content`, `text` …) that the message repeats as a whole;
- words with digits in them (numbers, passwords, addresses) from 6 letters on;
- long unbroken runs, such as Base64.

Names in a request (of its model, roles, tools, fields) are not quotes: a message needs them. The
cost is bounded: a larger request has its message withheld as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any

import msgspec
from msgspec import Struct, field

QUOTED = "«request text»"
WITHHELD = "withheld: the request is too large to be searched for what the message quotes of it"

_GRAM = 8  # a quote of 2 * 8 - 1 bytes holds one of the request's 8 bytes at multiples of 8
_MIN_QUOTE = 16
_MIN_SHORT_TEXT = 4
_MIN_WORD = 6
_MAX_WORDS = 64
_MAX_BODY = 8 * 1024 * 1024
_MAX_TEXT = 1024 * 1024
_MAX_STRINGS = 20_000
_MAX_VALUES = 200_000
_MAX_COMPARISONS = 10_000

_NAMES = frozenset(
    """
    model role type name id call_id tool_call_id tool_use_id toolUseId tool_choice effort
    reasoning_effort format service_tier verbosity media_type mime_type mimeType detail status
    """.split()
)
"""Keys whose values are names: a message about one of them is of no use without it."""
_TEXT_KEYS = frozenset(
    """
    content text input output system instructions arguments prompt query user thinking reasoning
    reasoning_content safety_identifier prompt_cache_key
    """.split()
)
_NOT_ALPHANUMERIC = bytes(code for code in range(128) if not chr(code).isalnum())
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
_TOKEN = re.compile(r"\\+(?:u([0-9a-f]{4})|[bfnrtv])?|(.)", re.DOTALL | re.IGNORECASE)
_ESCAPE = re.compile(rb"\\+(?:u([0-9a-f]{4})|[bfnrtv])?")
_WORD = re.compile(r"[\w@.+-]+")
_DIGIT = re.compile(r"\d")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_=-]{80,}")


class RequestTexts(Struct):
    """The letters and digits of all strings of a request."""

    blob: bytes = b""
    short: set[bytes] = field(default_factory=set)
    """Short texts that are removed only as a whole."""
    too_large: bool = False
    """There is too much to search: every message is withheld."""


class _Letters:
    """The letters and digits of a message, each with its place there, and whether it is quoted."""

    def __init__(self, message: str) -> None:
        self.message = message
        self._places: list[tuple[int, int]] = []
        pieces = bytearray()
        for token in _TOKEN.finditer(message):
            letter = _normalize((token[2] or _decode_escape(token[1])).encode(*_UTF8))
            pieces += letter
            self._places += [token.span()] * len(letter)
        self.data = bytes(pieces)
        self._quoted = bytearray(len(self.data))

    def mark(self, begin: int, end: int) -> None:
        self._quoted[begin:end] = b"\1" * (end - begin)

    def is_marked(self, begin: int, end: int) -> bool:
        return all(self._quoted[begin:end])

    def mark_characters(self, begin: int, end: int) -> None:
        """Mark a span of the message itself."""
        for index, (at, _) in enumerate(self._places):
            if begin <= at < end:
                self._quoted[index] = 1

    def is_word(self, begin: int, end: int) -> bool:
        """Whether letters stand alone in the message, not inside a longer word."""
        first, last = self._places[begin][0], self._places[end - 1][1]
        before, after = self.message[:first][-1:], self.message[last : last + 1]
        return not before.isalnum() and not after.isalnum()

    def without_quotes(self) -> str:
        pieces: list[str] = []
        at = 0
        for run in re.finditer(b"\1+", self._quoted):
            begin, end = self._places[run.start()][0], self._places[run.end() - 1][1]
            pieces += (self.message[at:begin], QUOTED)
            at = max(at, end)
        return "".join([*pieces, self.message[at:]])


_UTF8 = ("utf-8", "surrogatepass")


def remove_quotes(message: str, texts: RequestTexts) -> str:
    """Return a message without what it quotes of a request."""
    if texts.too_large:
        return WITHHELD
    letters = _Letters(message)
    _mark_passages(letters, texts.blob)
    _mark_short_texts(letters, texts.short)
    words = (word for word in _WORD.finditer(message) if _DIGIT.search(word[0]))
    for word in islice(words, _MAX_WORDS):
        normalized = _normalize(word[0].encode(*_UTF8))
        if len(normalized) >= _MIN_WORD and normalized in texts.blob:
            letters.mark_characters(*word.span())
    for run in _LONG_RUN.finditer(message):
        letters.mark_characters(*run.span())
    return letters.without_quotes()


# The texts of a request


def read_texts(*bodies: bytes, names: bool = False) -> RequestTexts:
    """Read the strings of JSON bodies; with `names`, also the names and values that are no text."""
    if sum(map(len, bodies)) > _MAX_BODY:
        return RequestTexts(too_large=True)
    strings = _Strings(names=names)
    for body in bodies:
        if not strings.read(_decode(body)):
            return RequestTexts(too_large=True)
    return RequestTexts(b"\0".join(strings.pieces), strings.short)


class _Strings:
    """The normalized strings of JSON documents, as far as the bounds allow."""

    def __init__(self, *, names: bool) -> None:
        self._names = names
        self._bytes = self._values = 0
        self.pieces: list[bytes] = []
        self.short: set[bytes] = set()

    def read(self, document: Any) -> bool:
        """Read a document; False if it exceeds the bounds."""
        for key, value in _walk(document, names=self._names):
            self._values += 1
            if isinstance(value, str) and (self._names or key not in _NAMES):
                self._add(key, value.encode(*_UTF8))
            if (
                self._bytes > _MAX_TEXT
                or self._values > _MAX_VALUES
                or len(self.pieces) > _MAX_STRINGS
            ):
                return False
        return True

    def _add(self, key: str, data: bytes) -> None:
        if _is_base64(data):
            return
        self._bytes += len(data)
        if self._bytes <= _MAX_TEXT:
            self.pieces.append(piece := _normalize(data))
            is_text = key in _TEXT_KEYS or (self._names and key)
            if is_text and _MIN_SHORT_TEXT <= len(piece) < _MIN_QUOTE:
                self.short.add(piece)


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _walk(document: Any, *, names: bool) -> Iterator[tuple[str, Any]]:
    """Yield every value of a document with its key, and with `names` the keys as well."""
    pending: list[Iterator[tuple[str, Any]]] = [iter([("", document)])]
    while pending:
        for key, value in pending[-1]:
            yield key, value
            if isinstance(value, dict):
                pending.append(iter(value.items()))
                if names:
                    pending.append(zip(repeat(""), value))
                break
            if isinstance(value, list):
                pending.append(zip(repeat(key), value))
                break
        else:
            pending.pop()


def _is_base64(data: bytes) -> bool:
    """Whether a string is long Base64, as images are; the message's own runs are removed anyway."""
    if len(data) <= 4096:
        return False
    head, comma, _ = data[:100].partition(b";base64,")
    encoded = data[len(head) + len(comma) :] if comma else data
    return not encoded.translate(None, _BASE64)


def _normalize(data: bytes) -> bytes:
    """Reduce text to its letters and digits, in lower case; escapes are decoded or dropped."""
    data = data.lower()
    if b"\\" in data:
        data = _ESCAPE.sub(lambda found: _decode_escape_bytes(found[1]), data)
    return data.translate(None, _NOT_ALPHANUMERIC)


def _decode_escape_bytes(digits: bytes | None) -> bytes:
    return _decode_escape(digits.decode() if digits else None).encode(*_UTF8)


def _decode_escape(digits: str | None) -> str:
    """Return the character of `\\u00e9`; nothing for a line break or a backslash."""
    return chr(int(digits, 16)) if digits else ""


# Quotes in a message


def _mark_passages(letters: _Letters, blob: bytes) -> None:
    """Mark what has 16 letters or more in common with the request."""
    grams: dict[bytes, list[int]] = {}
    for at in range(len(letters.data) - _GRAM + 1):
        grams.setdefault(letters.data[at : at + _GRAM], []).append(at)
    comparisons = 0
    for at in range(0, len(blob) - _GRAM + 1, _GRAM):
        gram = blob[at : at + _GRAM]
        if gram not in grams:
            continue
        comparisons += len(grams[gram])
        for place in grams[gram]:
            _mark_passage(letters, place, blob, at, always=comparisons > _MAX_COMPARISONS)
        grams[gram] = [p for p in grams[gram] if not letters.is_marked(p, p + _GRAM)]
        if not grams[gram]:
            del grams[gram]


def _mark_passage(letters: _Letters, place: int, blob: bytes, at: int, *, always: bool) -> None:
    """Mark the common text around one match; `always`: also if it is short, without a look."""
    if always:
        letters.mark(place, place + _GRAM)
        return
    data = letters.data
    if letters.is_marked(max(0, place - 1), place + _GRAM + 1):
        return  # part of a quote that was found already
    begin = end = 0
    while begin < min(place, at) and data[place - begin - 1] == blob[at - begin - 1]:
        begin += 1
    limit = min(len(data) - place, len(blob) - at)
    while end < limit and data[place + end] == blob[at + end]:
        end += 1
    if begin + end >= _MIN_QUOTE:
        letters.mark(place - begin, place + end)


def _mark_short_texts(letters: _Letters, texts: set[bytes]) -> None:
    for text in texts:
        at = letters.data.find(text)
        while at >= 0:
            if letters.is_word(at, at + len(text)):
                letters.mark(at, at + len(text))
            at = letters.data.find(text, at + 1)
