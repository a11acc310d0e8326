"""The command line: help, version, exit statuses, and errors as one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import antiphon
from antiphon.cli.main import main
from tests.support.commands import environment, on_terminal, serving
from tests.support.tables import table

COMMANDS = (
    "serve init check reload models codex replay trace usage store completion version".split()
)
DATA_COMMANDS = sorted({*COMMANDS} - {"init", "codex", "claude", "completion"})


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


@table("command", COMMANDS)
def test_help_of_a_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = read_output(capsys, command, "--help")
    assert f"examples:\n  antiphon {command}" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_help_of_a_part_of_a_command_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [("trace", part) for part in "list tail show replay resend report".split()]
    parts += [("store", part) for part in "status migrate prune copy".split()]
    parts += [(agent, part) for agent in ("codex", "claude") for part in ("setup", "undo")]
    wide = {
        words: line
        for words in parts
        for line in read_output(capsys, *words, "--help").splitlines()
        if len(line) > 100
    }
    assert wide == {}


def test_help_groups_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    shown = read_output(capsys, "--help")
    titles = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert titles == ["run", "look", "configure", "other", "options", "examples"]


@table("words", [[], ["serve"], ["trace", "list"]])
def test_the_command_help_shows_the_help_of_a_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_output(capsys, "help", *words) == read_output(capsys, *words, "--help")


def test_without_a_command_the_commands_and_the_gateway_are_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(home) as url:
        (home / "antiphon.toml").write_text(f"[server]\nport = {urlsplit(url).port}\n")
        assert main([]) == 0
        page = url.replace("/v1", "/ui")
        shown = capsys.readouterr().out
        assert f"A gateway runs at {url}; its page is {page}." in shown
        assert "    serve       run the gateway\n" in shown
    assert main([]) == 0
    assert f"No gateway runs at {url}. Start one: antiphon serve" in capsys.readouterr().out


@table(
    ("given", "usage", "message"),
    [
        ("srve", "antiphon COMMAND", "there is no command 'srve'; did you mean 'serve'?"),
        ("trace", "antiphon trace", "a command is missing; `antiphon help trace` lists them"),
        ("doctor", "antiphon COMMAND", "there is no command 'doctor'; known: serve, codex,"),
        ("trace lst", "antiphon trace", "there is no command 'lst'; did you mean 'list'?"),
        (
            "trace list --modle x",
            "antiphon trace list",
            "unknown argument --modle; did you mean --m",
        ),
        ("models --frobnicate=1", "antiphon models", "--frobnicate (antiphon help models)"),
        ("serve --port x", "antiphon serve", "argument --port: must be a whole number, not 'x'"),
        ("completion zhs", "antiphon completion", "argument shell: 'zhs' is unknown; did you me"),
    ],
)
def test_an_error_shows_the_usage_of_the_command_and_what_was_meant(
    given: str, usage: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(given.split())
    assert leaving.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"usage: {usage}")
    assert message in shown


@table("command", DATA_COMMANDS)
def test_every_command_that_prints_data_can_print_json(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--json" in read_output(capsys, command, "--help")


@pytest.mark.parametrize("command", ["models", "check", "version"])
def test_json_is_written_to_a_terminal_if_it_is_requested(command: str, home: Path) -> None:
    with on_terminal(home, *command.split(), "--json") as terminal:
        assert terminal.wait() == 0
    for line in terminal.plain.splitlines():
        assert isinstance(json.loads(line), dict)


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
