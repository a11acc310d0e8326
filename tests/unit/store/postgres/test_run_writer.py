"""Parameters of statements that save a turn."""

from __future__ import annotations

import pytest

from antiphon.errors import StoreRefused
from antiphon.store.postgres.run_writer import TurnEncoder
from antiphon.store.turn import StoreLimits
from tests.support.turns import Clock, turn


def test_a_turn_becomes_eight_parameters() -> None:
    output = ({"type": "message", "id": "msg_1"}, {"type": "message", "id": "msg_2"})
    encoder = TurnEncoder(Clock(), StoreLimits(ttl_s=10))
    id, previous, expires_at, owner, body, ids, inputs, positions = encoder.encode(
        turn("r1", "r0", output=output, client="me")
    )
    assert (id, previous, expires_at, owner) == ("r1", "r0", Clock().now + 10, "me")
    assert body.startswith(b'{"id":"r1"')
    assert (ids, inputs, positions) == (["msg_1", "msg_2"], [False, False], [0, 1])


def test_a_turn_without_an_owner_and_one_that_is_too_large() -> None:
    encoder = TurnEncoder(Clock(), StoreLimits(max_turn_bytes=1000))
    assert encoder.encode(turn("r1", expires_at=7))[2:4] == (7, None)
    with pytest.raises(StoreRefused):
        encoder.encode(turn("r1", text="x" * 1000))
