"""Token counters of providers: a request that counts the input of a plan instead of answering it.

A dialect has a counter if it is a `TokenCounter`. The counting request has the bytes of the
ordinary one, without what its endpoint rejects.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Raw

from antiphon.core.plan.plan import Outbound, Plan
from antiphon.dialects.json_input import UNREADABLE

_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_read_response = msgspec.json.Decoder(dict[str, Any]).decode


@runtime_checkable
class TokenCounter(Protocol):
    """A dialect whose providers count the tokens of a request."""

    def count_request(self, plan: Plan) -> Outbound | None:
        """The request that counts the input of a plan; None if this provider has no counter."""
        ...

    def read_count(self, body: bytes) -> int | None:
        """The number of input tokens in a response; None if there is none in it."""
        ...


def select_fields(outbound: Outbound, names: Collection[str]) -> dict[str, Raw]:
    """The fields of an encoded request that have these names, as bytes."""
    fields = _read_fields(outbound.body)
    return {name: value for name, value in fields.items() if name in names}


def read_count_field(body: bytes, name: str) -> int | None:
    """Read a count from a JSON object."""
    try:
        value = _read_response(body).get(name)
    except UNREADABLE:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
