"""The limits of a provider for the schemas of all strict tools of a request together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from antiphon.core.capabilities import StrictLimits

_UNIONS = ("anyOf", "oneOf")
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")


def exceeds(limits: StrictLimits, schemas: Iterable[Mapping[str, Any] | None]) -> bool:
    """Whether the schemas of strict tools are more than a provider compiles."""
    tools = optional = unions = 0
    for schema in schemas:
        tools += 1
        for node in _nodes(schema):
            optional += _count_optional(node)
            unions += _is_union(node)
    return tools > limits.tools or optional > limits.optional or unions > limits.unions


def _count_optional(node: Mapping[str, Any]) -> int:
    properties = node.get("properties")
    if not isinstance(properties, Mapping):
        return 0
    listed = node.get("required")
    names = listed if isinstance(listed, list) else ()
    required = {name for name in names if isinstance(name, str)}
    return sum(name not in required for name in properties)


def _is_union(node: Mapping[str, Any]) -> bool:
    kinds = node.get("type")
    return any(name in node for name in _UNIONS) or (isinstance(kinds, list) and len(kinds) > 1)


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas in it."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, Mapping):
            continue
        yield node
        for name in _SCHEMAS_BY_NAME:
            named = node.get(name)
            pending += named.values() if isinstance(named, Mapping) else ()
        for name in ("items", "allOf", *_UNIONS):
            inner = node.get(name)
            pending += inner if isinstance(inner, list) else [inner]
