"""Mergeable histogram of durations: counts in buckets whose bounds grow by the root of two.

Two histograms are merged by adding their counts, so that hours, models and gateways can be summed.
A percentile is exact to half the width of its bucket: it differs by at most a fifth from the true
value, or by 4 ms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

BUCKETS = 32
_FIRST_MS = 8.0
_STEPS_PER_DOUBLING = 2
BOUNDS_MS = tuple(_FIRST_MS * 2 ** (number / _STEPS_PER_DOUBLING) for number in range(BUCKETS - 1))
"""The upper bound of each bucket but the last, which has none: 8 ms to 4.4 minutes."""


def find_bucket(duration_ms: float) -> int:
    """Return the number of the bucket that counts a duration."""
    if duration_ms <= _FIRST_MS:
        return 0
    steps = math.ceil(math.log2(duration_ms / _FIRST_MS) * _STEPS_PER_DOUBLING)
    return min(steps, BUCKETS - 1)


def percentile(counts: Sequence[int], share: float) -> float | None:
    """Return the duration in ms that this share of all durations does not exceed, as the middle of
    its bucket; None without any durations."""
    total = sum(counts)
    if not total:
        return None
    rank = share * total
    below = 0
    for number, count in enumerate(counts):
        below += count
        if count and below >= rank:
            return _middle(number)
    raise AssertionError("the share is at most 1")


def _middle(number: int) -> float:
    """Return the geometric middle of a bucket; of the last one, its lower bound."""
    if number == 0:
        return _FIRST_MS / 2
    lower = BOUNDS_MS[number - 1]
    return lower if number == BUCKETS - 1 else math.sqrt(lower * BOUNDS_MS[number])
