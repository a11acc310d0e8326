"""Output of commands: plain errors, JSON lines, tables, and colour only on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from antiphon.cli.terminal import (
    escape_controls,
    is_terminal,
    make_console,
    make_table,
    print_error,
    write_json_lines,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_error_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    message = "a [long] message " * 20
    print_error(message)
    assert capsys.readouterr() == ("", f"antiphon: {message}\n")


def test_json_lines_hold_one_document_per_line(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_json_lines([{"a": 1}, {"b": "ü\n"}])
    assert capsysbinary.readouterr().out == '{"a":1}\n{"b":"ü\\n"}\n'.encode()


def test_a_pipe_is_no_terminal_even_if_colour_is_forced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not is_terminal()
    make_console().print("text", style="bold red")
    assert capsys.readouterr().out == "text\n"


def test_a_console_neither_highlights_nor_interprets_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert is_terminal()
    make_console().print("[bold]12[/bold] 'text'")
    assert screen.getvalue() == "[bold]12[/bold] 'text'\n"


def test_number_columns_are_aligned_to_the_right() -> None:
    table = make_table("name", "size", right=["size"])
    table.add_row("a", "1")
    table.add_row("b", "1,000")
    output = io.StringIO()
    Console(file=output, width=40).print(table)
    rows = [line.strip() for line in output.getvalue().splitlines()]
    assert [row for row in rows if row.startswith(("a", "b"))] == ["a          1", "b      1,000"]


def test_control_characters_are_made_visible() -> None:
    assert escape_controls("a\x1b[2J\nb é\u202e") == "a\\x1b[2J\\nb é\\u202e"


def test_an_escape_sequence_in_text_does_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_error("no request '\x1b]0;owned\x07'")
    assert "\x1b" not in capsys.readouterr().err
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    table = make_table("model")
    table.add_row("evil\x1b[2J")
    make_console().print(table)
    assert "\x1b[2J" not in screen.getvalue()
    assert "evil\\x1" in screen.getvalue()


def wide_table() -> Table:
    table = make_table(
        "id", "name", "note", "size", optional=["name", "size"], wrapped=["note"], right=["size"]
    )
    table.add_row("req_0123456789", "a-long-model-name", "several words that may be wrapped", "7")
    return table


def draw(table: Table, width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue()


@pytest.mark.parametrize(
    ("width", "columns"),
    [(120, "id name note size"), (64, "id name note"), (45, "id note"), (41, "id note")],
)
def test_a_narrow_terminal_drops_columns_and_breaks_no_name(width: int, columns: str) -> None:
    text = draw(wide_table(), width)
    header = next(line for line in text.splitlines() if line.strip())
    assert header.split() == columns.split()
    assert "req_0123456789" in text
    assert ("a-long-model-name" in text) is ("name" in columns)


def test_only_text_has_several_lines() -> None:
    assert "several words that may be wrapped" in draw(wide_table(), 120)
    assert "several words" in draw(wide_table(), 45)
