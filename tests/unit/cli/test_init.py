"""`antiphon init`, with the answers read from a pipe."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from antiphon.config import Config, load_config


class InitSession:
    """Runs `antiphon init` with given answers; holds the output and the written file."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self.home = home
        self.file = home / ".config" / "antiphon" / "antiphon.toml"
        self.shown = ""
        self.error_output = ""
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def init(self, *answers: str, args: tuple[str, ...] = ()) -> int:
        given = io.StringIO("".join(f"{answer}\n" for answer in answers))
        self._monkeypatch.setattr(sys, "stdin", given)
        status = main(["init", *args])
        captured = self._capsys.readouterr()
        self.shown, self.error_output = captured.out, captured.err
        return status

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)

    def config(self, path: Path | None = None) -> Config:
        return load_config(path or self.file, os.environ)


@pytest.fixture
def session(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> InitSession:
    return InitSession(home, monkeypatch, capsys)


def test_the_defaults_enable_providers_whose_keys_are_in_the_environment(
    session: InitSession,
) -> None:
    session.set(DEEPSEEK_API_KEY="sk-in-the-environment")
    assert session.init(*[""] * 10) == 0
    config = session.config()
    assert list(config.providers) == ["deepseek"]
    assert config.providers["deepseek"].api_keys == ["sk-in-the-environment"]
    assert config.default_provider == "deepseek"
    assert config.models["*"].startswith("deepseek/")
    assert config.server.port == 8484
    assert "${DEEPSEEK_API_KEY}" in session.file.read_text()
    assert "sk-in-the-environment" not in session.file.read_text() + session.shown


def test_without_any_key_the_file_names_no_provider_so_that_a_key_is_enough_later(
    session: InitSession,
) -> None:
    assert session.init(*[""] * 5) == 0
    config = session.config()
    assert (config.providers, config.default_provider, config.models) == ({}, "", {})
    assert "API keys in the environment enable their providers" in session.file.read_text()


def test_the_file_is_shown_before_it_is_written_and_is_private(session: InitSession) -> None:
    assert session.init(*[""] * 5) == 0
    assert session.shown.index(session.file.read_text()) < session.shown.index(
        f"Write {session.file}?"
    )
    assert stat.S_IMODE(session.file.stat().st_mode) == 0o600
    assert "antiphon check --live" in session.shown
    assert "antiphon serve" in session.shown


def test_the_file_is_the_one_that_every_command_reads(session: InitSession) -> None:
    session.set(XDG_CONFIG_HOME=str(session.home / "conf"))
    assert session.init(*[""] * 5) == 0
    assert session.config(session.home / "conf" / "antiphon" / "antiphon.toml").server.port == 8484
    assert "  antiphon serve  " in session.shown
    assert "  antiphon codex  " in session.shown


def test_the_file_can_be_in_this_directory_which_codex_must_be_told(session: InitSession) -> None:
    assert session.init("2", *[""] * 4) == 0
    assert session.config(session.home / "antiphon.toml").server.port == 8484
    assert not session.file.exists()
    assert "  antiphon serve  " in session.shown
    assert "  antiphon codex --config antiphon.toml  " in session.shown


def test_an_entered_key_is_written_and_never_shown(session: InitSession) -> None:
    assert session.init("1", "deepseek", "", "n", "typed-key-123", "", "", "y") == 0
    assert session.config().providers["deepseek"].api_keys == ["typed-key-123"]
    assert "typed-key-123" not in session.shown + session.error_output


def test_a_key_can_be_another_environment_variable(session: InitSession) -> None:
    session.set(TEAM_KEY="of-the-team")
    assert session.init("1", "deepseek", "", "n", "${TEAM_KEY}", "", "", "y") == 0
    assert "${TEAM_KEY}" in session.file.read_text()
    assert session.config().providers["deepseek"].api_keys == ["of-the-team"]


def test_a_self_hosted_server_gets_a_name_a_url_and_a_model(session: InitSession) -> None:
    answers = ("chat", "lab", "http://127.0.0.1:1/v1/", "n", "org/model", "", "9001", "y")
    assert session.init("1", *answers) == 0
    config = session.config()
    lab = config.providers["lab"]
    assert (lab.kind, lab.base_url, lab.api_keys) == ("chat", "http://127.0.0.1:1/v1", [])
    assert list(lab.models) == ["org/model"]
    assert config.models == {"*": "lab/org/model"}
    assert config.server.port == 9001


def test_ollama_keeps_its_name_and_url_by_default(
    session: InitSession,
) -> None:
    assert session.init("1", "ollama", "", "", "", "qwen3:8b", "", "", "y") == 0
    ollama = session.config().providers["ollama"]
    assert (ollama.kind or "ollama", ollama.base_url) == ("ollama", "http://localhost:11434")
    assert session.config().models == {"*": "ollama/qwen3:8b"}


def test_keys_that_have_other_purposes_enable_no_provider(session: InitSession) -> None:
    session.set(GITHUB_TOKEN="x", AZURE_OPENAI_API_KEY="y")
    assert session.init(args=("--yes",)) == 0
    assert session.config().providers == {}


def test_the_default_is_chosen_among_several_providers(session: InitSession) -> None:
    session.set(DEEPSEEK_API_KEY="a", ZHIPU_API_KEY="b")
    assert session.init("1", "1, zhipu", *[""] * 4, "zhipu", "none", "", "y") == 0
    config = session.config()
    assert (list(config.providers), config.default_provider) == (["deepseek", "zhipu"], "zhipu")
    assert config.models == {}


def test_an_invalid_answer_is_explained_and_asked_again(session: InitSession) -> None:
    session.set(DEEPSEEK_API_KEY="k")
    chosen = ("3", "1", "nobody", "deepseek", "", "")
    answers = (*chosen, "gpt", "none", "99999", "80", "perhaps", "y")
    assert session.init(*answers) == 0
    for advice in (
        "'3' is not valid: enter a number from 1 to 2",
        "'nobody' is not one of",
        "'gpt' is not valid: enter PROVIDER/MODEL or none; providers: deepseek, echo",
        "'99999' is not valid: enter a number from 0 to 65535",
        "'perhaps' is not valid: enter y or n",
    ):
        assert advice in session.shown
    assert session.config().server.port == 80


def test_an_invalid_name_or_url_is_explained_and_asked_again(session: InitSession) -> None:
    assert (
        session.init("1", "chat", "echo", "lab", "lab:8000", "http://127.0.0.1:1", *[""] * 5) == 0
    )
    assert "enter a URL such as" in session.shown
    assert "'echo' is not valid: use letters, digits, - and _" in session.shown
    assert session.config().providers["lab"].base_url == "http://127.0.0.1:1"


def test_an_existing_file_is_replaced_only_after_confirmation(session: InitSession) -> None:
    session.file.parent.mkdir(parents=True)
    session.file.write_text("# mine\n")
    assert session.init(*[""] * 5) == 1
    assert session.file.read_text() == "# mine\n"
    assert "Nothing was written." in session.shown

    session.file.chmod(0o644)
    assert session.init(*[""] * 3, "y") == 0
    assert session.config().server.port == 8484
    assert stat.S_IMODE(session.file.stat().st_mode) == 0o600


def test_yes_asks_nothing_and_replaces_nothing(session: InitSession) -> None:
    assert session.init(args=("--yes",)) == 0
    first = session.file.read_text()
    assert "?" not in session.shown
    session.set(DEEPSEEK_API_KEY="sk")
    assert session.init(args=("--yes",)) == 1
    assert "already exists and was not changed; use --force to replace it." in session.error_output
    assert session.file.read_text() == first
    assert session.init(args=("--yes", "--force")) == 0
    assert list(session.config().providers) == ["deepseek"]


def test_another_path_is_part_of_the_next_steps(session: InitSession) -> None:
    assert session.init(args=("--yes", "--output", "team/a.toml")) == 0
    assert session.config(session.home / "team" / "a.toml").server.port == 8484
    assert "antiphon serve --config team/a.toml" in session.shown


def test_a_variable_that_is_not_set_is_reported(session: InitSession) -> None:
    assert session.init("1", "deepseek", *[""] * 5) == 0
    assert "the environment variable DEEPSEEK_API_KEY is not set" in session.shown


def test_an_unanswered_question_writes_nothing(session: InitSession) -> None:
    assert session.init("1", "deepseek") == 2
    assert "no answer to 'Base URL?" in session.error_output
    assert "use --yes to accept the defaults" in session.error_output
    assert not session.file.exists()


def test_a_path_that_cannot_be_written_is_named(session: InitSession) -> None:
    (session.home / "file").write_text("")
    assert session.init(args=("--yes", "--output", "file/a.toml")) == 2
    assert session.error_output.startswith("antiphon: file/a.toml cannot be written:")
