"""Masks of a client's frames: unmasked ones are found, wherever the bytes are divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.server.websocket.masking import FrameHeads


def make_frame(size: int, *, is_masked: bool) -> bytes:
    mask = 0x80 if is_masked else 0
    if size < 126:
        head = bytes([0x82, mask | size])
    elif size < 2**16:
        head = bytes([0x82, mask | 126]) + size.to_bytes(2)
    else:
        head = bytes([0x82, mask | 127]) + size.to_bytes(8)
    return head + (b"\1\2\3\4" if is_masked else b"") + b"\0" * size


def are_masked(data: bytes, step: int) -> bool:
    heads = FrameHeads()
    return all(heads.are_masked(data[at : at + step]) for at in range(0, len(data), step))


SIZES = st.sampled_from([0, 1, 5, 125, 126, 127, 300, 65_535, 65_536, 70_000])


@given(st.lists(SIZES, max_size=5), SIZES, st.sampled_from([1, 2, 3, 7, 1000, 10**6]))
def test_an_unmasked_frame_is_found_among_masked_ones(
    before: list[int], size: int, step: int
) -> None:
    masked = b"".join(make_frame(each, is_masked=True) for each in before)
    assert are_masked(masked, step)
    assert not are_masked(masked + make_frame(size, is_masked=False), step)


@pytest.mark.parametrize("step", [1, 10])
def test_masked_frames_may_follow_each_other_without_payload(step: int) -> None:
    assert are_masked(make_frame(0, is_masked=True) * 20, step)
