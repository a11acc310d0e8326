"""Validation of `text` (output format and verbosity) and `reasoning` (effort and summary)."""

from __future__ import annotations

import re
from typing import Any

from antiphon.dialects.validate import (
    any_object,
    boolean,
    enum,
    invalid_value,
    non_empty_string,
    object_of,
    string,
    tagged_union,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _schema_name(value: Any, param: str) -> str:
    name = string(value, param)
    if not _NAME.fullmatch(name):
        raise invalid_value(param, "must be 1 to 64 letters, digits, underscores and dashes.")
    return name


output_format = tagged_union(
    {
        "text": object_of({}),
        "json_object": object_of({}),
        "json_schema": object_of(
            {"name": _schema_name, "schema": any_object}, {"description": string, "strict": boolean}
        ),
    }
)

_SUMMARY = enum("auto", "concise", "detailed")

text_options = object_of({}, {"format": output_format, "verbosity": enum("low", "medium", "high")})
reasoning_options = object_of(
    {},
    {
        # Model catalogs have efforts beyond those of the API; the plan maps them to the model's.
        "effort": non_empty_string,
        "summary": _SUMMARY,
        "generate_summary": _SUMMARY,
        "context": enum("auto", "current_turn", "all_turns"),
        "mode": string,
    },
)
