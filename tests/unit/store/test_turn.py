"""Limits of a store, and turns as JSON."""

from __future__ import annotations

import pytest

from antiphon.errors import StoreRefused
from antiphon.store.turn import StoreLimits, decode_turn, encode_turn
from tests.support.turns import turn


def test_a_turn_expires_after_its_time_to_live_or_never() -> None:
    assert StoreLimits(ttl_s=100).expiry(1000) == 1100
    assert StoreLimits(ttl_s=None).expiry(1000) is None


@pytest.mark.parametrize(
    ("ttl_s", "expires_at", "expected"),
    [(100, 1051, False), (100, 1050, True), (100, None, False), (None, 1001, False)],
)
def test_a_turn_needs_renewal_once_half_of_its_lifetime_is_over(
    ttl_s: int | None, expires_at: int | None, expected: bool
) -> None:
    assert StoreLimits(ttl_s=ttl_s).needs_renewal(expires_at, 1000) is expected


def test_a_decoded_turn_has_its_current_expiry() -> None:
    body = encode_turn(turn("a", expires_at=5), StoreLimits())
    assert decode_turn(body, 9) == turn("a", expires_at=9)


@pytest.mark.parametrize("limit", ["max_turn_bytes", "max_bytes"])
def test_a_turn_of_exactly_the_limit_is_accepted_and_a_larger_one_refused(limit: str) -> None:
    size = len(encode_turn(turn("a"), StoreLimits()))
    assert len(encode_turn(turn("a"), StoreLimits(**{limit: size}))) == size
    with pytest.raises(StoreRefused) as caught:
        encode_turn(turn("a"), StoreLimits(**{limit: size - 1}))
    assert caught.value.message == (
        f"Response 'a' cannot be stored: {size:,} bytes exceed the limit of {size - 1:,}."
        " Send `store: false`, or raise `max_turn_bytes` in [store]."
    )


def test_a_turn_that_cannot_be_encoded_is_refused_with_the_reason() -> None:
    with pytest.raises(StoreRefused, match=r"Response 'a' cannot be stored: .*object"):
        encode_turn(turn("a", response={"x": object()}), StoreLimits())
