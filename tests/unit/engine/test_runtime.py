"""Runtime: ids and clocks."""

from __future__ import annotations

import time

from antiphon.engine.runtime import RandomIds, Runtime


def test_an_id_has_its_prefix_and_128_random_bits() -> None:
    new_id = RandomIds(lambda size: bytes(range(256)) * (size // 256))
    assert new_id("resp") == f"resp_{bytes(range(16)).hex()}"
    assert new_id("msg") == f"msg_{bytes(range(16, 32)).hex()}"


def test_random_bytes_are_drawn_for_many_ids_at_once() -> None:
    sizes: list[int] = []

    def random_bytes(size: int) -> bytes:
        sizes.append(size)
        return len(sizes).to_bytes(1) * size

    new_id = RandomIds(random_bytes)
    first = [new_id("x") for _ in range(256)]
    assert len(sizes) == 1
    assert new_id("x") not in first
    assert sizes == [4096, 4096]


def test_ids_of_the_default_runtime_differ() -> None:
    runtime = Runtime()
    assert len({runtime.new_id("resp") for _ in range(1000)}) == 1000


def test_clocks_count_seconds_and_milliseconds_since_the_epoch() -> None:
    runtime, before = Runtime(), int(time.time())
    assert before <= runtime.now() <= runtime.now_ms() // 1000 <= int(time.time())
