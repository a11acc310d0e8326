"""Optional parameters of an encoded request: listing them, and leaving out a rejected one.

A provider that answers 400 and names a parameter gets the request again without it. Where
parameters stand in a body is data of each dialect (`ParameterFields`). Everything else, above all
the conversation, keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from antiphon.core.items import Document
from antiphon.core.plan.plan import Outbound

_STRICT = "strict"  # a member of every tool declaration, not of the body

_read_body = msgspec.json.Decoder(dict[str, Raw]).decode

_Body: TypeAlias = dict[str, Any]
"""A request body in which only groups and tools are decoded; the rest are `Raw` bytes."""


class ParameterFields(Struct, frozen=True, kw_only=True):
    """Which fields of a dialect's request body are parameters, and where they stand."""

    essential: frozenset[str]
    """Fields that cannot be left out: without them the request would be empty or another one."""
    groups: tuple[str, ...] = ()
    """Objects that hold parameters, such as `generationConfig`."""
    renamed: Mapping[str, str] = {}
    """Newer names of parameters, which some servers insist on: the value moves there."""
    last: str = "messages"
    """The conversation. It stays the last field, so that prompt caches keep matching."""


def list_removable(outbound: Outbound, fields: ParameterFields) -> list[str]:
    """Names of the parameters in a request that can be left out."""
    body = _decode(outbound, fields)
    outer = [name for name in body if name not in fields.essential]
    inner = [name for group in _groups(body, fields) for name in group]
    return [*outer, *inner, *([_STRICT] if _strict_tools(body) else [])]


def remove_parameter(
    outbound: Outbound, name: str, fields: ParameterFields, *, rename: bool
) -> Outbound | None:
    """The request without a parameter; None if it does not have it.

    With `rename`, a parameter that has a newer name is sent under that name instead.
    """
    body = _decode(outbound, fields)
    if name == _STRICT:
        removed = _remove_strict(body)
    else:
        removed = _remove(body, name, fields, rename=rename)
    if not removed:
        return None
    return msgspec.structs.replace(outbound, body=msgspec.json.encode(body))


def _decode(outbound: Outbound, fields: ParameterFields) -> _Body:
    decoded = (*fields.groups, "tools")
    return {
        name: msgspec.json.decode(raw) if name in decoded else raw
        for name, raw in _read_body(outbound.body).items()
    }


def _groups(body: _Body, fields: ParameterFields) -> list[Document]:
    return [body[name] for name in fields.groups if isinstance(body.get(name), dict)]


def _remove(body: _Body, name: str, fields: ParameterFields, *, rename: bool) -> bool:
    for group in (body, *_groups(body, fields)):
        if name not in group:
            continue
        value = group.pop(name)
        if rename and name in fields.renamed:
            group.setdefault(fields.renamed[name], value)
            body[fields.last] = body.pop(fields.last)
        return True
    return False


def _remove_strict(body: _Body) -> bool:
    tools = _strict_tools(body)
    for tool in tools:
        del tool[_STRICT]
    return bool(tools)


def _strict_tools(body: _Body) -> list[Document]:
    """Tool declarations with a `strict` member: `{"function": {…, "strict": true}}` or flat."""
    tools = body.get("tools")
    declared = [tool.get("function", tool) for tool in tools] if isinstance(tools, list) else []
    return [each for each in declared if isinstance(each, dict) and _STRICT in each]
