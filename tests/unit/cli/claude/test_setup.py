"""`antiphon claude setup` and `undo`: what is shown, written, kept and restored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from tests.support.commands import own_settings

OWN = '{\n\t"model": "opus", "env": {"MINE": "1", "ANTHROPIC_BASE_URL": "http://mine"}\n}'
PORT = "[server]\nport = 1\n"  # no gateway listens there


@pytest.fixture
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own `settings.json` of Claude Code."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("ANTHROPIC_MODEL", raising=False)
    own_settings(home).write_text(PORT)
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(OWN)
    return path


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def names(path: Path) -> set[str]:
    return {each.name for each in path.parent.iterdir()}


def test_setup_adds_the_gateway_and_keeps_the_rest(settings: Path) -> None:
    assert main(["claude", "setup", "--yes"]) == 0
    written = read(settings)
    assert written["model"] == "echo/echo"
    assert written["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert (written["env"]["MINE"], written["env"]["ANTHROPIC_AUTH_TOKEN"]) == ("1", "none")
    assert "apiKeyHelper" not in written


def test_the_test_model_is_set_up_with_a_warning(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claude", "setup", "--yes"]) == 0
    expected = "Claude Code would use the built-in echo model, which only repeats its input."
    assert expected in capsys.readouterr().err


def test_undo_restores_the_file_to_the_byte(settings: Path) -> None:
    for _ in range(2):  # a second setup changes nothing, and keeps the first copy
        main(["claude", "setup", "--yes"])
    assert main(["claude", "undo", "--yes"]) == 0
    assert settings.read_text() == OWN
    assert names(settings) == {"settings.json"}


def test_undo_keeps_later_changes_and_restores_what_was_replaced(settings: Path) -> None:
    main(["claude", "setup", "--yes"])
    settings.write_text(json.dumps({**read(settings), "theme": "dark"}))
    main(["claude", "undo", "--yes"])
    assert read(settings) == {**json.loads(OWN), "theme": "dark"}


def test_undo_deletes_a_file_that_setup_created(settings: Path) -> None:
    settings.unlink()
    main(["claude", "setup", "--yes"])
    assert read(settings)["env"]
    assert main(["claude", "undo", "--yes"]) == 0
    assert names(settings) == set()


def test_undo_without_a_setup_changes_nothing(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claude", "undo", "--yes"]) == 0
    assert settings.read_text() == OWN
    assert "nothing to change" in capsys.readouterr().out


def test_no_key_is_written_to_a_file(settings: Path, home: Path) -> None:
    own_settings(home).write_text(f'{PORT}api_keys = {{ me = "sk-secret-key" }}\n')
    assert main(["claude", "setup", "--yes"]) == 0
    written = read(settings)
    assert written["apiKeyHelper"] == "printenv ANTIPHON_API_KEY"
    assert "ANTHROPIC_AUTH_TOKEN" not in written["env"]
    assert "sk-secret-key" not in settings.read_text()


def test_a_file_that_cannot_be_read_is_named(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, problem in (("{", "not valid JSON"), ("[]", "must be an object")):
        settings.write_text(text)
        assert main(["claude", "setup", "--yes"]) == 2
        error = " ".join(capsys.readouterr().err.split())
        assert "settings.json" in error
        assert problem in error
        assert settings.read_text() == text
