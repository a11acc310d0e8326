"""Which call a piece belongs to, for every way in which servers number them."""

from __future__ import annotations

import pytest

from antiphon.core.stream.deltas import ToolCall
from antiphon.dialects.chat.tool_calls import CallTracker, Piece


def positions(*pieces: Piece) -> list[int]:
    tracker = CallTracker()
    return [tracker.feed(piece).index for piece in pieces]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(
            [Piece(0, "a", "f"), Piece(0, None, None, "{"), Piece(0, None, None, "}")],
            [0, 0, 0],
            id="as documented",
        ),
        pytest.param(
            [Piece(0, "a", "f", "{"), Piece(1, "b", "g", "{"), Piece(0, None, None, "}")],
            [0, 1, 0],
            id="interleaved",
        ),
        pytest.param(
            [Piece(3, "a", "f"), Piece(7, "b", "f"), Piece(3)], [0, 1, 0], id="gaps in the index"
        ),
        pytest.param(
            [Piece(0, "a", "f", "{"), Piece(0, "a", "f", "}")], [0, 0], id="id and name resent"
        ),
        pytest.param(
            [Piece(0, "a", "f", "{}"), Piece(0, "b", "f", "{}")], [0, 1], id="0 for every call"
        ),
        pytest.param(
            [
                Piece(0, "a", "f", "{"),
                Piece(0, "b", "g", "{"),
                Piece(0, "a", None, "}"),
                Piece(0, "b", None, "}"),
            ],
            [0, 1, 0, 1],
            id="0 for every call, interleaved by id",
        ),
        pytest.param(
            [Piece(0, None, "f", "{}"), Piece(0, None, "f", "{}")],
            [0, 1],
            id="0 for every call and no ids",
        ),
        pytest.param(
            [Piece(0, None, "f", "{"), Piece(0, None, "f", "}")],
            [0, 0],
            id="name resent while the arguments are open",
        ),
        pytest.param([Piece(0, None, "f", "{}"), Piece(0, "a")], [0, 0], id="the id comes last"),
        pytest.param(
            [Piece(0, "a", "f", "{}"), Piece(1, "a", "g", "{}"), Piece(1, "a", None, " ")],
            [0, 1, 1],
            id="one id for two indexes",
        ),
        pytest.param(
            [Piece(None, "a", "f", "{"), Piece(None, "a", None, "}")],
            [0, 0],
            id="no index, same id",
        ),
        pytest.param(
            [Piece(None, "a", "f", "{}"), Piece(None, "b", "f", "{}")], [0, 1], id="no index, ids"
        ),
        pytest.param(
            [Piece(None, None, "f", "{}"), Piece(None, None, "f", "{}")],
            [0, 1],
            id="no index, no ids",
        ),
        pytest.param(
            [Piece(None, None, "f", "{"), Piece(arguments="}")],
            [0, 0],
            id="no index, arguments only",
        ),
        pytest.param(
            [Piece(None, None, "get_"), Piece(None, None, "weather", "{}")],
            [0, 0],
            id="no index, name in pieces",
        ),
        pytest.param(
            [Piece(None, None, "f"), Piece(None, None, "g", beside=True)],
            [0, 1],
            id="no index, two names in one chunk",
        ),
        pytest.param(
            [Piece(None, None, "f", "{}"), Piece(None, "a")],
            [0, 0],
            id="no index, the id comes last",
        ),
        pytest.param(
            [
                Piece(None, "a", "f", "{"),
                Piece(None, "b", "g", "{"),
                Piece(None, "a", None, '"x"'),
                Piece(arguments=":1}"),
            ],
            [0, 1, 0, 0],
            id="no index, the call that spoke last goes on",
        ),
        pytest.param(
            [Piece(0, "a", "f", "{"), Piece(None, "a", None, "}"), Piece(arguments=" ")],
            [0, 0, 0],
            id="an index only at first",
        ),
        pytest.param([Piece(arguments="{}")], [0], id="nothing but arguments"),
    ],
)
def test_a_piece_finds_its_call(pieces: list[Piece], expected: list[int]) -> None:
    assert positions(*pieces) == expected


def test_a_piece_becomes_a_delta_with_all_it_says() -> None:
    piece = Piece(5, "a", "f", "{}", "custom")
    assert CallTracker().feed(piece) == ToolCall(0, "a", "f", "{}", "custom")
