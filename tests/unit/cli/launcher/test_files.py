"""Atomic writes: a file is replaced as a whole, or stays as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.cli.launcher.files import read_file, replace_file
from antiphon.errors import ConfigError


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_is_private_and_its_directory_is_created(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.toml"
    replace_file(path, b"x = 1\n")
    assert (path.read_bytes(), mode(path)) == (b"x = 1\n", 0o600)
    assert list(path.parent.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert (real.read_bytes(), mode(real)) == (b"new", 0o640)


def test_a_write_that_fails_leaves_the_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"old")

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match=r"a\.toml cannot be written: No space left on device"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_read_as_none(tmp_path: Path) -> None:
    assert read_file(tmp_path / "none") is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path} cannot be read: Is a directory"):
        read_file(tmp_path)
