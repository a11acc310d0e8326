"""Unit tests of numbered ids."""

from __future__ import annotations

from antiphon.core.stream.numbered_ids import number_ids


def test_each_prefix_is_counted() -> None:
    new_id = number_ids()
    assert [new_id("msg"), new_id("fc"), new_id("msg")] == ["msg_0001", "fc_0001", "msg_0002"]
