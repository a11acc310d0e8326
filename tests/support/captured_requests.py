"""Requests that real clients sent, where there are any: they stay outside of the repository.

`ANTIPHON_DESIGN` names the directory that holds them in `codex-requests`; without it they are
looked for in `../shared/design`.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

ABSENT = "no captured requests here: set ANTIPHON_DESIGN to the directory of codex-requests"

_REPOSITORY = Path(__file__).parents[2]


@cache
def bodies() -> dict[str, dict[str, Any]]:
    """The body of every captured request that has one, by the name of its file."""
    design = _design()
    captured = {
        path.stem: json.loads(path.read_bytes())["body"]
        for path in sorted(design.glob("codex-requests/*.json"))
    }
    return {name: body for name, body in captured.items() if body}


@cache
def chat_bodies() -> dict[str, dict[str, Any]]:
    """The body of every captured request of Chat Completions, by the name of its file. Schemas were
    left out of the files; an empty one takes their place."""
    empty = '{"type": "object", "properties": {}}'
    return {
        path.stem: json.loads(path.read_text("utf-8").replace('"<schema>"', empty))["body"]
        for path in sorted(_design().glob("chat-requests/*.json"))
    }


def _design() -> Path:
    return Path(os.environ.get("ANTIPHON_DESIGN") or _REPOSITORY.parent / "shared" / "design")


CLIENT = {"originator": "codex_exec"}
"""Headers by which the gateway recognises the client that sent these requests."""


def answerable() -> dict[str, dict[str, Any]]:
    """The bodies of all requests but those for a compaction, whose answer is no message."""
    return {name: body for name, body in bodies().items() if not _is_compaction(body)}


def _is_compaction(body: dict[str, Any]) -> bool:
    return any(item.get("type") == "compaction_trigger" for item in body["input"])
