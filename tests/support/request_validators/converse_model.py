"""Validator of Converse documents against the AWS service model: types, patterns and bounds.

The model comes with the `botocore` package. Its own validation is lax (it checks neither patterns
nor enumerations), so the shapes are traversed here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

ABSENT = "The AWS service model is not installed: pip install botocore"

Body = dict[str, Any]


@cache
def _shapes() -> Any:
    session = pytest.importorskip("botocore.session", reason=ABSENT).Session()
    return session.get_service_model("bedrock-runtime")


def offences(body: Body, model: str = "m") -> list[str]:
    """What the service model does not allow in the body of a request."""
    shape = _shapes().shape_for("ConverseStreamRequest")
    return [*_offences(shape, {"modelId": model, **body}, "")]


def understands(name: str, document: Body) -> list[str]:
    """What the service model does not allow in an event of a stream."""
    return [*_offences(_shapes().shape_for(name), document, name)]


def _offences(shape: Any, value: Any, path: str) -> Iterator[str]:
    if getattr(shape, "is_document_type", False):
        return
    check = {
        "structure": _structure,
        "list": _list,
        "map": _map,
        "string": _string,
        "blob": _blob,
        "integer": _number,
        "long": _number,
        "float": _number,
        "double": _number,
        "boolean": _boolean,
    }[shape.type_name]
    yield from check(shape, value, path)


def _structure(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: no object"
        return
    yield from (f"{path}.{name}: unknown" for name in value.keys() - shape.members.keys())
    yield from (f"{path}.{name}: missing" for name in shape.required_members if name not in value)
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        yield f"{path}: {len(value)} members of a union"
    for name in value.keys() & shape.members.keys():
        yield from _offences(shape.members[name], value[name], f"{path}.{name}")


def _list(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: no list"
        return
    yield from _bounds(shape, len(value), path)
    for index, each in enumerate(value):
        yield from _offences(shape.member, each, f"{path}[{index}]")


def _map(shape: Any, value: Any, path: str) -> Iterator[str]:
    for name, each in value.items():
        yield from _offences(shape.key, name, f"{path} key")
        yield from _offences(shape.value, each, f"{path}.{name}")


def _string(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: no text"
        return
    pattern = shape.metadata.get("pattern")
    if shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} is not one of {shape.enum}"
    if pattern and not re.fullmatch(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"
    yield from _bounds(shape, len(value), path)


def _blob(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _bounds(shape, len(base64.b64decode(value, validate=True)), path)


def _number(shape: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{path}: no number"
    else:
        yield from _bounds(shape, value, path)


def _boolean(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path}: no boolean"


def _bounds(shape: Any, size: float, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if (least is not None and size < least) or (most is not None and size > most):
        yield f"{path}: {size} is out of bounds"
