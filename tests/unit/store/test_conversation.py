"""Items of conversations: encoded by id, without repeated ones."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.store.conversation import encode_items, encode_turn_items
from antiphon.store.turn import StoreLimits
from tests.support.turns import turn


def test_of_items_of_a_turn_with_the_same_id_the_first_is_kept() -> None:
    item = {"type": "reasoning", "id": "x", "summary": []}
    bodies = encode_turn_items(turn("r", input=(item,), output=({**item, "y": 1},)), StoreLimits())
    assert {id: msgspec.json.decode(body) for id, body in bodies.items()} == {"x": item}


def test_items_of_a_request_with_the_same_id_are_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode_items([{"id": "x"}, {"id": "y"}, {"id": "x"}], StoreLimits())
    assert caught.value.param == "items"
    assert list(encode_items([{"id": "x"}, {"id": "y"}], StoreLimits())) == ["x", "y"]
