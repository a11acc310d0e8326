"""Log writer: one line per entry, as text or JSON. Entries never hold prompts or output.

People at a terminal get one short line per request instead: time, status, client, model, tokens,
cost, duration and the end of its id, or why it failed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, TextIO, TypeAlias

import msgspec
from msgspec.structs import replace

from antiphon.config import LogConfig
from antiphon.stages.log import Entry
from antiphon.stages.printable import printable

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_STYLES = {"debug": "dim", "info": "green", "warning": "yellow", "error": "bold red"}

_MAX_CHARS = 8000  # of one fact
_MAX_VALUES = 100  # of a list
_LISTS = (list, tuple)
_encode_json = msgspec.json.Encoder().encode


def open_log(config: LogConfig, stream: TextIO | None = None) -> Callable[[Entry], None]:
    """Return a function that writes entries to `stream`, else to standard error.

    Format `auto` is one short line per request on a terminal (with level `debug`, text with every
    fact) and JSON elsewhere.
    """
    out = stream or sys.stderr
    threshold = _LEVELS[config.level]
    write = _WRITERS[_choose_format(config, out)](out)

    def emit(entry: Entry) -> None:
        if _LEVELS[entry.level] >= threshold:
            write(entry)

    return emit


def _choose_format(config: LogConfig, out: TextIO) -> str:
    if config.format != "auto":
        return config.format
    if not out.isatty():
        return "json"
    return "text" if config.level == "debug" else "requests"


def _bound_facts(entry: Entry) -> Entry:
    """Shorten the facts of an entry that may be long: texts and lists."""
    bounded = {
        name: _bound(value)
        for name, value in entry.facts.items()
        if isinstance(value, _LISTS) or (isinstance(value, str) and len(value) > _MAX_CHARS)
    }
    return replace(entry, facts={**entry.facts, **bounded}) if bounded else entry


def _bound(value: Any) -> Any:
    """Shorten a fact whose length depends on clients or providers, and say by how much."""
    if isinstance(value, str) and len(value) > _MAX_CHARS:
        return f"{value[:_MAX_CHARS]}… ({len(value) - _MAX_CHARS:,} more characters)"
    if isinstance(value, _LISTS):
        return _bound_list(value)
    return value


def _bound_list(values: Sequence[Any]) -> list[Any]:
    left = _MAX_CHARS
    kept: list[Any] = []
    for value in map(_bound, values[:_MAX_VALUES]):
        left -= len(str(value))
        if kept and left < 0:
            break
        kept.append(value)
    more = len(values) - len(kept)
    return [*kept, f"… ({more:,} more)"] if more else kept


def _json_writer(out: TextIO) -> Callable[[Entry], None]:
    write_line = _choose_output(out)

    def write(entry: Entry) -> None:
        at = _format_time(time.time_ns() // 1_000_000)
        line = _encode_line(entry, at)
        # Else no fact is long, and none is a list. `find`: in CPython 3.11, `in` is much slower.
        if len(line) > _MAX_CHARS or line.find(b"[") >= 0:
            line = _encode_line(_bound_facts(entry), at)
        write_line(line)

    return write


def _choose_output(out: TextIO) -> Callable[[bytes], None]:
    """Return a function that writes lines to the file behind a text stream: the stream itself
    would encode them once more."""
    file: BinaryIO | None = getattr(out, "buffer", None)

    def write_bytes(line: bytes) -> None:
        assert file is not None
        file.write(line)
        file.flush()

    def write_text(line: bytes) -> None:
        out.write(line.decode())
        out.flush()

    return write_text if file is None else write_bytes


def _format_time(now_ms: int) -> str:
    """Format a Unix time in UTC, to the millisecond."""
    return f"{_format_second(now_ms // 1000)}.{str(now_ms)[-3:]}+00:00"


@lru_cache(maxsize=1)
def _format_second(second: int) -> str:
    """Format a second, once for all of its entries: this takes longer than the rest of a line."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _encode_line(entry: Entry, at: str) -> bytes:
    """Encode an entry. Its name and level are words that need no quoting."""
    begin = f'{{"at":"{at}","level":"{entry.level}","event":"{entry.event}"'.encode()
    facts = _encode_json(entry.facts)
    return b"%b,%b\n" % (begin, facts[1:]) if entry.facts else begin + b"}\n"


def _text_writer(out: TextIO) -> Callable[[Entry], None]:
    from rich.console import Console  # only for people: JSON lines do without
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)

    def write(entry: Entry) -> None:
        entry = _bound_facts(entry)
        at = datetime.now().strftime("%H:%M:%S")
        facts = " ".join(f"{k}={v}" for k, v in entry.facts.items() if v is not None)
        console.print(
            Text.assemble(
                (f"{at} ", "dim"),
                (f"{entry.level:<7} ", _STYLES[entry.level]),
                (f"{entry.event} ", "bold"),
                (printable(facts), "dim"),
            )
        )

    return write


# One line per request, for people


def _request_writer(out: TextIO) -> Callable[[Entry], None]:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)
    write_other = _text_writer(out)

    def write(entry: Entry) -> None:
        facts = _bound_facts(entry).facts
        if entry.event in _PART_OF_ANOTHER or facts.get("status") == "failed":
            return  # of a failure, the entry with its reason is shown
        describe = _OUTCOMES.get(entry.event)
        if describe is None or "request_id" not in facts:
            write_other(entry)
            return
        at = datetime.now().strftime("%H:%M:%S")
        console.print(Text.assemble((f"{at}  ", "dim"), *_join(describe(facts), facts)))

    return write


_PART_OF_ANOTHER = frozenset({"response.diagnostics"})
_Part: TypeAlias = tuple[str, str]
"""A text and its style."""


def _join(outcome: Sequence[_Part], facts: Mapping[str, Any]) -> Iterator[_Part]:
    """Put the client and the model behind the status, and the end of the id at the end of the
    line. `antiphon trace show` accepts it."""
    (status, style), *rest = outcome
    yield f"{status:<10}", style
    parts = [(str(facts.get("client") or "-"), "dim"), (_describe_target(facts), "bold"), *rest]
    for text, style in (*parts, (shorten_id(facts["request_id"]), "dim")):
        if text:
            yield f"  {printable(text)}", style


def _describe_target(facts: Mapping[str, Any]) -> str:
    """The requested model, and who serves it: `gpt-5.5 → deepseek/deepseek-v4-pro`."""
    requested = str(facts.get("model") or "")
    provider = facts.get("provider")
    if not provider:
        return requested
    model = str(facts.get("provider_model"))
    if requested in (model, f"{provider}/{model}"):
        return f"{model} → {provider}"
    return f"{requested} → {provider}/{model}"


def shorten_id(request_id: str) -> str:
    """The end of an id, which is random; it begins with a time."""
    return f"…{request_id[-_SHORT_ID:]}"


_SHORT_ID = 8


def _describe_end(facts: Mapping[str, Any]) -> list[_Part]:
    is_completed = facts.get("status") == "completed"
    return [
        ("ok", "green") if is_completed else (str(facts.get("status")), "yellow"),
        (f"{facts.get('input_tokens', 0):,}→{facts.get('output_tokens', 0):,} tok", ""),
        (_format_cost(facts.get("cost_usd")), ""),
        (_format_duration(facts.get("duration_ms")), ""),
    ]


def _describe_cancelled(facts: Mapping[str, Any]) -> list[_Part]:
    duration = _format_duration(facts.get("duration_ms"))
    return [("cancelled", "yellow"), (f"the client disconnected after {duration}", "")]


def _describe_failure(facts: Mapping[str, Any]) -> list[_Part]:
    reason = f"{facts.get('code')}: {facts.get('reason')}"
    return [("failed", "red"), (reason, "red"), (_format_duration(facts.get("duration_ms")), "")]


def _describe_retry(facts: Mapping[str, Any]) -> list[_Part]:
    attempt = f"attempt {facts.get('attempt')}"
    reason = f"{facts.get('code')}: {facts.get('reason')}"
    return [("attempt", "yellow"), (attempt, ""), (reason, "yellow")]


def _describe_server_call(facts: Mapping[str, Any]) -> list[_Part]:
    reason = f"{facts.get('code')}: {facts.get('reason')}"
    return [("mcp call", "yellow"), (f"{facts['server']}/{facts['tool']}", ""), (reason, "yellow")]


def _describe_rejection(facts: Mapping[str, Any]) -> list[_Part]:
    return [(str(facts.get("http_status")), "red"), (f"{facts['code']}: {facts['reason']}", "red")]


def _format_cost(cost: float | None) -> str:
    return f"${cost:.4f}" if cost else ""


def _format_duration(duration_ms: float | None) -> str:
    if duration_ms is None:
        return ""
    return f"{duration_ms:,.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:,.1f} s"


_OUTCOMES: Mapping[str, Callable[[Mapping[str, Any]], list[_Part]]] = {
    "response.finished": _describe_end,
    "response.cancelled": _describe_cancelled,
    "response.failed": _describe_failure,
    "upstream.failed": _describe_failure,
    "request.failed": _describe_failure,
    "attempt.failed": _describe_retry,
    "mcp.call_failed": _describe_server_call,
    "request.rejected": _describe_rejection,
}
"""The log entries that end a request, an attempt or a call, and what the line says of each."""

_WRITERS = {"json": _json_writer, "text": _text_writer, "requests": _request_writer}
