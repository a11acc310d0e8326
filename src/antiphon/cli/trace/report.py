"""A report of one request for people who look for a defect: what happened, without what was said.

The structure of every payload stays: types, ids, names, numbers, lengths, punctuation. Letters and
digits of all other strings are masked, so that a report can be attached to a public issue.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.cli.terminal import print_result
from antiphon.errors import ConfigError
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import TraceStream

_KEPT = frozenset(
    """
    type object role status model finish_reason stop_reason event code param phase effort format
    summary_kind decision
    """.split()
)
"""Members whose text is a word of the API, and says nothing of the conversation."""
_OF_THE_CLIENT = frozenset("input arguments args metadata".split())
"""Objects whose members the client or the model names: a `code` there is no word of the API."""
_WORD = re.compile(r"[\w.:/+-]{1,128}", re.ASCII)


def write_report(detail: TraceDetail, output: str | None) -> int:
    assert detail.request is not None
    path = Path(output or f"antiphon-report-{detail.request.request_id[-8:]}.json")
    document = msgspec.json.format(msgspec.json.encode(make_report(detail)), indent=2)
    try:
        path.write_bytes(document + b"\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    text = (
        f"wrote {path}: prompts, output, tool arguments and names of clients are masked. Read it"
        " before you send it."
    )
    print_result(text, file=str(path))
    return 0


def make_report(detail: TraceDetail) -> dict[str, Any]:
    """Make the document of a report."""
    facts: dict[str, Any] = msgspec.to_builtins(detail, builtin_types=(bytes,))
    if facts["request"] is not None:
        for name in ("client", "session"):  # words that people may have chosen
            facts["request"][name] = mask_text(facts["request"].get(name) or "")
    del facts["streams"]
    return {
        "antiphon": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "request": facts,
        "streams": [_mask_stream(each) for each in detail.streams],
    }


def _mask_stream(stream: TraceStream) -> dict[str, Any]:
    return {
        "kind": stream.kind,
        "bytes": stream.size,
        "truncated": stream.truncated,
        "chunks": [list(offset) for offset in stream.offsets],
        "text": mask_payload(stream.blob),
    }


def mask_payload(blob: bytes) -> str:
    """Mask a JSON document or a stream of events, line by line."""
    text = blob.decode("utf-8", "replace")
    whole = _mask_json(text)
    return whole if whole is not None else "\n".join(map(_mask_line, text.split("\n")))


def _mask_line(line: str) -> str:
    field, colon, value = line.partition(": ")
    if not colon or field not in ("data", "event", "id"):
        masked = _mask_json(line)
        return mask_text(line) if masked is None else masked
    if field == "event" or value == "[DONE]":
        return line
    masked = _mask_json(value)
    return f"{field}: {mask_text(value) if masked is None else masked}"


def _mask_json(text: str) -> str | None:
    try:
        document = msgspec.json.decode(text)
        return msgspec.json.encode(_mask(document, "")).decode()
    except (ValueError, RecursionError):
        return None


def _mask(value: Any, name: str, *, keeps_words: bool = True) -> Any:
    if isinstance(value, dict):
        keeps = keeps_words and name not in _OF_THE_CLIENT
        return {key: _mask(each, key, keeps_words=keeps) for key, each in value.items()}
    if isinstance(value, list):
        inner = "" if name == "input" else name  # a list of items, not the arguments of a tool
        return [_mask(each, inner, keeps_words=keeps_words) for each in value]
    if isinstance(value, str):
        return value if keeps_words and _is_word_of_api(name, value) else mask_text(value)
    return value


def _is_word_of_api(name: str, value: str) -> bool:
    is_id = name == "id" or (name.endswith("_id") and name != "user_id")
    return (is_id or name in _KEPT) and _WORD.fullmatch(value) is not None


def mask_text(text: str) -> str:
    """Replace letters and digits; the length, blanks and punctuation stay."""
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "0", text))
