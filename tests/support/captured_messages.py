"""Requests that Claude Code and Anthropic's SDKs sent, where there are any: they stay outside of
the repository.

`ANTIPHON_DESIGN` names the directory that holds them in `claude-requests`; without it they are
looked for in `../shared/design`. Long texts are cut in them: what has to be read gets a value of
its type again.
"""

from __future__ import annotations

import base64
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ABSENT = "no captured requests here: set ANTIPHON_DESIGN to the directory of claude-requests"

_REPOSITORY = Path(__file__).parents[2]
_SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
_PDF = base64.b64encode(b"%PDF-1.4\n" + bytes(40)).decode()


class CapturedRequest(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@cache
def requests() -> dict[str, CapturedRequest]:
    """Every captured request with a body, by the name of its file."""
    design = Path(os.environ.get("ANTIPHON_DESIGN") or _REPOSITORY.parent / "shared" / "design")
    found: dict[str, CapturedRequest] = {}
    for path in sorted(design.glob("claude-requests/*.json")):
        captured = json.loads(path.read_bytes())
        if captured["body"]:
            body = _restore(captured["body"])
            found[path.stem] = CapturedRequest(captured["path"], captured["headers"], body)
    return found


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(each) for each in value]
    if not isinstance(value, dict):
        return value
    restored = {name: _restore(each) for name, each in value.items()}
    if restored.get("input_schema") == "<schema>":
        restored["input_schema"] = _SCHEMA
    if re.match("<base64", str(restored.get("data"))):
        restored["data"] = _PDF if restored["media_type"] == "application/pdf" else _PNG
    return restored
