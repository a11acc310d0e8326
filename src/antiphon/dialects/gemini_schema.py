"""JSON Schema reduced to the subset that Gemini's `Schema` takes, for models that take no more.

One keyword that Gemini does not know fails the whole request, so only known ones stay:

1. References are resolved, `allOf` is merged, a reference to itself ends as any object.
2. Every node has a type, or is a choice (`anyOf`) and nothing else. Null is `nullable`.
3. Only strings have enums; other constants are told in the description.
4. What has to go is gone quietly: a weaker schema still tells the model what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Node: TypeAlias = dict[str, Any]
Schema: TypeAlias = Mapping[str, Any]

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_FORMATS = {
    "string": ("date-time",),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_MAX_NODES = 2000  # references may unfold a small schema into an endless one
_MAX_DEPTH = 24


def reduce_parameters(schema: Schema | None) -> Node | None:
    """The parameters of a function; None where there are none, which Gemini wants left out."""
    reducer = _Reducer(schema or {})
    root = reducer.flattened(schema or {})
    properties = reducer.properties(root, 0)
    if not properties:
        return None
    return {"type": "OBJECT", "properties": properties, **_required(root, properties)}


def reduce_response(schema: Schema) -> Node:
    """The format of an answer, its properties in the order they were given."""
    return _Reducer(schema, ordered=True).node(schema)


class _Reducer:
    def __init__(self, root: Schema, *, ordered: bool = False) -> None:
        self._root = root
        self._ordered = ordered
        self._nodes = 0

    # One node

    def node(self, schema: Any, depth: int = 0) -> Node:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return {"type": "STRING"}
        flat = self.flattened(schema)
        described = _described(flat)
        branches, nullable = self._branches(flat)
        if len(branches) > 1:
            told = [self._told(self.node(branch, depth + 1), described) for branch in branches]
            choice = _unique([{**node, "nullable": True} if nullable else node for node in told])
            return choice[0] if len(choice) == 1 else {"anyOf": choice}
        kinds, null_listed = _kinds(branches[0])
        nullable = nullable or null_listed
        single = {**flat, **branches[0]} if branches[0] is not flat else flat
        if branches[0] is not flat and ("anyOf" in branches[0] or "oneOf" in branches[0]):
            node = self.node(branches[0], depth + 1)
        else:
            node = self._typed(kinds[0], single, depth)
        if nullable:
            node["nullable"] = True
        return node
