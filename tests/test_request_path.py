"""The path of one streamed request stays short: files it runs through, switches between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.request_path import MODELS, count_request_path

MAX_FILES = 60
MAX_SWITCHES = 300


@pytest.mark.parametrize("model", MODELS)
async def test_a_streamed_request_runs_through_few_files(tmp_path: Path, model: str) -> None:
    path = await count_request_path(tmp_path, model)
    assert len(path.files) <= MAX_FILES, sorted(path.files)
    assert path.switches <= MAX_SWITCHES
