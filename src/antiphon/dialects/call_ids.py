"""Tool call ids in the format that a provider accepts; a call and its result share one id.

An id that fits stays. One that does not fit, or that an earlier call already has, becomes a digest
of itself, so that the same history always gives the same ids. A result belongs to the latest call
with its id: some providers restart their numbering in every turn.
"""

from __future__ import annotations

import hashlib
import re

from msgspec import Struct, field


class CallIdFormat(Struct, frozen=True):
    """Accepted call ids: a pattern, and the length of generated ones."""

    pattern: str
    length: int


class CallIds(Struct):
    """Ids of one request, assigned in the order of its calls. Without a format, every id stays."""

    _format: CallIdFormat | None
    _assigned: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)
    """The number of the last call with an id: all lower ones are taken."""

    def assign(self, call_id: str) -> str:
        """The id of a call, unique within the request."""
        if self._format is None:
            return call_id
        fits = re.fullmatch(self._format.pattern, call_id)
        number = self._numbers.get(call_id, 1)
        assigned = call_id if fits else _digest(call_id, self._format.length)
        while assigned in self._taken:
            number += 1
            assigned = _digest(f"{call_id} {number}", self._format.length)
        self._numbers[call_id] = number
        self._taken.add(assigned)
        self._assigned[call_id] = assigned
        return assigned

    def find(self, call_id: str) -> str:
        """The id of the call that a result belongs to."""
        return self._assigned.get(call_id, call_id)


def _digest(text: str, length: int) -> str:
    """Hexadecimal digits only, which every format allows."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
