"""Reduce JSON Schema to the subset of Gemini's `Schema` type, for models that accept no more.

One unknown keyword fails the whole request, so only known ones are kept:

1. References are resolved and `allOf` is merged; a recursive reference ends as any object.
2. Every node has a type, or is an `anyOf` and nothing else. Null is `nullable`.
3. Only strings have enums; other constants go into the description.
4. Unsupported keywords are dropped without a diagnostic: a weaker schema still guides the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Node: TypeAlias = dict[str, Any]
JSONSchema: TypeAlias = Mapping[str, Any]
Seen: TypeAlias = frozenset[str]
"""The references on the path to a node."""

_KINDS = ("string", "number", "integer", "boolean", "array", "object")
_FORMATS: Mapping[str, tuple[str, ...]] = {
    "string": ("date-time",),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_LIMITS: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}
_MAX_NODES = 2000  # resolving references can make a small schema large
_MAX_DEPTH = 24


def reduce_parameters(schema: JSONSchema | None) -> Node | None:
    """Reduce the parameters of a function; None if there are none: Gemini refuses `{}`."""
    reducer = _SchemaReducer(schema or {})
    flat, seen = reducer.flatten(schema, frozenset())
    branches, _ = reducer.branches(flat, seen)
    properties: Node = {}
    for branch in branches:
        for name, node in reducer.properties(branch, 0, seen).items():
            properties.setdefault(name, node)
    if not properties:
        return None
    required = [name for name in properties if all(name in _required(each) for each in branches)]
    return {"type": "OBJECT", "properties": properties, **_required_field(required)}


def reduce_response(schema: JSONSchema) -> Node:
    """Reduce the schema of structured output; `propertyOrdering` keeps the order of properties."""
    return _SchemaReducer(schema, ordered=True).node(schema, 0, frozenset())


def has_reference(schema: JSONSchema | None) -> bool:
    """Whether a schema has references. Gemini resolves them in the parameters of a function only
    sometimes, and refuses the request otherwise."""
    return next(_references(schema), None) is not None


def has_unsupported_reference(schema: JSONSchema) -> bool:
    """Whether Gemini refuses a schema of structured output: for a reference to anything but one of
    `$defs`, or for one with other keywords beside it."""
    definitions = schema.get("$defs")
    names = definitions if isinstance(definitions, Mapping) else {}
    targets = {f"#/$defs/{name}" for name in names}
    return any(
        node["$ref"] not in targets or not all(name.startswith("$") for name in node)
        for node in _references(schema)
    )


def _references(schema: Any) -> Iterator[JSONSchema]:
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if isinstance(node.get("$ref"), str):
                yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


class _SchemaReducer:
    """One traversal of one schema."""

    def __init__(self, root: JSONSchema, *, ordered: bool = False) -> None:
        self._root = root
        self._ordered = ordered
        self._nodes = 0

    def node(self, schema: Any, depth: int, seen: Seen) -> Node:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return {"type": "STRING"}
        flat, seen = self.flatten(schema, seen)
        branches, nullable = self.branches(flat, seen)
        if len(branches) == 1 and branches[0] is flat:
            node = self._typed_node(flat, depth, seen)
        else:
            node = _any_of([self.node(branch, depth + 1, seen) for branch in branches])
        return _nullable(node) if nullable else node

    # References and compositions

    def flatten(self, schema: Any, seen: Seen, depth: int = 0) -> tuple[JSONSchema, Seen]:
        """Resolve `$ref` and merge `allOf`; also return the references that were followed."""
        self._nodes += 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return {}, seen
        if "$ref" not in schema and "allOf" not in schema:
            return schema, seen
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        reference = schema.get("$ref")
        parts = schema.get("allOf")
        parts = parts if isinstance(parts, list) else []
        if isinstance(reference, str):
            parts = [{"type": "object"} if reference in seen else self._resolve(reference), *parts]
            seen |= {reference}
        used = seen
        for part in parts:
            flat, more = self.flatten(part, seen, depth + 1)
            rest = _merge(rest, flat)
            used = used | more
        return rest, used

    def _resolve(self, reference: str) -> Any:
        """Find the target of a reference; only references into this document are followed."""
        start, *steps = reference.split("/")
        target: Any = self._root if start == "#" else None
        for step in steps:
            name = step.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        return target

    def branches(self, flat: JSONSchema, seen: Seen) -> tuple[list[JSONSchema], bool]:
        """List the alternatives of a schema, at least one, and whether null was one of them."""
        kinds = flat.get("type")
        union = flat.get("anyOf") or flat.get("oneOf")
        if isinstance(union, list) and union:
            rest = {key: flat[key] for key in flat if key not in ("anyOf", "oneOf")}
            found = [self.flatten(_merge(each, rest), seen)[0] for each in union]
        elif isinstance(kinds, list):
            found = [{**flat, "type": kind} for kind in kinds]
        else:
            return [flat], _is_null(flat) or None in _constants(flat)
        kept = [each for each in found if not _is_null(each)]
        return kept or [{}], len(kept) < len(found)

    # Types

    def _typed_node(self, flat: JSONSchema, depth: int, seen: Seen) -> Node:
        kind = _node_type(flat)
        node: Node = {"type": kind.upper()}
        if description := _description(flat, kind):
            node["description"] = description
        if flat.get("format") in _FORMATS.get(kind, ()):
            node["format"] = flat["format"]
        if kind == "string" and (enum := _strings(_constants(flat))):
            node["enum"] = enum
        for name in _LIMITS.get(kind, ()):
            if _is_limit(flat.get(name), kind):
                node[name] = flat[name]
        if kind == "array":
            node["items"] = self._items(flat, depth, seen)
        if kind == "object":
            node |= self._object(flat, depth, seen)
        return node

    def _items(self, flat: JSONSchema, depth: int, seen: Seen) -> Node:
        """One schema for all items; a tuple (`prefixItems`) becomes an `anyOf` of its members."""
        items = flat.get("items")
        tuples = flat.get("prefixItems")
        members = items if isinstance(items, list) else tuples
        if isinstance(members, list) and members:
            return _any_of([self.node(member, depth + 1, seen) for member in members])
        return self.node(items, depth + 1, seen)

    def _object(self, flat: JSONSchema, depth: int, seen: Seen) -> Node:
        properties = self.properties(flat, depth, seen)
        if not properties:
            return {}
        required = [name for name in properties if name in _required(flat)]
        ordering = {"propertyOrdering": list(properties)} if self._ordered else {}
        return {"properties": properties, **_required_field(required), **ordering}

    def properties(self, flat: JSONSchema, depth: int, seen: Seen) -> Node:
        found = flat.get("properties")
        if not isinstance(found, Mapping):
            return {}
        return {name: self.node(each, depth + 1, seen) for name, each in found.items()}


def _merge(one: Any, other: Any) -> Node:
    """Merge two schemas; where both have a keyword, the first wins."""
    first = one if isinstance(one, Mapping) else {}
    second = other if isinstance(other, Mapping) else {}
    merged = {**second, **first}
    for name in ("properties", "$defs"):
        if isinstance(first.get(name), Mapping) and isinstance(second.get(name), Mapping):
            merged[name] = {**first[name], **second[name], **first[name]}
    if "required" in merged:
        merged["required"] = _required(first) + _required(second)
    return merged


def _any_of(nodes: Sequence[Node]) -> Node:
    """Combine alternatives: nested `anyOf` is flattened, duplicates and enums are merged."""
    found: list[Node] = []
    for node in nodes:
        found += [each for each in node.get("anyOf", [node]) if each not in found]
    if len(found) > 1 and all("enum" in each for each in found):
        return {**found[0], "enum": _strings(value for each in found for value in each["enum"])}
    return found[0] if len(found) == 1 else {"anyOf": found}


def _nullable(node: Node) -> Node:
    if "anyOf" in node:
        return {"anyOf": [{**each, "nullable": True} for each in node["anyOf"]]}
    return {**node, "nullable": True}


def _node_type(flat: JSONSchema) -> str:
    """The type of a node, inferred from its keywords if it has none."""
    if flat.get("type") in _KINDS:
        return str(flat["type"])
    if any(name in flat for name in ("properties", "additionalProperties", "patternProperties")):
        return "object"
    if "items" in flat or "prefixItems" in flat:
        return "array"
    constants = [each for each in _constants(flat) if each is not None]
    for kind, python in (("boolean", bool), ("integer", int), ("number", float | int)):
        if constants and all(isinstance(each, python) for each in constants):
            return kind
    return "string"


def _constants(flat: JSONSchema) -> Sequence[Any]:
    enum = flat.get("enum")
    if isinstance(enum, list):
        return enum
    return [flat["const"]] if "const" in flat else []


def _description(flat: JSONSchema, kind: str) -> str:
    description = flat.get("description")
    sentences = [description] if isinstance(description, str) and description else []
    constants = _constants(flat)
    if constants and kind != "string":
        sentences.append(f"(one of: {msgspec.json.encode(constants).decode()[1:-1]})")
    return " ".join(sentences)


def _strings(values: Iterable[Any]) -> list[str]:
    """The members an enum may have: non-empty strings, each once."""
    return list(dict.fromkeys(each for each in values if isinstance(each, str) and each))


def _required(flat: JSONSchema) -> list[Any]:
    required = flat.get("required")
    return required if isinstance(required, list) else []


def _required_field(required: list[str]) -> Node:
    return {"required": required} if required else {}


def _is_null(flat: JSONSchema) -> bool:
    constants = _constants(flat)
    return flat.get("type") == "null" or (bool(constants) and all(c is None for c in constants))


def _is_limit(value: Any, kind: str) -> bool:
    """Whether a value is a valid bound: any number for numbers, an int32 for lengths."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind in ("number", "integer") or (isinstance(value, int) and 0 <= value < 2**31)
