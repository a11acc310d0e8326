"""Records of what clients did to take more than they may."""

from __future__ import annotations

from typing import NamedTuple


class LongThread(NamedTuple):
    """A request whose history has more items than a request may restore."""

    exchange: int
    items: int


class BackgroundQueue(NamedTuple):
    """Background responses of one client, and the one of another client behind them."""

    exchanges: list[int]
    behind: int
    places: int
    """Background responses that all processes generate at a time."""
