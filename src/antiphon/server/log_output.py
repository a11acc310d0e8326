"""Log writer: one line per entry, as text or JSON. Entries never hold prompts or output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from antiphon.config import LogConfig
from antiphon.stages.log import Entry
from antiphon.stages.printable import printable

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_STYLES = {"debug": "dim", "info": "green", "warning": "yellow", "error": "bold red"}


_MAX_CHARS = 8000  # of one fact
_MAX_VALUES = 100  # of a list


def open_log(config: LogConfig, stream: TextIO | None = None) -> Callable[[Entry], None]:
    """Return a function that writes entries to `stream`, else to standard error.

    Format `auto` is text on a terminal and JSON elsewhere.
    """
    out = stream or sys.stderr
    threshold = _LEVELS[config.level]
    as_text = config.format == "text" or (config.format == "auto" and out.isatty())
    write = _text_writer(out) if as_text else _json_writer(out)

    def emit(entry: Entry) -> None:
        if _LEVELS[entry.level] >= threshold:
            facts = {name: _bound(value) for name, value in entry.facts.items()}
            write(replace(entry, facts=facts))

    return emit


def _bound(value: Any) -> Any:
    """Shorten a fact whose length depends on clients or providers, and say by how much."""
    if isinstance(value, str) and len(value) > _MAX_CHARS:
        return f"{value[:_MAX_CHARS]}… ({len(value) - _MAX_CHARS:,} more characters)"
    if isinstance(value, list | tuple):
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
    def write(entry: Entry) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": entry.level, "event": entry.event, **entry.facts}
        out.write(msgspec.json.encode(line).decode() + "\n")
        out.flush()

    return write


def _text_writer(out: TextIO) -> Callable[[Entry], None]:
    console = Console(file=out, highlight=False, soft_wrap=True)

    def write(entry: Entry) -> None:
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
