"""Shell completion: the script of each shell, and the answers that a shell gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.completion import is_requested, read_typed_words
from antiphon.cli.main import main
from tests.support.commands import run


def complete(home: Path, line: str) -> list[str]:
    """Complete a command line as a shell does: what was typed is in the environment."""
    answers = home / "answers"
    answers.touch()
    done = run(
        home,
        _ARGCOMPLETE="1",
        _ARGCOMPLETE_SUPPRESS_SPACE="1",
        _ARGCOMPLETE_STDOUT_FILENAME=str(answers),
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
    )
    assert done.returncode == 0, done.stderr
    return sorted(answers.read_text().split("\013"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("antiphon c", ["check", "codex", "completion"]),
        ("antiphon trace re", ["resend"]),
        ("antiphon usage --s", ["--since"]),
        ("antiphon completion ", ["--help", "-h", "bash", "fish", "zsh"]),
    ],
)
def test_commands_and_options_are_completed(line: str, expected: list[str], tmp_path: Path) -> None:
    found = complete(tmp_path, line)
    assert [each for each in found if each in expected] == expected
    assert [each for each in found if not each.startswith(line.split(" ")[-1])] == []


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("bash", "complete -o nospace -o default -o bashdefault -F _python_argcomplete antiphon"),
        ("zsh", "compdef _python_argcomplete antiphon"),
        ("fish", "complete --command antiphon"),
    ],
)
def test_a_script_registers_the_command(
    shell: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert expected in capsys.readouterr().out


def test_another_shell_is_rejected_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["completion", "tcsh"])
    assert leaving.value.code == 2
    assert "known: bash, zsh, fish" in capsys.readouterr().err


def test_words_with_an_open_quote_are_read_as_they_are() -> None:
    assert read_typed_words({"COMP_LINE": 'antiphon codex "fix the'}) == ["codex", '"fix', "the"]
    assert read_typed_words({}) == []


def test_a_user_requests_no_completion() -> None:
    assert not is_requested({"COMP_LINE": "antiphon "})
    assert is_requested({"_ARGCOMPLETE": "1"})
