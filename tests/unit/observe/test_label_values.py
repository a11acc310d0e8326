"""Label values: the first ones stay as they are, all others share one."""

from __future__ import annotations

from antiphon.observe.label_values import MAX_LENGTH, OTHER, LabelValues


def test_values_beyond_the_limit_are_other_and_known_ones_stay() -> None:
    values = LabelValues(limit=2)
    assert [values.bound(each) for each in "abcab"] == ["a", "b", OTHER, "a", "b"]


def test_a_long_value_is_cut() -> None:
    assert LabelValues().bound("x" * 1000) == "x" * MAX_LENGTH
