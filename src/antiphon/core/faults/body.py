"""Error bodies: the codes, texts, status and retry delay in a provider's error, in any shape.

This module only reads; `core.faults.classify` decides. A body is searched along the few keys under
which vendors put their errors, so that neither a prompt echoed in it nor a response beside it is
ever taken for the provider's error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, field

from antiphon.core.faults.vendor_codes import BASE_NUMBER, ERROR_NUMBER, NAMED_CODE

_DEPTH = 8
_BREADTH = 16
TEXT_LIMIT = 4096

_STATUS_KEYS = (
    *("status_code", "http_code", "http_status", "raw_status_code", "originalStatusCode"),
    *("StatusCode", "status", "code"),  # `StatusCode`: Ollama, in a line of a stream
)
_CODE_KEYS = ("reason", "code", "error_code", "status", "type", "error_type", "__type")
# `estimated_time`: Hugging Face, while it loads a model. `resets_in_seconds`: plans of ChatGPT.
_DELAY_KEYS = (
    *("retryDelay", "retry_after", "retry_after_seconds", "estimated_time"),
    "resets_in_seconds",
)
_TEXT_KEYS = frozenset(
    "error errors message Message msg status_msg detail raw originalMessage error_message".split()
)
# The keys under which an error may be. `metadata` belongs to the caller, except inside an error.
# `Message` is Amazon's edge, `external_model_error` the server behind Databricks.
_PATHS = (
    *("error", "errors", "base_resp", "message", "msg", "status_msg", "detail", "error_message"),
    *("Message", "external_model_error", "originalMessage", "response", "delta", "choices"),
)
_VIOLATIONS = "fieldViolations"
_ERROR_PATHS = (*_PATHS, "details", _VIOLATIONS, "metadata", "raw")
_INSIDE_ERROR = frozenset({"error", "errors", "details", "metadata", "raw"})

# Most servers; Anthropic; Amazon; Azure; Cohere; the edge in front of many servers.
_REQUEST_IDS = (
    *("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-debug-trackingid"),
    "cf-ray",
)
_SUCCESS_CODES = (None, 0, "0", 200, "200")
_BARE_CODE_KEYS = frozenset({"code", "error_code", "status_code", "error_type", "__type"})
_BARE_ERROR_KEYS = frozenset({"message", "detail", "id", "request_id"})


class ErrorReading(Struct):
    """The contents of an error body. Codes are most specific first, each with its location."""

    codes: list[tuple[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    status: int | None = None
    delay_s: float | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    request_id: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.texts)[:TEXT_LIMIT]

    def add(self, name: str, value: object, depth: int = 0) -> None:
        """Read a value and the values below it, along the keys of errors."""
        if depth > _DEPTH:
            return
        if isinstance(value, Mapping):
            self._add_mapping(name, value, depth)
        elif isinstance(value, str) and name in _TEXT_KEYS:
            self._add_text(value.strip(), depth)
        for item in _list_items(value):
            self.add(name, item, depth + 1)

    def _add_text(self, text: str, depth: int) -> None:
        """Read a message. Some routers put the whole JSON body of the server behind them into
        it."""
        quoted = _parse_json(text)
        if isinstance(quoted, Mapping | list):
            self.add("raw", quoted, depth + 1)
        elif text and text not in self.texts:
            self.texts.append(text)

    def _add_mapping(self, name: str, fields: Mapping[str, object], depth: int) -> None:
        for key in _STATUS_KEYS:
            self.status = self.status or _read_status(fields.get(key))
        # Deeper objects are more specific, so they are read first.
        for key in _ERROR_PATHS if name in _INSIDE_ERROR else _PATHS:
            self.add(key, fields.get(key), depth + 1)
        for key in _DELAY_KEYS:
            self.delay_s = self.delay_s or _read_delay(fields.get(key))
        self._add_codes(name, fields)
        self._add_names(fields)
        if name == _VIOLATIONS:
            self._add_violation(fields)

    def _add_violation(self, fields: Mapping[str, object]) -> None:
        """Read what Google says of one field; the message above it is often "Invalid argument"."""
        place = _read_name(fields.get("field"))
        description = fields.get("description")
        if isinstance(description, str) and description.strip():
            is_named = place is None or place in description
            self.texts.append(description if is_named else f"{place}: {description}")

    def _add_codes(self, name: str, fields: Mapping[str, object]) -> None:
        for key in _CODE_KEYS:
            value = fields.get(key)
            if isinstance(value, str):
                is_number = name == "error" and key == "code" and _FOUR_DIGITS.fullmatch(value)
                self.codes.append((ERROR_NUMBER if is_number else NAMED_CODE, value))
        if name == "base_resp":
            self.codes.append((BASE_NUMBER, _read_name(fields.get("status_code")) or ""))

    def _add_names(self, fields: Mapping[str, object]) -> None:
        for key in ("type", "error_type", "status"):
            self.type = self.type or _read_name(fields.get(key))
        self.code = self.code or _read_name(fields.get("code"))
        self.request_id = self.request_id or _read_name(fields.get("request_id"))
        loc = _list_items(fields.get("loc"))
        path = ".".join(name for step in loc if (name := _read_name(step)))
        param = (
            _read_name(fields.get("param")) or _read_name(path) or _read_name(fields.get("field"))
        )
        if param and " " in param:  # Xiaomi puts the reason into `param`
            self._add_text(param, _DEPTH)
        self.param = self.param or param

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Read the headers (lower-case) of an error: its type at Amazon, and the request's id."""
        if declared := headers.get("x-amzn-errortype"):
            self.codes.insert(0, (NAMED_CODE, declared))
            self.type = self.type or declared.partition(":")[0]
        for name in _REQUEST_IDS:
            self.request_id = self.request_id or headers.get(name)


def read_body(body: bytes) -> ErrorReading:
    """Read the error in the body of an HTTP response."""
    text = _decode_text(body)
    document = _parse_json(text)
    if isinstance(document, Mapping | list):
        return read_document(document)
    reading = ErrorReading()
    if text and not text.startswith("<"):  # an HTML page is not an error text
        reading.texts.append(text[:TEXT_LIMIT])
    return reading


def holds_document(body: bytes) -> bool:
    """Whether `read_body` finds an object or an array in a body, and does not take it for text."""
    return isinstance(_parse_json(_decode_text(body)), Mapping | list)


def _decode_text(body: bytes) -> str:
    return body.decode("utf-8-sig", "replace").strip()


def read_document(document: object) -> ErrorReading:
    """Read the error in a parsed body, or in a chunk of a stream."""
    reading = ErrorReading()
    reading.add("", document)
    return reading


def carries_error(document: Mapping[str, object]) -> bool:
    """Whether a chunk, or the body of a 200, is an error or has one inside."""
    if document.get("error") or document.get("errors"):
        return True
    if document.get("type") == "error" or document.get("object") == "error":
        return True
    base = document.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code") not in _SUCCESS_CODES:
        return True
    if any(part.get("error") for part in _nested_objects(document)):
        return True
    return _is_bare_error(document)


def _nested_objects(document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The nested objects that may carry the error: `response`, `delta`, and the choices."""
    choices = document.get("choices")
    for part in (document.get("response"), document.get("delta"), *_list_items(choices)):
        if isinstance(part, Mapping):
            yield part


def _is_bare_error(document: Mapping[str, object]) -> bool:
    """Whether the document is an error without an envelope: a message, and a code or nothing."""
    message = document.get("message") or document.get("msg") or document.get("detail")
    if not isinstance(message, str | list) or "choices" in document:
        return False
    if document.keys() <= _BARE_ERROR_KEYS:
        return True
    return any(document.get(key) not in _SUCCESS_CODES for key in _BARE_CODE_KEYS)


def _list_items(value: object) -> list[object]:
    return value[:_BREADTH] if isinstance(value, list) else []


def _parse_json(text: str) -> object:
    """The JSON in a text, which may come as an SSE field; None when there is none."""
    if not text.startswith(("{", "[")):
        fields = (line[5:] for line in text.split("\n") if line.startswith("data:"))
        text = next(fields, "")
    try:
        parsed: object = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return parsed


_FOUR_DIGITS = re.compile("[0-9]{4}")
_STATUS = re.compile("[45][0-9]{2}")


def _read_name(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value[:200] or None if isinstance(value, str) else None


def _read_status(value: object) -> int | None:
    """Read an HTTP error status, as a number or as its digits."""
    digits = _read_name(value)
    return int(digits) if digits and _STATUS.fullmatch(digits) else None


# The retry delay

_MAX_DELAY_S = 1e7  # longer than this, a delay is a mistake
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
_DURATION_PART = (
    rf"({_NUMBER.pattern})\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
)
_DURATION_PARTS = re.compile(_DURATION_PART, re.I)
_DURATION = re.compile(rf"(?:{_DURATION_PART}\s*)+", re.I)
_SENTENCE = re.compile(
    rf"(?:again|retry|wait|resets|will reset)\s+(?:(?:in|after|for)\s+)?({_DURATION.pattern})", re.I
)
_DATE = re.compile(
    "[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def read_retry_delay(
    headers: Mapping[str, str], reading: ErrorReading, now: float | None = None
) -> float | None:
    """Read the delay that a provider names: in a header (lower-case), a field, or a sentence."""
    milliseconds = _read_delay(headers.get("retry-after-ms"))
    header = headers.get("retry-after", "").strip()
    candidates = (
        None if milliseconds is None else milliseconds / 1000,
        _read_delay(header),
        _seconds_until(header, now),
        reading.delay_s,
        _delay_in_sentence(reading.text),
    )
    return next((delay for delay in candidates if delay is not None), None)


def _read_delay(value: object) -> float | None:
    """Read seconds: a number, its digits, or a duration such as `37s` or `6m0s`."""
    if isinstance(value, str):
        seconds = _read_duration(value.strip())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        return None
    return float(seconds) if 0 <= seconds <= _MAX_DELAY_S else None


def _read_duration(text: str) -> float:
    """Read a duration in seconds; negative if the text is none."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return -1.0
    return sum(
        float(number) * _unit_seconds(unit.lower())
        for number, unit in _DURATION_PARTS.findall(text)
    )


def _unit_seconds(unit: str) -> float:
    return 0.001 if unit.startswith(("ms", "milli")) else _UNITS_S[unit[0]]


def _delay_in_sentence(text: str) -> float | None:
    found = _SENTENCE.search(text)
    return _read_delay(found[1]) if found else None


def _seconds_until(date: str, now: float | None) -> float | None:
    """The seconds from now to an HTTP date. Days are counted here: `datetime` has a clock."""
    found = _DATE.fullmatch(date)
    if now is None or found is None or found[2] not in _MONTHS:
        return None
    day = int(found[1])
    year = int(found[3])
    month = (_MONTHS.index(found[2]) + 10) % 12  # a year from March ends with its leap day
    year -= month // 10
    days = 365 * year + year // 4 - year // 100 + year // 400 + (month * 306 + 5) // 10 + day - 1
    seconds = (days - 719468) * 86400 + int(found[4]) * 3600 + int(found[5]) * 60 + int(found[6])
    return min(max(0.0, seconds - now), _MAX_DELAY_S)
