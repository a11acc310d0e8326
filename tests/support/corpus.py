"""Recordings of real providers, where there are any: they stay outside of the repository.

`ANTIPHON_CORPUS` names their directory; without it they are looked for in `../shared/corpus`. Newer
recordings in a directory `recordings` beside it are read as well. Where there are none, the golden
transcripts of the project (`tests/golden`) test the same code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RECORDINGS: Mapping[str, int] = {
    "anthropic": 38,
    "bedrock": 20,
    "chat": 191,
    "cohere": 10,
    "gemini": 38,
    "ollama": 8,
    "responses": 84,
}
"""Recordings of the corpus by protocol, as of November 2026."""

ABSENT = "no corpus of recordings here: set ANTIPHON_CORPUS to its directory"

_REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """One recorded exchange; `data` is the provider's answer, byte by byte as it came."""

    id: str
    meta: dict[str, Any]
    data: bytes
    request: Any  # the parsed body, or None where it was not kept
    directory: Path


def root() -> Path | None:
    """The directory of the corpus, or None when there is none."""
    path = Path(os.environ.get("ANTIPHON_CORPUS") or _REPOSITORY.parent / "shared" / "corpus")
    return path if path.is_dir() else None


def cases(protocol: str | None = None, *, wire: str | None = None) -> list[Case]:
    """The recordings in the order of their ids, all or those of one protocol or framing."""
    return [
        case
        for case in _all(root())
        if protocol in (None, case.meta["protocol"]) and wire in (None, case.meta["wire"])
    ]


def summary(golden: Path) -> str:
    """What a test run replays: the recordings, or without them the golden transcripts."""
    transcripts = len(list(golden.glob("*/*/upstream.*")))
    if root() is not None:
        return f"{len(cases())} recordings and {transcripts} golden transcripts were replayed."
    total = sum(RECORDINGS.values())
    return (
        f"No corpus: {transcripts} golden transcripts were replayed instead of {total} recordings."
        " Set ANTIPHON_CORPUS to the directory of the corpus to use them."
    )


@cache
def _all(directory: Path | None) -> tuple[Case, ...]:
    if directory is None:
        return ()
    directories = (directory, directory.with_name("recordings"))
    found = (_load(path) for each in directories for path in each.glob("*/*/*/meta.json"))
    return tuple(sorted(found, key=lambda case: case.id))


def _load(path: Path) -> Case:
    meta = json.loads(path.read_bytes())
    request = path.with_name(meta["request_file"]) if meta.get("request_file") else None
    return Case(
        id=meta["id"],
        meta=meta,
        data=path.with_name(meta["response_file"]).read_bytes(),
        request=json.loads(request.read_bytes()) if request else None,
        directory=path.parent,
    )
