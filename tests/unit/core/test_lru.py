"""A shelf: what is made once, and what has to make room."""

from __future__ import annotations

from antiphon.core.lru import LRUCache


def shelf(most: int) -> tuple[LRUCache[str, str], list[str]]:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    return LRUCache(make, len, most), made


def test_what_is_kept_is_made_once() -> None:
    kept, made = shelf(10)
    assert (kept["ab"], kept["ab"]) == ("AB", "AB")
    assert made == ["ab"]


def test_what_was_used_longest_ago_makes_room() -> None:
    kept, made = shelf(6)
    for key in ("aa", "bb", "cc", "aa", "dd", "aa", "bb"):
        assert kept[key] == key.upper()
    assert made == ["aa", "bb", "cc", "dd", "bb"]
    assert len(kept) == 3


def test_what_is_too_large_is_made_again_and_drives_nothing_out() -> None:
    kept, made = shelf(3)
    assert kept["a"] == "A"
    assert (kept["long"], kept["long"]) == ("LONG", "LONG")
    assert kept["a"] == "A"
    assert made == ["a", "long", "long"]
    assert len(kept) == 1
