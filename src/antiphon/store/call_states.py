"""Call states: sealed state of providers by client and call, for clients that return only call ids.

A row is a capsule (`core.history.capsule`): the store cannot read it. Rows expire as turns do, and
of each client only the newest `StoreLimits.max_call_states` are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

MAX_STATE_BYTES = 256 * 1024
"""Larger state is not kept."""


class CallStates(Protocol):
    """State by the ids of calls. Raises `StoreError`."""

    async def save(self, states: Mapping[str, str], *, client: str) -> None:
        """Add or replace the states of calls."""

    async def load(self, call_ids: Collection[str], *, client: str) -> dict[str, str]:
        """Return the states of these calls; those of other clients and unknown calls have none."""
