"""The call that a fragment belongs to, for every way in which servers number calls."""

from __future__ import annotations

import pytest
from msgspec import structs

from antiphon.core.deltas import ToolCall
from antiphon.dialects.chat.tool_calls import CallFragment, CallTracker
from tests.support.tables import table


def positions(*fragments: CallFragment) -> list[int]:
    tracker = CallTracker()
    return [tracker.feed(fragment).index for fragment in fragments]


@table(
    ("fragments", "expected"),
    [
        pytest.param(
            [
                CallFragment(0, "a", "f"),
                CallFragment(0, None, None, "{"),
                CallFragment(0, None, None, "}"),
            ],
            [0, 0, 0],
            id="as documented",
        ),
        pytest.param(
            [
                CallFragment(0, "a", "f", "{"),
                CallFragment(1, "b", "g", "{"),
                CallFragment(0, None, None, "}"),
            ],
            [0, 1, 0],
            id="interleaved",
        ),
        pytest.param(
            [CallFragment(3, "a", "f"), CallFragment(7, "b", "f"), CallFragment(3)],
            [0, 1, 0],
            id="gaps in the index",
        ),
        pytest.param(
            [CallFragment(0, "a", "f", "{"), CallFragment(0, "a", "f", "}")],
            [0, 0],
            id="id and name resent",
        ),
        pytest.param(
            [CallFragment(0, "a", "f", "{}"), CallFragment(0, "b", "f", "{}")],
            [0, 1],
            id="0 for every call",
        ),
        pytest.param(
            [
                CallFragment(0, "a", "f", "{"),
                CallFragment(0, "b", "g", "{"),
                CallFragment(0, "a", None, "}"),
                CallFragment(0, "b", None, "}"),
            ],
            [0, 1, 0, 1],
            id="0 for every call, interleaved by id",
        ),
        pytest.param(
            [CallFragment(0, None, "f", "{}"), CallFragment(0, None, "f", "{}")],
            [0, 1],
            id="0 for every call and no ids",
        ),
        pytest.param(
            [CallFragment(0, None, "f", "{"), CallFragment(0, None, "f", "}")],
            [0, 0],
            id="name resent while the arguments are open",
        ),
        pytest.param(
            [CallFragment(0, None, "f", "{}"), CallFragment(0, "a")], [0, 0], id="the id comes last"
        ),
        pytest.param(
            [
                CallFragment(0, "a", "f", "{}"),
                CallFragment(1, "a", "g", "{}"),
                CallFragment(1, "a", None, " "),
            ],
            [0, 1, 1],
            id="one id for two indexes",
        ),
        pytest.param(
            [CallFragment(None, "a", "f", "{"), CallFragment(None, "a", None, "}")],
            [0, 0],
            id="no index, same id",
        ),
        pytest.param(
            [CallFragment(None, "a", "f", "{}"), CallFragment(None, "b", "f", "{}")],
            [0, 1],
            id="no index, ids",
        ),
        pytest.param(
            [CallFragment(None, None, "f", "{}"), CallFragment(None, None, "f", "{}")],
            [0, 1],
            id="no index, no ids",
        ),
        pytest.param(
            [CallFragment(None, None, "f", "{"), CallFragment(arguments="}")],
            [0, 0],
            id="no index, arguments only",
        ),
        pytest.param(
            [CallFragment(None, None, "get_"), CallFragment(None, None, "weather", "{}")],
            [0, 0],
            id="no index, name in two fragments",
        ),
        pytest.param(
            [CallFragment(None, None, "f"), CallFragment(None, None, "g", first_in_chunk=False)],
            [0, 1],
            id="no index, two names in one chunk",
        ),
        pytest.param(
            [CallFragment(None, None, "f", "{}"), CallFragment(None, "a")],
            [0, 0],
            id="no index, the id comes last",
        ),
        pytest.param(
            [
                CallFragment(None, "a", "f", "{"),
                CallFragment(None, "b", "g", "{"),
                CallFragment(None, "a", None, '"x"'),
                CallFragment(arguments=":1}"),
            ],
            [0, 1, 0, 0],
            id="no index, the latest call goes on",
        ),
        pytest.param(
            [
                CallFragment(0, "a", "f", "{"),
                CallFragment(None, "a", None, "}"),
                CallFragment(arguments=" "),
            ],
            [0, 0, 0],
            id="an index only at first",
        ),
        pytest.param([CallFragment(arguments="{}")], [0], id="nothing but arguments"),
        pytest.param(
            [
                CallFragment(0, "a", "f"),
                CallFragment(0, "b", None, "{"),
                CallFragment(0, "b", None, "}"),
                CallFragment(0, "b", None, ""),
                CallFragment(0, "c", None),
                CallFragment(0, None, "g", "{}"),
            ],
            [0, 0, 0, 0, 1, 1],
            id="another id after the first fragment",
        ),
    ],
)
def test_a_fragment_is_assigned_to_its_call(
    fragments: list[CallFragment], expected: list[int]
) -> None:
    assert positions(*fragments) == expected


def test_a_call_keeps_its_first_id() -> None:
    """poolsideai/pool issue 9, cubist38/mlx-openai-server pull request 216: later fragments of a
    call have another id than the first, or each its own."""
    tracker = CallTracker()
    fragments = [CallFragment(0, "a", "f"), CallFragment(0, "b", None, "{")]
    fragments += [CallFragment(0, "c", None, "}"), CallFragment(0, "b", None, "")]
    assert [tracker.feed(each).call_id for each in fragments] == ["a"] * 4
    assert tracker.count == 1


def test_a_fragment_becomes_a_delta_with_all_its_members() -> None:
    fragment = CallFragment(5, "a", "f", "{}", "custom")
    assert CallTracker().feed(fragment) == ToolCall(0, "a", "f", "{}", "custom")


@pytest.mark.parametrize(
    "head", [CallFragment(0, "a", "f", "{"), CallFragment(None, "a", "f", "{")]
)
def test_complete_arguments_that_are_sent_again_are_dropped(head: CallFragment) -> None:
    """anomalyco/opencode pull request 17339 (GLM), decolua/9router 2869 (MiMo, July 2026)."""
    tracker = CallTracker()
    rest = structs.replace(head, call_id=None, name=None)
    pieces = [head, structs.replace(rest, arguments='"x":1}')]
    again = [structs.replace(rest, arguments='{"x":1}'), structs.replace(head, arguments='{"x":1}')]
    assert [tracker.feed(piece).arguments for piece in (*pieces, *again)] == ["{", '"x":1}', "", ""]
    assert tracker.continue_call(0, '{"x":1}') in (None, ToolCall(0))


def test_only_complete_arguments_of_the_same_call_are_taken_for_a_repetition() -> None:
    tracker = CallTracker()
    assert tracker.feed(CallFragment(0, "a", "f", '{"ab')).arguments == '{"ab'
    assert tracker.feed(CallFragment(0, None, None, '{"ab')).arguments == '{"ab'
    assert tracker.feed(CallFragment(1, "b", "f", "{}")).arguments == "{}"
    assert tracker.feed(CallFragment(2, "c", "f", "{}")).arguments == "{}"
    word = CallFragment(3, "d", "f", "[]", "custom")
    assert [tracker.feed(piece).arguments for piece in (word, word)] == ["[]", "[]"]


def written(*pieces: str) -> list[str]:
    tracker = CallTracker()
    head, *rest = pieces
    begun = tracker.feed(CallFragment(0, "a", "f", head)).arguments
    return [begun, *(tracker.feed(CallFragment(0, arguments=each)).arguments for each in rest)]


@table(
    ("pieces", "expected"),
    [
        # vllm-project/vllm issue 42167 (GLM-5.1), pull request 36866
        pytest.param(
            ["", '{"a":', '"\\"Ro', '{"a": "\\"Rome", "b": [1]}'],
            ["", '{"a":', '"\\"Ro', 'me", "b": [1]}'],
            id="all of them instead of the last piece, spaced differently",
        ),
        pytest.param(
            ['{"a":"Rome"}', '{\n "a": "Rome"\n}\n', " "],
            ['{"a":"Rome"}', "", " "],
            id="all of them at the end, spaced differently",
        ),
        # vllm-project/vllm issue 51697 (xLAM)
        pytest.param(["{", '{"a": 1}'], ["{", '"a": 1}'], id="all of them behind the bracket"),
        # BerriAI/litellm issue 20480
        pytest.param(
            ['{"a":', '"x"}', '"{\\"a\\": \\"x\\"}"'],
            ['{"a":', '"x"}', ""],
            id="all of them at the end, as a string",
        ),
        # NousResearch/hermes-agent issue 35592 (Qianfan)
        pytest.param(
            ["{", '{"a":', '{"a":', '{"a": [', '{"a": [1]}', '{"a": [1]}'],
            ["{", '"a":', "", " [", "1]}", ""],
            id="again with every piece",
        ),
    ],
)
def test_arguments_that_a_piece_repeats_are_left_out(
    pieces: list[str], expected: list[str]
) -> None:
    assert written(*pieces) == expected


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"a":', '{"a":1}', "}"],
        ['{"a":[', '{"a":1},', '{"a":1}', "]}"],
        ["", '{"a":', '{"a":1}', "}"],
        ["{}", '{"a":1}'],
        ['{"a":1}', '{"a":1}{"b":2}'],
        ['{"a": "{ ', '{"a": "{"}'],
        ['{"a":1}', '"x"'],
        ['{"a":1}', '"'],
        ['{"a":1}', '"\ud800"'],
    ],
)
def test_a_piece_that_may_be_a_value_within_the_arguments_stays(pieces: list[str]) -> None:
    assert written(*pieces) == pieces
