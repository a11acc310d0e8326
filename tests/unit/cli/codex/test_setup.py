"""`antiphon codex setup` and `undo`: what is shown, written, kept and restored."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from antiphon.cli.codex.setup import encode_catalog
from antiphon.cli.main import main
from tests.support.commands import Screen, on_terminal, own_settings, run, serving

OWN = '# mine\nmodel = "gpt-6-sol"\n\n[mcp_servers.x]\ncommand = "true"\n'
PORT = "[server]\nport = 1\n"  # no gateway listens there


@pytest.fixture
def codex(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Codex's home directory with a `config.toml` of the user."""
    monkeypatch.delenv("CODEX_HOME", raising=False)
    own_settings(home).write_text(PORT)
    directory = home / ".codex"
    directory.mkdir()
    (directory / "config.toml").write_text(OWN)
    return directory


def list_names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_setup_writes_the_settings_the_catalog_and_a_backup(codex: Path) -> None:
    assert main(["codex", "setup", "--yes"]) == 0
    settings = tomllib.loads((codex / "config.toml").read_text())
    assert settings["model_providers"]["antiphon"]["base_url"] == "http://127.0.0.1:1/v1"
    assert (settings["model_provider"], settings["model"]) == ("antiphon", "echo/echo")
    assert settings["mcp_servers"] == {"x": {"command": "true"}}
    catalog = json.loads(Path(settings["model_catalog_json"]).read_text())
    assert catalog["models"][0]["slug"] == "echo/echo"
    assert (codex / "config.toml.before-antiphon").read_text() == OWN


def test_undo_restores_the_file_and_removes_the_others(codex: Path) -> None:
    main(["codex", "setup", "--yes"])
    assert main(["codex", "undo", "--yes"]) == 0
    assert (codex / "config.toml").read_text() == OWN
    assert list_names(codex) == {"config.toml"}


def test_undo_keeps_later_additions_and_the_backup(
    codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["codex", "setup", "--yes"])
    with (codex / "config.toml").open("a") as file:
        file.write("[tui]\ntheme = 'dark'\n")
    assert main(["codex", "undo", "--yes"]) == 0
    assert (codex / "config.toml").read_text() == f"{OWN}[tui]\ntheme = 'dark'\n"
    assert list_names(codex) == {"config.toml", "config.toml.before-antiphon"}
    assert (
        "config.toml.before-antiphon is the file as it was before setup" in capsys.readouterr().out
    )


def test_undo_deletes_a_file_that_setup_created(codex: Path) -> None:
    (codex / "config.toml").unlink()
    assert main(["codex", "setup", "--yes"]) == 0
    assert list_names(codex) == {"config.toml", "antiphon-catalog.json"}
    assert main(["codex", "undo", "--yes"]) == 0
    assert list_names(codex) == set()


def test_codex_home_variable_selects_the_directory(
    codex: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    assert main(["codex", "setup", "--yes"]) == 0
    assert list_names(tmp_path / "elsewhere") == {"config.toml", "antiphon-catalog.json"}
    assert (codex / "config.toml").read_text() == OWN


def test_a_second_setup_changes_nothing_and_asks_nothing(
    codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["codex", "setup", "--yes"])
    before = (codex / "config.toml").read_bytes()
    capsys.readouterr()
    assert main(["codex", "setup"]) == 0
    shown = capsys.readouterr().out
    assert shown == f"{codex / 'config.toml'} is up to date; nothing to change.\n"
    assert (codex / "config.toml").read_bytes() == before


def test_a_later_setup_keeps_the_chosen_model_and_the_first_backup(codex: Path) -> None:
    main(["codex", "setup", "--yes", "--model", "echo/reasoner"])
    own_settings(codex.parent).write_text(PORT.replace("1", "2"))
    assert main(["codex", "setup", "--yes"]) == 0
    settings = tomllib.loads((codex / "config.toml").read_text())
    assert settings["model"] == "echo/reasoner"
    assert settings["model_providers"]["antiphon"]["base_url"] == "http://127.0.0.1:2/v1"
    assert (codex / "config.toml.before-antiphon").read_text() == OWN


@pytest.mark.parametrize(
    "line",
    [
        "--config team.toml --model echo/cut setup --yes",
        "setup --config team.toml --model echo/cut --yes",
    ],
)
def test_options_are_read_before_and_after_the_word_setup(line: str, codex: Path) -> None:
    (codex.parent / "team.toml").write_text(PORT.replace("1", "3"))
    assert main(["codex", *line.split()]) == 0
    settings = tomllib.loads((codex / "config.toml").read_text())
    assert settings["model"] == "echo/cut"
    assert settings["model_providers"]["antiphon"]["base_url"] == "http://127.0.0.1:3/v1"


def test_undo_without_setup_changes_nothing(
    codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codex", "undo"]) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert list_names(codex) == {"config.toml"}


def test_the_change_is_shown_and_answering_no_writes_nothing(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text(PORT)
    done = run(tmp_path, "codex", "setup", given=b"n\n")
    assert done.returncode == 1
    assert b"Codex would use the built-in echo model, which only repeats" in done.stderr
    lines = done.stdout.decode().splitlines()
    assert '+model_provider = "antiphon"' in lines
    assert any(line.startswith("+ antiphon-catalog.json: ") for line in lines)
    assert "Nothing was written." in lines
    assert not (tmp_path / ".codex").exists()


def test_a_provider_of_this_shell_that_the_running_gateway_lacks_is_named(tmp_path: Path) -> None:
    with serving(tmp_path) as url:
        own_settings(tmp_path).write_text(f"[server]\nport = {urlsplit(url).port}\n")
        done = run(tmp_path, "codex", "setup", "--yes", DEEPSEEK_API_KEY="k")
    expected = "the running gateway does not have deepseek (DEEPSEEK_API_KEY). Restart it in this"
    assert expected in done.stderr.decode()


def test_with_a_provider_setup_warns_of_nothing(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text(PORT)
    done = run(tmp_path, "codex", "setup", "--yes", DEEPSEEK_API_KEY="k")
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_models_of_a_server_of_ones_own_are_known_only_to_a_running_gateway(
    tmp_path: Path,
) -> None:
    provider = '[providers.lab]\nkind = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    own_settings(tmp_path).write_text(PORT + provider)
    done = run(tmp_path, "codex", "setup", "--yes", "--model", "lab/m")
    assert (done.returncode, done.stderr) == (0, b"")
    done = run(tmp_path, "codex", "setup", "--yes")
    assert b"no gateway is running, so the models of lab (file) are not known" in done.stderr


def test_a_missing_answer_writes_nothing(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text(PORT)
    assert run(tmp_path, "codex", "setup").returncode == 2
    assert not (tmp_path / ".codex").exists()


def test_a_terminal_gets_a_coloured_diff_and_a_question(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text(PORT)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(OWN)
    with on_terminal(tmp_path, "codex", "setup") as terminal:
        terminal.wait_for("Write this change?")
        terminal.type("y")
        assert terminal.wait() == 0
    assert "\x1b[31m-model" in terminal.shown
    assert '\x1b[32m+model = "echo/echo"' in terminal.shown
    assert "antiphon codex undo" in terminal.plain


@pytest.mark.parametrize("command", ["setup", "undo"])
def test_a_change_by_codex_while_the_question_waits_is_not_overwritten(
    command: str, tmp_path: Path
) -> None:
    own_settings(tmp_path).write_text(PORT)
    config = tmp_path / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text(OWN)
    if command == "undo":
        run(tmp_path, "codex", "setup", "--yes")
    with on_terminal(tmp_path, "codex", command) as terminal:
        terminal.wait_for("Write this change?")
        changed = config.read_text() + '[projects."/x"]\ntrust_level = "trusted"\n'
        config.write_text(changed)
        terminal.type("y")
        assert terminal.wait() == 2
    assert "was changed by another program" in terminal.plain
    assert config.read_text() == changed


def test_a_private_file_and_its_backup_stay_private(codex: Path) -> None:
    (codex / "config.toml").chmod(0o600)
    assert main(["codex", "setup", "--yes"]) == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in codex.iterdir()}
    assert modes == dict.fromkeys(
        ("config.toml", "config.toml.before-antiphon", "antiphon-catalog.json"), 0o600
    )


def test_env_key_is_set_if_the_gateway_requires_a_key(codex: Path, screen: Screen) -> None:
    own_settings(codex.parent).write_text(f'{PORT}api_keys = {{ me = "k-me" }}\n')
    assert screen.run("codex", "setup", "--yes") == 0
    text = (codex / "config.toml").read_text()
    assert 'env_key = "ANTIPHON_API_KEY"' in text
    assert "k-me" not in text
    assert "$ANTIPHON_API_KEY" in screen.plain


def test_the_catalog_is_that_of_the_running_gateway(tmp_path: Path) -> None:
    (tmp_path / "serving.toml").write_text('[models]\nlive = "echo/echo"\n')
    with serving(tmp_path, "--config", "serving.toml") as base_url:
        port = base_url.rpartition(":")[2].removesuffix("/v1")
        own_settings(tmp_path).write_text(f"[server]\nport = {port}\n")
        assert run(tmp_path, "codex", "setup", "--yes").returncode == 0
    assert '"live"' in (tmp_path / ".codex/antiphon-catalog.json").read_text()


def test_a_symbolic_link_and_the_mode_of_its_file_are_kept(codex: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(OWN)
    real.chmod(0o640)
    (codex / "config.toml").unlink()
    (codex / "config.toml").symlink_to(real)
    assert main(["codex", "setup", "--yes"]) == 0
    assert (codex / "config.toml").is_symlink()
    assert "antiphon" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    assert main(["codex", "undo", "--yes"]) == 0
    assert real.read_text() == OWN


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (b"model = \n", "not valid TOML"),
        (b'model = "\xff"\n', "not UTF-8"),
        (b"[model_providers.antiphon]\nname = 'mine'\n", "already defines a model provider"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_unchanged(
    own: bytes, message: str, codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (codex / "config.toml").write_bytes(own)
    assert main(["codex", "setup", "--yes"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"antiphon: {codex / 'config.toml'}: ")
    assert message in error
    assert (codex / "config.toml").read_bytes() == own
    assert list_names(codex) == {"config.toml"}


def test_port_0_cannot_be_set_up(codex: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_settings(codex.parent).write_text("[server]\nport = 0\n")
    assert main(["codex", "setup", "--yes"]) == 2
    assert "server.port is 0" in capsys.readouterr().err


def test_a_catalog_that_cannot_be_written_is_named(
    codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (codex / "antiphon-catalog.json").mkdir()
    assert main(["codex", "setup", "--yes"]) == 2
    assert "antiphon-catalog.json cannot be" in capsys.readouterr().err
    assert (codex / "config.toml").read_text() == OWN


def test_the_catalog_file_has_only_the_models_of_codex() -> None:
    models = {"models": [{"slug": "m"}], "data": [], "antiphon": {"default_model": "m"}}
    assert json.loads(encode_catalog(models)) == {"models": [{"slug": "m"}]}
