"""Calls that the gateway makes itself: a web search, a tool of an MCP server.

A filter takes such a call out of the model's output and wants it made when the round is over. The
outcomes go to the filter in the order of the calls; the model gets them in a further round.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from antiphon.core.deltas import Delta
from antiphon.core.filters.filter import RoundEnd, Wish


class GatewayCall(Struct, frozen=True, kw_only=True):
    """One call. What comes of it is an outcome, whatever goes wrong."""

    call_id: str
    """Identifies the call within the response."""

    @abstractmethod
    def announce(self) -> Sequence[Delta]:
        """Return what the client gets when this call is the next one to be settled."""

    @abstractmethod
    def fail(self) -> Any:
        """Make the outcome of a call that could not be made, or was interrupted."""


class CallWish(Wish, frozen=True):
    """Calls of the gateway, of which the first one is settled first."""

    calls: tuple[GatewayCall, ...]
    settle: Callable[[Any], RoundEnd]
    """Takes the outcome of the first call, and returns what its filter wants then."""
