"""A client's JSON Schema, and values checked against it, within bounds.

1. A schema comes from a client: it may be neither huge nor call anybody, and its patterns give up
   before they take long.
2. How long a check takes is not seen from its schema: a few lines that refer to one another double
   it with every step down. So the steps are counted first, as if nothing ended early, and a check
   that would take too many is not made.
3. All that is wrong with a value is listed only if that cannot be much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import jsonschema_rs
import msgspec
from msgspec import Struct

from antiphon.core.lru import LRUCache

MAX_BYTES = 512 * 1024
MAX_STEPS = 100_000
_LISTED_STEPS = 20_000
_KEPT_BYTES = 4 * 1024 * 1024
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1024 * 1024)
_PATTERN_STEPS = 20

Node: TypeAlias = dict[str, Any]


class TooMuchWork(Exception):
    """A value cannot be checked in a reasonable time."""


class JSONSchema:
    def __init__(self, data: bytes) -> None:
        """Raises `ValueError`, or what the validator has to say."""
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        self._root = msgspec.json.decode(data)
        self._validator = jsonschema_rs.validator_for(
            self._root, retriever=_refuse_to_fetch, pattern_options=_PATTERNS
        )
        self._targets = _targets(self._root)
        self._parts: dict[int, _Part] = {}

    def errors(self, value: Any) -> Iterator[Any]:
        """What is wrong with a value: all of it, or the first thing. Raises `TooMuchWork`."""
        steps = self._steps(value)
        if steps > MAX_STEPS:
            raise TooMuchWork
        if steps <= _LISTED_STEPS:
            return iter(self._validator.iter_errors(value))
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return iter((error,))
        return iter(())

    def _steps(self, value: Any) -> int:
        """How many schemas are held against how many values; it stops where it is too much."""
        steps = 1
        ahead: list[tuple[Any, Any]] = [(self._root, value)]
        while ahead and steps <= MAX_STEPS:
            schema, value = ahead.pop()
            if isinstance(schema, dict):
                part = self._part(schema)
                steps += part.steps(value)
                ahead += part.below(value) if steps <= MAX_STEPS else ()
        return steps

    def _part(self, schema: Node) -> _Part:
        part = self._parts.get(id(schema))
        if part is None:
            part = self._parts[id(schema)] = _part(schema, self._targets)
        return part


# How much work it is


class _Part(Struct, frozen=True):
    """A schema, as far as it leads to others."""

    same: list[Any]
    """Those for the same value."""
    each: list[Any]
    """Those for each value inside of it."""
    names: Node
    """Those for the values of an object, by name."""
    places: list[Any]
    """Those for the values of an array, by place."""
    name_patterns: int
    text_patterns: int
    listed: int
    """How many values or names have to be looked through."""

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
            yield from zip(self.places, value, strict=False)
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


def _part(schema: Node, targets: Node) -> _Part:
    name, patterned = schema.get("$ref"), _values(schema.get("patternProperties"))
    several = [inner for word in _SAME_SEVERAL for inner in _values(schema.get(word))]
    return _Part(
        same=[
            *several,
            *(schema[word] for word in _SAME if word in schema),
            *([targets[name]] if isinstance(name, str) else []),
        ],
        each=[*patterned, *(schema[word] for word in _EACH if word in schema)],
        names=schema.get("properties", {}),
        places=[each for word in ("prefixItems", "items") for each in _listed(schema.get(word))],
        name_patterns=len(patterned),
        text_patterns=int("pattern" in schema),
        listed=len(_listed(schema.get("enum"))) + len(_listed(schema.get("required"))),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _values(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else _listed(value)


# What it refers to

_NAMED = frozenset(
    "$defs definitions dependencies dependentSchemas patternProperties properties".split()
)
"""Here every key is a name, and every value a schema."""
_DATA = frozenset({"const", "default", "enum", "examples"})


def _nodes(schema: Any) -> Iterator[Node]:
    """Every object in it that may be a schema."""
    ahead = [schema]
    while ahead:
        found = ahead.pop()
        if isinstance(found, list):
            ahead += found
        elif isinstance(found, dict):
            yield found
            for word, inner in found.items():
                if word not in _DATA:
                    ahead += _values(inner) if word in _NAMED else [inner]


def _targets(root: Node) -> Node:
    """What each of its references leads to; `ValueError` if that is not certain."""
    names = _names(root)
    documents = (node for name, node in names.items() if not name.startswith("#"))
    moves = any(node is not root for node in documents)
    targets: Node = {}
    for node in _nodes(root):
        name = node.get("$ref")
        if "$dynamicRef" in node or "$recursiveRef" in node:
            raise ValueError("references are followed by $ref alone")
        if isinstance(name, str):
            if moves and name.startswith("#"):  # seen from where?
                raise ValueError(f"{name!r} cannot be followed where parts have an $id")
            targets[name] = _target(name, names)
    return targets


def _names(root: Node) -> Node:
    """The parts of it that have names."""
    is_old = "draft-04" in str(root.get("$schema"))
    words = {"$anchor": "#", "$id": "", **({"id": ""} if is_old else {})}
    names: Node = {"#": root}
    for node in _nodes(root):
        for word, mark in words.items():
            if isinstance(name := node.get(word), str):
                names[mark + name] = node
    return names


def _target(name: str, names: Node) -> Any:
    place, slash, path = name.partition("#/")
    found = names.get(place or "#") if slash else names.get(name)
    for step in path.split("/") if slash else ():
        found = _inside(found, step.replace("~1", "/").replace("~0", "~"))
    if found is None or "%" in path:  # what is escaped as in an address is nobody's name
        raise ValueError(f"{name!r} cannot be followed")
    return found


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    is_place = isinstance(value, list) and step.isdecimal() and int(step) < len(value)
    return value[int(step)] if is_place else None


def _refuse_to_fetch(uri: str) -> Any:
    """A schema comes from a client: it must not make us call anybody."""
    raise ValueError(f"remote reference {uri!r} is not allowed")


json_schemas = LRUCache(JSONSchema, lambda data: 1000 + len(data), _KEPT_BYTES)
"""By their JSON."""
