"""The directory of the metrics of workers: one for all of them, and gone with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.server.workers.shared_metrics import VARIABLE, share_metrics


def test_workers_find_a_directory_that_is_removed_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with share_metrics():
        directory = Path(os.environ[VARIABLE])
        assert directory.is_dir()
    assert VARIABLE not in os.environ
    assert not directory.exists()


def test_a_directory_that_the_operator_has_named_is_used_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with share_metrics():
        assert os.environ[VARIABLE] == str(tmp_path)
    assert tmp_path.is_dir()


def test_the_gauges_of_a_worker_end_with_it_and_its_counters_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for name in ("gauge_livesum_7.db", "gauge_livesum_77.db", "counter_7.db", "histogram_7.db"):
        (tmp_path / name).touch()
    with share_metrics() as forget:
        forget(7)
        forget(8)
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == ["counter_7.db", "gauge_livesum_77.db", "histogram_7.db"]
