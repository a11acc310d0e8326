"""Files of the user: read as they are, shown with their change, and never overwritten unseen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from antiphon.cli.launcher.change import UserFile, name_file
from antiphon.errors import ConfigError


def test_a_file_that_another_program_has_changed_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    file = UserFile(path, "JSON")
    file.check_unchanged()
    path.write_text('{"by": "another"}')
    with pytest.raises(ConfigError, match="was changed by another program"):
        file.check_unchanged()


def test_the_difference_names_the_file_and_its_lines(tmp_path: Path) -> None:
    file = UserFile(tmp_path / "new.toml", "TOML")
    assert (file.existed, file.before) == (False, "")
    output = io.StringIO()
    file.print_diff(Console(file=output, width=200), "a = 1\n")
    assert "new.toml" in output.getvalue()
    assert "+a = 1" in output.getvalue()


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"x\.json: not valid JSON: it is not UTF-8"):
        UserFile(path, "JSON")
    with pytest.raises(ConfigError, match=r"x\.json: broken"), name_file(path):
        raise ConfigError("broken")
