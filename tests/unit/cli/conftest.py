"""Isolation of commands: an empty directory as home, and an environment without settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.providers.registry import SPECS
from tests.support.commands import Screen

_FOREIGN = ("ANTIPHON_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "FORCE_COLOR", "NO_COLOR")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    keys = [name for spec in SPECS.values() for name in spec.api_key_env]
    for name in {*_FOREIGN, *keys} & {*os.environ}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def screen(home: Path, monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    return Screen()
