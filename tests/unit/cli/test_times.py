"""Times on the command line: ages and dates."""

from __future__ import annotations

import argparse
import time

import pytest

from antiphon.cli.times import parse_time
from tests.support.tables import table


@pytest.mark.parametrize(
    ("text", "age_s"), [("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_an_age_is_counted_from_now(text: str, age_s: int) -> None:
    assert time.time() - parse_time(text) == pytest.approx(age_s, abs=5)


def test_a_date_is_a_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert parse_time("2026-11-16") == 1_794_787_200
    assert parse_time("2026-11-16T01:00") == 1_794_787_200 + 3600


@table("text", ["", "7", "d", "7y", "yesterday", "2026-13-01", "9999999d"])
def test_anything_else_is_explained(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not an age"):
        parse_time(text)
