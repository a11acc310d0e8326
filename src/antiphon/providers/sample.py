"""Generates a small instance of a JSON Schema. Deterministic; never raises.

Alternatives are tried in order; one without a finite instance (a schema that contains itself, for
example) is skipped for the next. Patterns are met by trying likely strings.

Schema and text are a client's, and every gateway has the echo model: work and size are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from antiphon.errors import NoSampleExists

Schema: TypeAlias = Mapping[str, Any]

_STEPS = 2_000  # a small schema may describe a very large instance
_READ_BYTES = 40_000_000  # of the schema, which each step may read as a whole
_CHARACTERS = 1_000_000  # of an instance; names and strings may be repeated
_COMPARISONS = 100_000  # of two lists
_PATTERN_STEPS = 20  # a pattern is compiled, and tried on some hundreds of strings
_BACKTRACKS = 300  # for one string
_PATTERN_BYTES = 1024 * 1024  # compiled
_DEPTH = 40


def sample(schema: Any, text: str) -> Any:
    """Return an instance of `schema` whose strings are made of `text`; None if none was found."""
    try:
        return _Sampler(schema, text or "echo").value(schema)
    except (NoSampleExists, RecursionError):
        return None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # not a schema: a client may send anything


class _Sampler:
    def __init__(self, root: Any, text: str) -> None:
        self._root = root
        self._text = text
        self._steps = min(_STEPS, _READ_BYTES // len(msgspec.json.encode(root)))
        self._characters = _CHARACTERS
        self._open = ["#"]
        """References being followed, to detect recursion."""
        self._depth = 0

    def value(self, schema: Any, number: int = 0) -> Any:
        """Return an instance; different numbers give different instances where possible."""
        self._spend()
        if schema is False or self._depth > _DEPTH:
            raise NoSampleExists("nothing is valid, or the schema is too deep")
        if not isinstance(schema, Mapping):
            return self._use(self._text)
        self._depth += 1
        try:
            return self._by_keyword(schema, number)
        finally:
            self._depth -= 1

    def _spend(self, steps: int = 1) -> None:
        self._steps -= steps
        if self._steps < 0 or self._characters < 0:
            raise NoSampleExists("the schema or the instance is too large")

    def _use(self, value: Any) -> Any:
        """Return a part of the instance, and count its characters."""
        self._characters -= (
            len(value) if isinstance(value, str) else len(msgspec.json.encode(value))
        )
        self._spend(0)
        return value

    def _by_keyword(self, schema: Schema, number: int) -> Any:
        if "const" in schema:
            return self._use(schema["const"])
        if "enum" in schema:
            choices = schema["enum"]
            return self._use(choices[number % len(choices)])
        if "$ref" in schema:
            return self._all_of(_without(schema, "$ref"), [{"$ref": schema["$ref"]}], number)
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                return self._any_of(_without(schema, keyword), schema[keyword], number)
        if schema.get("allOf"):
            return self._all_of(_without(schema, "allOf"), schema["allOf"], number)
        return self._by_type(schema, number)

    def _any_of(self, rest: Schema, branches: list[Any], number: int) -> Any:
        for branch in branches:
            try:
                return self._all_of(rest, [branch], number)
            except NoSampleExists:
                continue
        raise NoSampleExists("no alternative has an instance")

    def _all_of(self, schema: Any, parts: list[Any], number: int) -> Any:
        """Return an instance of `schema` and all `parts` at once."""
        before = len(self._open)
        try:
            for part in parts:
                self._spend()
                schema = _merge_schemas(schema, self._follow_reference(part))
            return self.value(schema, number)
        finally:
            del self._open[before:]

    def _follow_reference(self, schema: Any) -> Any:
        """Return the target of a `$ref`, merged with its siblings; raises on recursion."""
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if reference is None:
            return schema
        if reference in self._open:
            raise NoSampleExists("the reference is recursive")
        self._open.append(reference)
        return _merge_schemas(self._resolve_pointer(reference), _without(schema, "$ref"))

    def _resolve_pointer(self, reference: str) -> Any:
        node = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if key not in node:
                raise NoSampleExists("the reference has no target")
            node = node[key]
        return node

    def _by_type(self, schema: Schema, number: int) -> Any:
        kinds = schema.get("type")
        names = kinds if isinstance(kinds, list) else [kinds or _guess_type(schema)]
        for name in names:
            make = _MAKERS.get(name) if isinstance(name, str) else None
            if make is not None:
                try:
                    return make(self, schema, number)
                except NoSampleExists:
                    continue
        raise NoSampleExists("no type has an instance")

    def object(self, schema: Schema, number: int) -> dict[str, Any]:
        properties = schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        rest = schema.get("additionalProperties", True)
        required = schema.get("required")
        needed = [name for name in required if isinstance(name, str)] if required else []
        made = {self._use(name): self.value(known.get(name, rest), number) for name in needed}
        wanted = min(int(schema.get("minProperties", 0 if needed else len(known))), _STEPS)
        for name in (*known, *map(str, range(wanted))):
            if len(made) >= wanted:
                break
            if name not in made and (name in known or rest is not False):
                made |= self._optional(name, known.get(name, rest), number)
        return made

    def _optional(self, name: str, schema: Any, number: int) -> dict[str, Any]:
        try:
            return {self._use(name): self.value(schema, number)}
        except NoSampleExists:
            return {}

    def array(self, schema: Schema, number: int) -> list[Any]:
        most = int(schema.get("maxItems", _STEPS))
        least = min(int(schema.get("minItems", 0)), _STEPS)
        first = schema.get("prefixItems")
        schemas = list(first) if isinstance(first, list) else []
        schemas += [schema.get("items", True)] * (max(least, 1) - len(schemas))
        made: list[Any] = []
        for index, inner in enumerate(schemas[:most]):
            try:
                made.append(self.value(inner, number + index))
            except NoSampleExists:
                if len(made) < least:
                    raise
        return made

    def string(self, schema: Schema, number: int) -> str:
        texts = [self._text if number == 0 else f"{self._text} {number}"]
        if (known := _FORMATS.get(str(schema.get("format")))) is not None:
            texts.insert(0, known)
        least, most = min(int(schema.get("minLength", 0)), _STEPS), schema.get("maxLength")
        sized = [text.ljust(least, ".")[:most] for text in texts]
        likely: list[str] = []
        if "pattern" in schema:
            self._spend(_PATTERN_STEPS)
            likely = [*sized, *_LIKELY, *_repeated_characters(least)]
        try:
            found = str(_find_valid(schema, likely))
        except NoSampleExists:
            found = sized[0]  # a string that misses the pattern is better than no instance
        return str(self._use(found))

    def number(self, schema: Schema, number: int) -> Any:
        step = schema.get("multipleOf") or 1
        ends = [schema[name] for name in _BOUNDS if isinstance(schema.get(name), int | float)]
        whole = [end // step * step for end in ends]
        near = [point + offset * step for point in (*whole, 0) for offset in (0, 1, -1)]
        middle = [sum(ends) / len(ends)] if ends else []
        return _find_valid(schema, [1 + number, *near, *ends, *middle])

    def integer(self, schema: Schema, number: int) -> int:
        return int(self.number({**schema, "type": "integer"}, number))


def _guess_type(schema: Schema) -> str:
    """Return the type that the other keywords apply to."""
    for name, keywords in _KEYWORDS.items():
        if not keywords.isdisjoint(schema):
            return name
    return "string"


def _merge_schemas(one: Any, other: Any) -> Any:
    """Merge two schemas into one whose instances are valid for both, as far as possible."""
    if one is False or other is False:
        return False
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one if isinstance(one, Mapping) else other
    both = one.keys() & other.keys() & _TIGHTER.keys()
    return {**one, **other, **{name: _TIGHTER[name](one[name], other[name]) for name in both}}


def _merge_properties(one: Schema, other: Schema) -> Schema:
    both = one.keys() & other.keys()
    return {**one, **other, **{name: _merge_schemas(one[name], other[name]) for name in both}}


def _merge_types(one: Any, other: Any) -> list[str]:
    ones, others = (each if isinstance(each, list) else [each] for each in (one, other))
    if ("integer" in ones and "number" in others) or ("number" in ones and "integer" in others):
        return ["integer"]
    return _common(ones, others)


def _common(one: list[Any], other: list[Any]) -> list[Any]:
    """Return what two lists have in common; their values may be no keys of a dictionary."""
    if len(one) * len(other) > _COMPARISONS:
        raise NoSampleExists("there is too much to compare")
    return [each for each in one if each in other]


def _without(schema: Schema, keyword: str) -> Schema:
    return {name: value for name, value in schema.items() if name != keyword}


def _find_valid(schema: Schema, candidates: Iterable[Any]) -> Any:
    """Return the first candidate that is valid for a schema without subschemas."""
    import jsonschema_rs

    leaf = {name: schema[name] for name in _CHECKED if name in schema}
    patterns = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_BYTES
    )
    try:
        validator = jsonschema_rs.validator_for(leaf, pattern_options=patterns)
    except ValueError as error:  # also of the validator
        raise NoSampleExists("the schema is not valid") from error
    found = next((each for each in candidates if validator.is_valid(each)), None)
    if found is None:
        raise NoSampleExists("no candidate is valid")
    return found


def _repeated_characters(least: int) -> Iterator[str]:
    """Yield repeated characters: identifiers and numbers of every usual length."""
    for length in range(max(least, 1), max(least, 1) + 64):
        yield from (character * length for character in "a0AfF_")


_FORMATS: Mapping[str, str] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "echo@example.com",
    "hostname": "example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
_LIKELY = (
    *_FORMATS.values(),
    *"echo Echo ECHO a1 A1 1.0 1.0.0 v1.0.0 en en-US EUR 2026-01 00:00 00:00:00 +15550100".split(),
    *"/echo ./echo echo.txt a/b a-b a_b a.b a:b echo-1 $1.00 0x0f 1/1 #000000 555-0100".split(),
)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_CHECKED = ("type", "pattern", "minLength", "maxLength", "multipleOf", *_BOUNDS)
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}),
    "number": frozenset({"multipleOf", *_BOUNDS}),
}
_TIGHTER: Mapping[str, Callable[[Any, Any], Any]] = {
    "properties": _merge_properties,
    "required": lambda one, other: [*dict.fromkeys([*one, *other])],
    "type": _merge_types,
    "enum": _common,
    "items": _merge_schemas,
    "allOf": lambda one, other: [*one, *other],
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
_MAKERS: Mapping[str, Callable[[_Sampler, Schema, int], Any]] = {
    "object": _Sampler.object,
    "array": _Sampler.array,
    "string": _Sampler.string,
    "number": _Sampler.number,
    "integer": _Sampler.integer,
    "boolean": lambda sampler, schema, number: number % 2 == 0,
    "null": lambda sampler, schema, number: None,
}
