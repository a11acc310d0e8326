"""How an answer is asked to look: its format, and how long it should be thought about."""

from __future__ import annotations

import re
from typing import Any

from antiphon.wire.validate import document, flag, label, shape, tagged, text, word, wrong_value

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _schema_name(value: Any, param: str) -> str:
    given = text(value, param)
    if not _NAME.fullmatch(given):
        raise wrong_value(param, "must be 1 to 64 letters, digits, underscores and dashes.")
    return given


output_format = tagged(
    {
        "text": shape({}),
        "json_object": shape({}),
        "json_schema": shape(
            {"name": _schema_name, "schema": document}, {"description": text, "strict": flag}
        ),
    }
)

_SUMMARY = word("auto", "concise", "detailed")

answer = shape({}, {"format": output_format, "verbosity": word("low", "medium", "high")})
reasoning = shape(
    {},
    {
        # Catalogs carry efforts of their own: which of them a model knows is the plan's business.
        "effort": label,
        "summary": _SUMMARY,
        "generate_summary": _SUMMARY,
        "context": word("auto", "current_turn", "all_turns"),
        "mode": text,
    },
)
