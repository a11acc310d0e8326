"""The mergeable histogram of durations: buckets and percentiles."""

from __future__ import annotations

import random

import pytest

from antiphon.store.usage.histogram import BOUNDS_MS, BUCKETS, find_bucket, percentile
from tests.support.tables import table


def count(durations: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for each in durations:
        counts[find_bucket(each)] += 1
    return counts


@table("number", range(BUCKETS - 1))
def test_a_bound_belongs_to_its_bucket_and_anything_above_to_the_next(number: int) -> None:
    bound = BOUNDS_MS[number]
    assert find_bucket(bound * 0.999) == number
    assert find_bucket(bound * 1.001) == number + 1


def test_durations_without_a_bucket_of_their_own_are_in_the_first_or_the_last() -> None:
    assert find_bucket(0) == find_bucket(-1) == 0
    assert find_bucket(1e9) == BUCKETS - 1
    assert percentile(count([1e9]), 0.5) == BOUNDS_MS[-1]


def test_without_durations_there_is_no_percentile() -> None:
    assert percentile([0] * BUCKETS, 0.5) is None


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_percentile_is_within_a_fifth_of_the_true_one(share: float) -> None:
    rng = random.Random(7)
    durations = sorted(rng.lognormvariate(6, 1) for _ in range(5000))
    estimate = percentile(count(durations), share)
    assert estimate == pytest.approx(durations[int(share * len(durations))], rel=0.2)


def test_merged_histograms_have_the_percentile_of_all_durations() -> None:
    fast, slow = [20.0] * 50, [3000.0] * 50
    merged = [a + b for a, b in zip(count(fast), count(slow), strict=True)]
    assert merged == count(fast + slow)
    assert percentile(merged, 0.95) == pytest.approx(3000, rel=0.2)


def test_the_middle_of_the_first_bucket_is_four_milliseconds() -> None:
    assert percentile(count([1.0, 1.0]), 0.5) == 4.0


@table("duration_ms", [8.1, 11.4, 100, 2999, 8000, 200_000])
def test_one_duration_is_its_own_percentile_within_a_fifth(duration_ms: float) -> None:
    assert percentile(count([duration_ms]), 0.95) == pytest.approx(duration_ms, rel=0.2)
