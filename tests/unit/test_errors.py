"""`antiphon.errors`: the page of all error classes."""

from __future__ import annotations

import re

from antiphon import errors
from antiphon.errors import AntiphonError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, Exception)
]


def test_the_docstring_lists_every_error_class_once() -> None:
    listed = re.findall(r"^ *- (\w+) ", errors.__doc__ or "", flags=re.MULTILINE)
    assert sorted(listed) == sorted(each.__name__ for each in CLASSES)


def test_the_docstring_shows_the_parents_of_every_error() -> None:
    path: list[str] = []
    for indent, name in re.findall(r"^( *)- (\w+) ", errors.__doc__ or "", flags=re.MULTILINE):
        path[len(indent) // 2 :] = [name]
        parents = [each.__name__ for each in getattr(errors, name).__mro__]
        assert parents[: len(path)] == path[::-1]


def test_every_error_class_has_a_docstring() -> None:
    assert [each.__name__ for each in CLASSES if not each.__dict__.get("__doc__")] == []


def test_an_error_with_a_code_of_its_own_is_listed_with_it() -> None:
    listed = dict(re.findall(r"- (\w+) +([\w.]+): ", errors.__doc__ or ""))
    own = {
        each.__name__: each.__dict__["code"]
        for each in CLASSES
        if issubclass(each, AntiphonError) and "code" in each.__dict__
    }
    shared = {"AntiphonError", "InvalidRequest"}  # the root's, and a default that others replace
    assert own.items() - listed.items() == {(name, own[name]) for name in shared}
