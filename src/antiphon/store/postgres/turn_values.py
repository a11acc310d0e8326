"""Parameters of the statements that save a turn."""

from __future__ import annotations

from typing import Any

from antiphon.store.item_references import locate_items
from antiphon.store.postgres.text import encode_optional_text, encode_text
from antiphon.store.turn import Clock, StoreLimits, Turn, encode_turn


class TurnEncoder:
    """Encodes turns as the first eight parameters of `save_turn`, `begin_run` and `finish_run`."""

    def __init__(self, now: Clock, limits: StoreLimits) -> None:
        self._now = now
        self._limits = limits

    def encode(self, turn: Turn) -> tuple[Any, ...]:
        """Raises `StoreRefused` if a turn is too large or not encodable."""
        body = encode_turn(turn, self._limits)
        expires_at = turn.expires_at
        if expires_at is None:
            expires_at = self._limits.expiry(self._now())
        items = locate_items(turn)
        return (
            encode_text(turn.id),
            encode_optional_text(turn.previous_response_id),
            expires_at,
            encode_text(turn.client) or None,
            body,
            [encode_text(id) for id in items],
            [location.is_input for location in items.values()],
            [location.position for location in items.values()],
        )
