"""Validation against a client's JSON Schema, within limits of time and size.

1. The size of a schema is limited, it may not refer to other documents, and its patterns have a
   backtracking limit.
2. The time of a validation does not follow from the size of the schema: a few lines with references
   to one another double it with every level. So the steps are counted first, as if nothing ended
   early, and a validation that would take too many is not started.
3. All errors of a value are listed only if the validation is small; otherwise the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.lru import LRUCache
from antiphon.errors import SchemaTooComplex

MAX_BYTES = 512 * 1024
MAX_STEPS = 100_000
_MAX_LISTED_STEPS = 20_000
_CACHED_BYTES = 4 * 1024 * 1024
_BACKTRACKS = 10_000
_PATTERN_BYTES = 1024 * 1024
_PATTERN_STEPS = 20

Node: TypeAlias = dict[str, Any]


class JSONSchema:
    def __init__(self, data: bytes) -> None:
        """Raises `ValueError`, as the validator's error is, if the schema is not supported."""
        import jsonschema_rs  # 3 MB that most gateways never need

        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than the maximum of {MAX_BYTES} bytes")
        self._root = msgspec.json.decode(data)
        patterns = jsonschema_rs.FancyRegexOptions(
            backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_BYTES
        )
        self._validator = jsonschema_rs.validator_for(
            self._root, retriever=_refuse_to_fetch, pattern_options=patterns
        )
        self._targets = _resolve_references(self._root)
        self._subschemas: dict[int, _Subschemas] = {}

    def errors(self, value: Any) -> Iterator[Any]:
        """Find all errors of a value, or the first. Raises `SchemaTooComplex`."""
        steps = self._count_steps(value)
        if steps > MAX_STEPS:
            raise SchemaTooComplex
        if steps <= _MAX_LISTED_STEPS:
            return iter(self._validator.iter_errors(value))
        try:
            self._validator.validate(value)
        except ValueError as error:  # as the validator's error is
            return iter((error,))
        return iter(())

    def _count_steps(self, value: Any) -> int:
        """Count the pairs of schema and value to validate; stops above the maximum."""
        steps = 1
        ahead: list[tuple[Any, Any]] = [(self._root, value)]
        while ahead and steps <= MAX_STEPS:
            schema, value = ahead.pop()
            if isinstance(schema, dict):
                part = self._subschemas_of(schema)
                steps += part.steps(value)
                ahead += part.below(value) if steps <= MAX_STEPS else ()
        return steps

    def _subschemas_of(self, schema: Node) -> _Subschemas:
        part = self._subschemas.get(id(schema))
        if part is None:
            part = self._subschemas[id(schema)] = _read_subschemas(schema, self._targets)
        return part


# The number of validation steps


class _Subschemas(Struct, frozen=True):
    """The subschemas of a schema, by the values that they apply to."""

    same: list[Any]
    """For the same value."""
    each: list[Any]
    """For each value in it."""
    names: Node
    """For the values of an object, by name."""
    indexes: list[Any]
    """For the values of an array, by index."""
    name_patterns: int
    text_patterns: int
    listed: int
    """The number of values or names to compare with."""

    def steps(self, value: Any) -> int:
        steps = len(self.same) + self.listed // 10
        if isinstance(value, dict | list):
            steps += len(value) * (1 + len(self.each) + _PATTERN_STEPS * self.name_patterns)
        elif isinstance(value, str):
            steps += self.text_patterns * (_PATTERN_STEPS + len(value) // 10)
        return steps

    def below(self, value: Any) -> Iterator[tuple[Any, Any]]:
        for schema in self.same:
            yield schema, value
        for schema in self.each:
            for inner in _values(value):
                yield schema, inner
        if isinstance(value, list):
            yield from zip(self.indexes, value, strict=False)
        elif self.names and isinstance(value, dict):
            for name, inner in value.items():
                yield self.names.get(name), inner


_SAME_SEVERAL = ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_SAME = ("not", "if", "then", "else")
_EACH = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def _read_subschemas(schema: Node, targets: Node) -> _Subschemas:
    name = schema.get("$ref")
    patterned = _values(schema.get("patternProperties"))
    several = [inner for keyword in _SAME_SEVERAL for inner in _values(schema.get(keyword))]
    return _Subschemas(
        same=[
            *several,
            *(schema[keyword] for keyword in _SAME if keyword in schema),
            *([targets[name]] if isinstance(name, str) else []),
        ],
        each=[*patterned, *(schema[keyword] for keyword in _EACH if keyword in schema)],
        names=schema.get("properties", {}),
        indexes=[
            each for keyword in ("prefixItems", "items") for each in _listed(schema.get(keyword))
        ],
        name_patterns=len(patterned),
        text_patterns=int("pattern" in schema),
        listed=len(_listed(schema.get("enum"))) + len(_listed(schema.get("required"))),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _values(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else _listed(value)


# References

_NAMED = frozenset(
    "$defs definitions dependencies dependentSchemas patternProperties properties".split()
)
"""Keywords whose values are objects of schemas by name."""
_DATA = frozenset({"const", "default", "enum", "examples"})


def _nodes(schema: Any) -> Iterator[Node]:
    """Iterate over every object in a schema that may be a schema itself."""
    ahead = [schema]
    while ahead:
        found = ahead.pop()
        if isinstance(found, list):
            ahead += found
        elif isinstance(found, dict):
            yield found
            for keyword, inner in found.items():
                if keyword not in _DATA:
                    ahead += _values(inner) if keyword in _NAMED else [inner]


def _resolve_references(root: Node) -> Node:
    """The target of each `$ref`; `ValueError` if one is not certain."""
    names = _find_names(root)
    documents = (node for name, node in names.items() if not name.startswith("#"))
    moves = any(node is not root for node in documents)
    targets: Node = {}
    for node in _nodes(root):
        name = node.get("$ref")
        if "$dynamicRef" in node or "$recursiveRef" in node:
            raise ValueError("$dynamicRef and $recursiveRef are not supported")
        if isinstance(name, str):
            if moves and name.startswith("#"):  # relative to which $id?
                raise ValueError(f"the reference {name!r} is ambiguous where parts have an $id")
            targets[name] = _resolve(name, names)
    return targets


def _find_names(root: Node) -> Node:
    """The parts of a schema that have an `$id` or `$anchor`."""
    is_old = "draft-04" in str(root.get("$schema"))
    keywords = {"$anchor": "#", "$id": "", **({"id": ""} if is_old else {})}
    names: Node = {"#": root}
    for node in _nodes(root):
        for keyword, mark in keywords.items():
            if isinstance(name := node.get(keyword), str):
                names[mark + name] = node
    return names


def _resolve(name: str, names: Node) -> Any:
    document, slash, path = name.partition("#/")
    found = names.get(document or "#") if slash else names.get(name)
    for step in path.split("/") if slash else ():
        found = _get_member(found, step.replace("~1", "/").replace("~0", "~"))
    if found is None or "%" in path:  # percent-encoding is not supported
        raise ValueError(f"the reference {name!r} cannot be resolved")
    return found


def _get_member(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    is_index = isinstance(value, list) and step.isdecimal() and int(step) < len(value)
    return value[int(step)] if is_index else None


def _refuse_to_fetch(uri: str) -> Any:
    """A client's schema must not cause requests to other servers."""
    raise ValueError(f"the remote reference {uri!r} is not allowed; put the schema into `$defs`")


json_schemas = LRUCache(JSONSchema, lambda data: 1000 + len(data), _CACHED_BYTES)
"""Compiled schemas by their JSON."""
