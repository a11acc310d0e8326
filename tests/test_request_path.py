"""The path of one request stays short: files it runs through, switches between them, classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.request_path import MODELS, count_request_path

# The numbers of today, which may only fall. What is left on the path, and why:
# docs/adr/0110-the-path-of-a-request-is-measured-not-forced.md.
FILES = 59
SWITCHES = 300  # 290, and some more where the network is read in more pieces
CLASSES = 48
TO_KNOW = 23


@pytest.mark.parametrize("model", MODELS)
async def test_a_request_runs_through_few_files_and_classes(tmp_path: Path, model: str) -> None:
    path = await count_request_path(tmp_path, model)
    assert len(path.files) <= FILES, sorted(path.files)
    assert path.switches <= SWITCHES
    assert len(path.classes) <= CLASSES, sorted(path.classes)
    assert len(path.to_know) <= TO_KNOW, sorted(path.to_know)


async def test_the_counter_sees_the_whole_request_from_its_body_to_the_end_of_the_run(
    tmp_path: Path,
) -> None:
    path = await count_request_path(tmp_path)
    assert next(iter(path.files)).startswith("server/")
    assert path.most_unread == 1, "the chunks were not paced"
    assert path.files["framing/sse.py"] >= 3, "a chunk was not read alone"
    assert any(name.startswith("store/") for name in path.files), "the turn was not saved"
    assert any(name.startswith("runs/background.py:") for name in path.classes)
    assert "engine/run.py:Run" in path.to_know, "several modules import it"
    assert "engine/retry.py:RetryPolicy" in path.classes - path.to_know, "one module imports it"
    assert path.calls == sum(path.files.values()) > path.switches > len(path.files)
