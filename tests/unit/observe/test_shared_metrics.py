"""Metrics that several processes add up: the directory of their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.observe.metrics import Metrics
from antiphon.observe.shared_metrics import VARIABLE, forget_process, shared_metrics


@pytest.fixture(autouse=True)
def _without_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_figures_are_kept_in_a_directory_that_is_removed_in_the_end() -> None:
    with shared_metrics(os.environ):
        directory = Path(os.environ[VARIABLE])
        metrics = Metrics()
        metrics.count_rejection("invalid_api_key")
        assert metrics.is_shared
        assert list(directory.glob(f"counter_{os.getpid()}.db"))
        assert b'antiphon_rejected_requests_total{code="invalid_api_key"} 1.0' in metrics.render()
    assert VARIABLE not in os.environ
    assert not directory.exists()
    assert not Metrics().is_shared


def test_what_an_ended_process_has_counted_stays_and_its_gauges_go() -> None:
    with shared_metrics(os.environ):
        metrics = Metrics()
        metrics.count_rejection("invalid_api_key")
        directory = Path(os.environ[VARIABLE])
        assert list(directory.glob("gauge_livesum_*.db"))
        forget_process(os.getpid())
        assert not list(directory.glob("gauge_livesum_*.db"))
        assert b"antiphon_rejected_requests_total" in metrics.render()


def test_a_directory_of_the_operator_is_used_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with shared_metrics(os.environ):
        assert os.environ[VARIABLE] == str(tmp_path)
    assert os.environ[VARIABLE] == str(tmp_path)
    assert tmp_path.exists()
