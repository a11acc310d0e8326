"""Output of commands: plain errors, JSON lines, tables, and colour only on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from antiphon.cli.terminal import (
    escape_controls,
    is_terminal,
    make_console,
    make_table,
    print_error,
    print_result,
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


def test_a_result_in_a_pipe_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_result("evil\x1b[2J :key: [bold] " * 20, name="x")
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.startswith("evil\\x1b[2J :key: [bold] evil")
