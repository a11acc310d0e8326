"""The command line itself: help, versions, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import antiphon
from antiphon.cli.main import main

COMMANDS = ["serve", "init", "check", "models", "codex", "replay", "trace"]


def told(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What the parser prints before it exits well."""
    with pytest.raises(SystemExit) as leaving:
        main(args)
    assert leaving.value.code == 0
    return capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--version") == f"antiphon {antiphon.__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, "--help")
    assert [name for name in COMMANDS if f"\n    {name} " not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, command, "--help")
    assert f"examples:\n  antiphon {command}" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_an_unknown_command_is_a_mistake_that_names_the_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["serv"])
    assert leaving.value.code == 2
    assert "'serve'" in capsys.readouterr().err


def test_a_mistake_in_the_configuration_is_one_line_and_status_2(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text("[server]\nprot = 1\n")
    assert main(["models"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    expected = f"antiphon: {home / 'antiphon.toml'}:2: server.prot: unknown key; did you mean"
    assert captured.err == f"{expected} 'port'?\n"


def test_a_configuration_that_is_asked_for_and_missing_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "--config", "no.toml"]) == 2
    assert capsys.readouterr().err.startswith("antiphon: no.toml: cannot be read:")
