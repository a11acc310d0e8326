"""LRU cache: values made once, and eviction by the size of the keys."""

from __future__ import annotations

from antiphon.core.lru import LRUCache


def make_cache(max_size: int) -> tuple[LRUCache[str, str], list[str]]:
    calls: list[str] = []

    def make(key: str) -> str:
        calls.append(key)
        return key.upper()

    return LRUCache(make, len, max_size), calls


def test_a_cached_value_is_made_once() -> None:
    cache, calls = make_cache(10)
    assert (cache["ab"], cache["ab"]) == ("AB", "AB")
    assert calls == ["ab"]


def test_the_least_recently_used_value_is_evicted() -> None:
    cache, calls = make_cache(6)
    for key in ("aa", "bb", "cc", "aa", "dd", "aa", "bb"):
        assert cache[key] == key.upper()
    assert calls == ["aa", "bb", "cc", "dd", "bb"]
    assert len(cache) == 3


def test_a_key_above_the_bound_is_not_cached_and_evicts_nothing() -> None:
    cache, calls = make_cache(3)
    assert cache["a"] == "A"
    assert (cache["long"], cache["long"]) == ("LONG", "LONG")
    assert cache["a"] == "A"
    assert calls == ["a", "long", "long"]
    assert len(cache) == 1


def test_a_value_that_another_thread_made_meanwhile_is_counted_once() -> None:
    def make(key: str) -> list[str]:
        if len(calls := [*made, key]) == 1:
            made.append(key)
            cache[key]  # as another thread would, while this one makes the value
        return calls

    made: list[str] = []
    cache = LRUCache(make, len, 3)
    assert cache["aa"] == ["aa"]
    assert len(cache) == 1
    assert cache["b"] is cache["b"]  # there is room for it beside the other
    assert len(cache) == 2
