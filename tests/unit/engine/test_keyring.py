"""Keys: the least used first, a tired one rests, a refused one is gone."""

from __future__ import annotations

from math import inf

from antiphon.engine.keyring import NO_KEY, Keyring


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_keys_take_turns() -> None:
    ring = Keyring(["a", "b", "c"], Clock())
    picked = []
    for _ in range(6):
        key = ring.pick()
        assert key is not None
        ring.begin(key)
        ring.end(key)
        picked.append(key)
    assert picked == ["a", "b", "c", "a", "b", "c"]


def test_of_equally_used_keys_the_idle_one_comes_first() -> None:
    ring = Keyring(["a", "b"], Clock())
    ring.begin("a")
    ring.begin("b")
    ring.end("b")
    assert ring.pick() == "b"


def test_a_resting_key_is_passed_over_until_its_time_has_come() -> None:
    clock = Clock()
    ring = Keyring(["a", "b"], clock)
    ring.rest("a", 30)
    assert ring.pick() == "b"
    assert ring.pick(without={"b"}) is None
    clock.now += 30
    assert ring.pick() == "a"


def test_a_shorter_rest_does_not_end_a_longer_one() -> None:
    clock = Clock()
    ring = Keyring(["a"], clock)
    ring.rest("a", 60)
    ring.rest("a", 1)
    clock.now += 59
    assert ring.pick() is None


def test_a_refused_key_never_comes_back() -> None:
    clock = Clock()
    ring = Keyring(["a"], clock)
    ring.rest("a", inf)
    clock.now += 1e9
    assert ring.pick() is None


def test_where_all_rest_the_soonest_is_known() -> None:
    ring = Keyring(["a", "b"], Clock())
    ring.rest("a", 60)
    ring.rest("b", 5)
    assert ring.soonest() == "b"


def test_a_provider_without_keys_has_one_that_is_empty() -> None:
    assert Keyring([], Clock()).pick() == NO_KEY


def test_keys_are_told_apart_by_number() -> None:
    assert Keyring(["a", "b"], Clock()).number("b") == 2


def test_what_a_key_may_not_do_with_one_model_it_may_with_others() -> None:
    ring = Keyring(["a"], Clock())
    ring.rest("a", 300, model="m")
    assert ring.pick(model="m") is None
    assert ring.pick(model="other") == "a"
    ring.rest("a", 60)
    assert ring.pick(model="other") is None
