"""The command line: help, version, exit statuses, and errors as one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import antiphon
from antiphon.cli.main import main
from tests.support.commands import environment

COMMANDS = "serve init check models codex replay trace usage store completion version".split()


def read_output(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run a command that prints and exits with status 0."""
    with pytest.raises(SystemExit) as leaving:
        main(args)
    assert leaving.value.code == 0
    return capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_output(capsys, "--version") == f"antiphon {antiphon.__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = read_output(capsys, "--help")
    assert [name for name in COMMANDS if not re.search(rf"\n    {name}\s", shown)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = read_output(capsys, command, "--help")
    assert f"examples:\n  antiphon {command}" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_an_unknown_command_is_rejected_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["serv"])
    assert leaving.value.code == 2
    assert "'serve'" in capsys.readouterr().err


def test_an_invalid_configuration_is_one_line_and_status_2(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text("[server]\nprot = 1\n")
    assert main(["models"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    expected = f"antiphon: {home / 'antiphon.toml'}:2: server.prot: unknown key; did you mean"
    assert captured.err == f"{expected} 'port'?\n"


@pytest.mark.usefixtures("home")
def test_an_interrupted_command_has_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(documents: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("antiphon.cli.models.write_json_lines", interrupt)
    assert main(["models"]) == 130


def test_a_missing_config_file_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--config", "no.toml"]) == 2
    assert capsys.readouterr().err.startswith("antiphon: no.toml: cannot be read:")


def test_garbage_is_collected_after_the_start_but_not_searched_for_in_what_was_imported(
    tmp_path: Path,
) -> None:
    code = (
        "import gc, sys\n"
        "from antiphon.cli.main import main\n"
        "sys.argv[1:] = ['version']\n"
        "main()\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 10_000)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"True True"
