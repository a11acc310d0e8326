"""`antiphon store`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.main import main
from antiphon.store.sqlite.schema import SCHEMA

NEWEST = len(SCHEMA.migrations)


def test_a_store_is_migrated_copied_and_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (f"sqlite:///{tmp_path}/{name}.db" for name in "ab")
    assert main(["store", "status", first]) == 1  # it must be migrated
    state = json.loads(capsys.readouterr().out)
    assert (state["version"], state["newest_version"], state["responses"]) == (0, NEWEST, 0)
    assert main(["store", "migrate", first]) == 0
    assert main(["store", "migrate", first]) == 0
    assert main(["store", "copy", first, second]) == 0
    assert main(["store", "prune", second]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"The schema was migrated from version 0 to {NEWEST}.",
        f"The schema is up to date (version {NEWEST}).",
        f"0 rows were copied to {second}.",
        "0 expired responses, event logs and conversations were deleted.",
    ]
    assert main(["store", "status", second]) == 0


def test_the_configured_store_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "antiphon.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/mine.db"\n')
    assert main(["store", "migrate", "--config", str(config)]) == 0
    assert (tmp_path / "mine.db").exists()
    assert main(["store", "status", "memory://"]) == 2
    assert "'memory://' is not a store that is kept" in capsys.readouterr().err
