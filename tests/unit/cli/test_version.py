"""`antiphon version`: the same facts as lines on a terminal and as JSON in a pipe."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

import antiphon
from antiphon.cli.main import main
from tests.support.commands import Screen


@pytest.mark.usefixtures("home")
def test_a_pipe_gets_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["version"]) == 0
    facts = json.loads(capsysbinary.readouterr().out)
    assert facts["antiphon"] == antiphon.__version__
    assert facts["python"].endswith(f" {platform.python_version()}")
    assert Path(facts["location"], "cli", "version.py").is_file()
    assert list(facts) == ["antiphon", "python", "platform", "location"]


def test_a_terminal_gets_one_line_for_each_fact(screen: Screen) -> None:
    assert screen.run("version") == 0
    rows = screen.rows()
    assert rows[0] == ["antiphon", antiphon.__version__]
    assert [row[0] for row in rows[:3]] == ["antiphon", "python", "platform"]
