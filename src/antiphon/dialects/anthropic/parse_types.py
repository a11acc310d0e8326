"""Types of the members of a Messages request that are read.

A member of another type would be left out without a word, such as a schema of the output that is a
string. Members that are not read may have any type: they go to a provider of the same format as
they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.dialects.anthropic.parse_errors import invalid, type_name

Shape = Any
"""A type of a JSON value, an object by the shapes of its members, or a list of one shape."""

_NAMES = {
    str: "a valid string",
    int: "a valid integer",
    bool: "a valid boolean",
    dict: "a valid dictionary",
    list: "a valid list",
}
_FORMAT = {"type": str, "schema": dict}
_SOURCE = {"type": str, "media_type": str, "data": str, "url": str, "file_id": str}

REQUEST: Mapping[str, Shape] = {
    "stream": bool,
    "metadata": {"user_id": str},
    "service_tier": str,
    "thinking": {"type": str, "budget_tokens": int, "display": str},
    "output_config": {"effort": str, "format": _FORMAT},
    "output_format": _FORMAT,
    "tool_choice": {"type": str, "name": str, "disable_parallel_tool_use": bool},
    "context_management": {"edits": [{"type": str}]},
    "cache_control": {"type": str},
    "thread": {"previous_message_id": str},
}
TOOL: Mapping[str, Shape] = {
    "type": str,
    "name": str,
    "description": str,
    "input_schema": dict,
    "strict": bool,
    "defer_loading": bool,
    "max_uses": int,
    "allowed_domains": [str],
    "blocked_domains": [str],
    "user_location": dict,
}
BLOCKS: Mapping[str, Mapping[str, Shape]] = {
    "document": {"source": _SOURCE, "title": str, "context": str, "citations": {"enabled": bool}},
    "image": {"source": _SOURCE},
    "redacted_thinking": {"data": str},
    "text": {"text": str},
    "thinking": {"thinking": str, "signature": str},
    "tool_reference": {"tool_name": str},
    "tool_result": {"tool_use_id": str, "is_error": bool},
    "tool_use": {"id": str, "name": str},
}


def check_members(members: Mapping[str, Any], shapes: Mapping[str, Shape], path: str = "") -> None:
    """Raise an `InvalidRequest` for the first member of another type; null is no member."""
    for name, shape in shapes.items():
        if (value := members.get(name)) is not None:
            _check(value, shape, f"{path}.{name}" if path else name)


def _check(value: Any, shape: Shape, path: str) -> None:
    expected: type = shape if isinstance(shape, type) else type(shape)
    given: type = type(value)  # not `isinstance`: a boolean is no integer
    if given is not expected:
        raise invalid(path, f"Input should be {_NAMES[expected]}, not {type_name(value)}")
    if isinstance(shape, dict):
        check_members(value, shape, path)
    elif isinstance(shape, list):
        for index, each in enumerate(value):
            _check(each, shape[0], f"{path}.{index}")
