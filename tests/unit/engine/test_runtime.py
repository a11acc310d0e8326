"""Runtime: ids and clocks; and what has to be released."""

from __future__ import annotations

import time
from functools import partial

import pytest

from antiphon.engine.runtime import RandomIds, Releases, Runtime


def test_an_id_has_its_prefix_the_time_and_96_random_bits() -> None:
    new_id = RandomIds(lambda size: bytes(range(256)) * (size // 256), lambda: 0x6A5B4C3D)
    assert new_id("resp") == f"resp_6a5b4c3d{bytes(range(12)).hex()}"
    assert new_id("msg") == f"msg_6a5b4c3d{bytes(range(12, 24)).hex()}"


def test_later_ids_are_sorted_behind_earlier_ones() -> None:
    clock = iter(range(0x6A000000, 0x6A000100))
    new_id = RandomIds(lambda size: b"\xff" * 12 + b"\x00" * (size - 12), lambda: next(clock))
    first = [new_id("x") for _ in range(256)]
    assert new_id("x") > max(first)


def test_the_time_of_an_id_always_has_eight_digits() -> None:
    for now in (1, 2**32 + 1):
        new_id = RandomIds(bytes, partial(int, now))
        assert new_id("x") == "x_00000001" + "0" * 24


def test_random_bytes_are_drawn_for_many_ids_at_once() -> None:
    sizes: list[int] = []

    def random_bytes(size: int) -> bytes:
        sizes.append(size)
        return len(sizes).to_bytes(1) * size

    new_id = RandomIds(random_bytes)
    first = [new_id("x") for _ in range(256)]
    assert len(sizes) == 1
    assert new_id("x") not in first
    assert sizes == [3072, 3072]


def test_ids_of_the_default_runtime_differ() -> None:
    runtime = Runtime()
    assert len({runtime.new_id("resp") for _ in range(1000)}) == 1000


def test_clocks_count_seconds_since_the_epoch() -> None:
    runtime, before = Runtime(), int(time.time())
    assert before <= runtime.now() <= runtime.epoch_s() <= time.time()


def test_what_was_added_is_released_once_the_last_one_first() -> None:
    released: list[str] = []
    releases = Releases()
    releases.append(partial(released.append, "first"))
    releases.append((released.append, "second"))
    releases.append(partial(released.append, "last"))
    assert released == []
    releases.close()
    releases.close()
    assert released == ["last", "second", "first"]


def test_an_error_in_a_release_keeps_no_other_from_being_made() -> None:
    released: list[str] = []
    releases = Releases()
    releases.append(partial(released.append, "first"))
    releases.append(partial(int, "second"))
    releases.append(partial(released.append, "third"))
    releases.append(partial(int, "last"))
    with pytest.raises(ValueError, match="second") as caught:
        releases.close()
    assert "last" in str(caught.value.__context__)
    assert released == ["third", "first"]
