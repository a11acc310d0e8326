"""Unit tests of the library's settings."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from antiphon.config import CapsuleConfig, Config, StoreConfig, TraceConfig
from antiphon.library.settings import resolve_config, write_log
from antiphon.stages.log import Entry


def test_everything_is_kept_in_memory_by_default() -> None:
    config = resolve_config(None, {})
    assert config.store.url == "memory://"
    assert not config.trace.enabled
    assert config.capsule.keys != resolve_config(None, {}).capsule.keys


def test_what_is_configured_is_kept(tmp_path: Path) -> None:
    config = Config(
        store=StoreConfig(url=f"sqlite:///{tmp_path}/turns.db"),
        trace=TraceConfig(path=str(tmp_path / "trace.db")),
        capsule=CapsuleConfig(keys=["a key that only tests use"]),
    )
    assert resolve_config(config, {}) == config


def test_the_path_of_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text('[models]\nmine = "${TARGET}"\n')
    assert resolve_config(str(path), {"TARGET": "echo/echo"}).models == {"mine": "echo/echo"}


def test_log_entries_go_to_the_standard_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="antiphon"):
        write_log(Entry("upstream.failed", "warning", {"provider": "echo"}))
        write_log(Entry("response.finished", "info", {}))
    assert [record.getMessage() for record in caplog.records] == ["upstream.failed provider=echo"]
