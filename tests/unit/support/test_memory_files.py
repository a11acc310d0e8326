"""Temporary files in memory: where they can be."""

from __future__ import annotations

from pathlib import Path

from tests.support.memory_files import find_memory_directory


def test_a_directory_with_enough_space_is_used(tmp_path: Path) -> None:
    assert find_memory_directory(tmp_path, needed_bytes=1) == tmp_path


def test_a_small_or_missing_directory_is_not_used(tmp_path: Path) -> None:
    assert find_memory_directory(tmp_path, needed_bytes=1 << 60) is None
    assert find_memory_directory(tmp_path / "missing", needed_bytes=1) is None
