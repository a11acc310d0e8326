"""Ids of calls, in a form that a provider takes: a call and its answer always under the same one.

An id that fits stays. One that does not, or that another call has already, becomes a digest of
itself, so that the same history always gives the same ids. An answer belongs to the last call of
its id: some providers begin to count anew in every turn.
"""

from __future__ import annotations

import hashlib
import re

from msgspec import Struct


class CallIdForm(Struct, frozen=True):
    """What an id has to look like, and how long to make one that does not."""

    pattern: str
    length: int


class CallIds:
    """The ids of one request, in the order of its calls. Without a form, every id stays."""

    def __init__(self, form: CallIdForm | None) -> None:
        self._form = form
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def called(self, call_id: str) -> str:
        if self._form is None:
            return call_id
        fits = re.fullmatch(self._form.pattern, call_id)
        given = call_id if fits else _digest(call_id, self._form.length)
        number = 1
        while given in self._taken:
            number += 1
            given = _digest(f"{call_id} {number}", self._form.length)
        self._taken.add(given)
        self._given[call_id] = given
        return given

    def answered(self, call_id: str) -> str:
        return self._given.get(call_id, call_id)


def _digest(text: str, length: int) -> str:
    """Hexadecimal digits alone: no form forbids those."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
