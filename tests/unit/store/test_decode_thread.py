"""Decoding of histories: small ones at once, large ones in a thread."""

from __future__ import annotations

import threading

import pytest

from antiphon.store.decode_thread import DecodeThread


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "in_thread"), [(1000, False), (1_000_000, True)])
async def test_only_a_large_history_is_decoded_in_a_thread(size: int, in_thread: bool) -> None:
    decoding = DecodeThread()
    used = await decoding.run(threading.current_thread, size)
    decoding.close()
    assert (used is not threading.current_thread()) is in_thread
