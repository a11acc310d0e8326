"""Errors of a Messages request, with the path and the words of the API."""

from __future__ import annotations

from typing import Any

from antiphon.core.items import Document
from antiphon.dialects.validate import json_type
from antiphon.errors import InvalidRequest


def invalid(path: str, problem: str) -> InvalidRequest:
    """`messages.3.content.0.type: Field required`"""
    return InvalidRequest(f"{path}: {problem}", param=path)


def mapping(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def type_name(value: Any) -> str:
    return json_type(value)


def is_number(value: Any) -> bool:
    return type(value) in (int, float)
