"""Ids of messages and calls lead back to those of the provider."""

from __future__ import annotations

import re

from antiphon.dialects.anthropic.message_ids import (
    message_id,
    response_id,
    unwrap_call_id,
    wrap_call_id,
)
from tests.support.tables import table

OWN = "toolu_01A09q90qw90lq917835lq9"


def test_a_message_has_the_id_of_its_response() -> None:
    assert message_id("resp_6afb79b3") == "msg_6afb79b3"
    assert response_id("msg_6afb79b3") == "resp_6afb79b3"


def test_an_id_of_anthropic_stays() -> None:
    assert wrap_call_id(OWN, "resp_1", 0) == OWN
    assert unwrap_call_id(OWN) == OWN


@table("call_id", ["call_0", "functions.f:0", "ü\udc00", "x" * 256, "toolu_short"])
def test_any_other_id_is_wrapped_and_restored(call_id: str) -> None:
    wrapped = wrap_call_id(call_id, "resp_1", 0)
    assert re.fullmatch(r"toolu_[A-Za-z0-9_-]{22,}", wrapped)
    assert unwrap_call_id(wrapped) == call_id


def test_an_id_is_unique_in_a_session() -> None:
    places = [("resp_1", 0), ("resp_1", 1), ("resp_2", 0)]
    assert len({wrap_call_id("call_0", response, index) for response, index in places}) == 3


def test_the_id_of_another_gateway_is_wrapped_again() -> None:
    inner = wrap_call_id("call_0", "resp_1", 0)
    outer = wrap_call_id(inner, "resp_2", 0)
    assert unwrap_call_id(outer) == inner


def test_an_id_that_is_too_long_is_not_restored() -> None:
    wrapped = wrap_call_id("x" * 257, "resp_1", 0)
    assert unwrap_call_id(wrapped) == wrapped


@table("tail", ["A", "_w", "!!"])
def test_an_id_that_only_looks_wrapped_stays(tail: str) -> None:
    odd = "toolu_ap1" + "x" * 22 + tail
    assert unwrap_call_id(odd) == odd
