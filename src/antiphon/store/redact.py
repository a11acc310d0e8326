"""Redaction of secrets (replaced by «redacted») before anything is stored or logged.

Three kinds are found: secrets of the configuration, anywhere; values that follow a secret-like
name, as in headers, JSON or `KEY=value`; and strings in the format of a well-known API key.
Valid JSON stays valid JSON.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias
from urllib.parse import quote

REDACTED = "«redacted»"
_MARK = REDACTED.encode()
_MIN_SECRET = 6  # anything shorter ("none", "x") is a placeholder and occurs in ordinary text

Span: TypeAlias = tuple[int, int]
Offset: TypeAlias = tuple[int, int]
"""The index of a chunk's first byte in a blob, and its arrival time in ms."""

# A pattern is tried only where its anchor occurs: finding plain bytes in lower-cased data is twenty
# times as fast as searching for the patterns. The group that matched is replaced.
_QUOTED = r"""
    " \s*+ : \s*+ " ( (?: [^"\\\r\n] | \\. )++ )
    | \\" \s*+ : \s*+ \\" ( (?: [^"\\\r\n] | \\\\ (?: \\\\ | \\" | [^"\\] ) )++ )  # JSON in JSON
    | \\{2,}" \s*+ : \s*+ \\{2,}" ( [^"\\\r\n]++ )  # and deeper
    | ' \s*+ : \s*+ ' ( [^'"\\\r\n]++ )
"""
_ASSIGNED = r"""\s*+ [:=] \s*+ (?: \\{0,3}+ ["'] )?+ (?= [^:;,&(){}<>\[\]] )"""
_WORD = rf"""(?: {_QUOTED} | {_ASSIGNED} ( [^\s"'\\,;&{{}}\[\]<>]++ ) )"""
_LINE = rf"""(?: {_QUOTED} | {_ASSIGNED} ( [^\r\n"'\\{{}}]++ ) )"""
_NAMED = {
    "authorization": rf"authorization (?! :\ Bearer\ KEY` ) {_LINE}",  # our own advice has `KEY`
    "cookie": f"cookie {_LINE}",
    "key": "(?: (?<=api) | (?<=api[-_]) | (?<=access[-_]) | (?<=secret[-_]) | (?<=subscription-) )"
    f"key {_WORD}",
    "token": "(?: (?<=auth[-_]) | (?<=access[-_]) | (?<=refresh[-_]) | (?<=session[-_]) )"
    f"token {_WORD}",
    "secret": f"(?<=client[-_]) secret {_WORD}",
    "password": f"password {_WORD}",
    "bearer": r"bearer \s+ ( [A-Za-z0-9._~+/=-]{20,} )",
}
# Not inside a word; but the letter before may be the end of a JSON escape (`\n`, `\u00e9`).
_EDGE = r"(?: (?<! [A-Za-z0-9_-] ) | (?<= \\[bfnrt] ) | (?<= \\u[0-9A-Fa-f]{4} ) )"
_REST = "[A-Za-z0-9_-]"
_SHAPED = {
    "sk-": f"sk-{_REST}{{8,}}",
    "sk_": f"sk_{_REST}{{16,}}",
    "rk_": f"rk_{_REST}{{16,}}",
    **{
        prefix: f"{prefix}{_REST}{{16,}}"
        for prefix in "csk- fw_ ghp_ gho_ ghs_ ghu_ github_pat_ glpat- gsk_ hf_ nvapi- pplx- r8_"
        " tvly- xai- xoxb- xoxp-".split()
    },
    "akia": "AKIA[0-9A-Z]{16}",
    "aiza": f"AIza{_REST}{{30,}}",
    "eyj": rf"eyJ{_REST}{{8,}} \. {_REST}{{8,}} \. {_REST}*",
}
# `id.secret`: only the second half is secret.
_ID_AND_SECRET = r"\. (?<= \b [0-9a-f]{32} \. ) ([A-Za-z0-9]{12,})"


def _compile(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.VERBOSE)


_RULES = [
    *((anchor.encode(), _compile(f"(?i: {pattern} )")) for anchor, pattern in _NAMED.items()),
    *((anchor.encode(), _compile(f"{_EDGE} ({pattern})")) for anchor, pattern in _SHAPED.items()),
    (b".", _compile(_ID_AND_SECRET)),
]
_NAMED_ANCHORS = frozenset(anchor.encode() for anchor in _NAMED)
"""A value may consist of names, and what follows each of them is a part of it. Only the last one
may be that of a longer value; the others are skipped: each would be followed to the end again."""


class Redactor:
    """Redacts bytes and text. `secrets` are those of the configuration."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: list[bytes] = []
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Redact these secrets as well. None is ever forgotten: running responses may still use
        the keys of an earlier configuration."""
        long_enough = (secret for secret in secrets if len(secret) >= _MIN_SECRET)
        forms = {form for secret in long_enough for form in _encode_secret(secret)}
        self._secrets = sorted(forms.union(self._secrets))

    def redact_bytes(self, data: bytes) -> bytes:
        return _replace_spans(data, self._find_spans(data))

    def redact_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return self.redact_bytes(data).decode("utf-8", "surrogatepass")

    def redact_blob(self, blob: bytes, offsets: Sequence[Offset]) -> tuple[bytes, list[Offset]]:
        """Redact a blob of chunks; offsets are adjusted for replacements before them."""
        spans = self._find_spans(blob)
        ends = [end for _, end in spans]
        shifts = [0, *accumulate(len(_MARK) - (end - start) for start, end in spans)]

        def move(offset: int) -> int:
            passed = bisect_right(ends, offset)
            if passed < len(spans):
                offset = min(offset, spans[passed][0])
            return offset + shifts[passed]

        return _replace_spans(blob, spans), [(move(offset), at_ms) for offset, at_ms in offsets]

    def _find_spans(self, data: bytes) -> list[Span]:
        literal = (
            # After a backslash the first letter may belong to an escape sequence; keep it intact.
            (at + data.startswith(b"\\", max(at - 1, 0), at), at + len(form))
            for form in self._secrets
            for at in _find_all(data, form)
        )
        return _merge_spans([*literal, *_match_rules(data)])


def _encode_secret(secret: str) -> Iterator[bytes]:
    """Yield a secret as it appears in plain text, in JSON and in a URL."""
    yield secret.encode("utf-8", "surrogatepass")
    for in_json in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        yield in_json[1:-1].encode("utf-8", "surrogatepass")
    yield quote(secret, safe="", errors="surrogatepass").encode()


def _match_rules(data: bytes) -> Iterator[Span]:
    lowered = data.lower()
    for anchor, pattern in _RULES:
        at = lowered.find(anchor)
        while at >= 0:
            end = at + 1
            if found := pattern.match(data, at):
                span = found.span(found.lastindex or 0)
                yield span
                end = span[1] if anchor in _NAMED_ANCHORS else end
            last = lowered.rfind(anchor, at + 1, end)
            at = lowered.find(anchor, end) if last < 0 else last


def _find_all(data: bytes, wanted: bytes) -> Iterator[int]:
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def _merge_spans(spans: list[Span]) -> list[Span]:
    """Sort spans and join those that overlap or touch."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replace_spans(data: bytes, spans: list[Span]) -> bytes:
    if not spans:
        return data
    pieces: list[bytes] = []
    at = 0
    for start, end in spans:
        pieces += (data[at:start], _MARK)
        at = end
    return b"".join([*pieces, data[at:]])
