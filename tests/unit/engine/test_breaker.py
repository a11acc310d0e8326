"""The breaker: a provider that keeps failing is left alone, then tried by one request."""

from __future__ import annotations

from antiphon.engine.breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def broken(clock: Clock) -> Breaker:
    breaker = Breaker(clock, threshold=3, rest_s=10)
    for _ in range(3):
        assert breaker.allows()
        breaker.fail()
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    assert not broken(Clock()).allows()


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(Clock(), threshold=2, rest_s=10)
    breaker.fail()
    breaker.succeed()
    breaker.fail()
    assert breaker.allows()


def test_after_its_rest_one_request_tries_the_way() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.allows()
    assert not breaker.allows()


def test_a_good_trial_closes_it() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.allows()
    breaker.succeed()
    assert breaker.allows()
    assert breaker.allows()


def test_a_bad_trial_opens_it_for_another_rest() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.allows()
    breaker.fail()
    assert not breaker.allows()
    clock.now = 20
    assert breaker.allows()


def test_a_trial_that_says_nothing_lets_another_try() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.allows()
    breaker.pass_over()
    assert breaker.allows()
