"""Names, arguments and results of MCP tools that attack a terminal are shown as text."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Literal

import pytest

from antiphon.config import LogConfig
from antiphon.server.log_output import open_log
from tests.support.commands import on_terminal, run, without_styles
from tests.support.mcp.hostile_server import ESCAPES, NAME, hostile_gateway

_ATTACKS = ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\x08")


def write_config(directory: Path, trace: Path) -> str:
    path = directory / "antiphon.toml"
    path.write_text(f'[trace]\npath = "{trace}"\n')
    return str(path)


async def test_the_trace_shows_them_as_text_on_a_terminal(tmp_path: Path) -> None:
    async with hostile_gateway(tmp_path) as (setup, request_id):
        pass
    config = write_config(tmp_path, setup.trace)
    show = ("trace", "show", request_id, "--config", config)
    with on_terminal(tmp_path, *show, COLUMNS="500") as terminal:
        assert terminal.wait() == 0
        shown = terminal.shown
    for attack in _ATTACKS:
        assert attack not in shown
    plain = without_styles(shown)
    assert f"tests/{NAME}" in plain
    assert r"\x1b[2J\x1b]0;owned\x07" in plain
    assert "mcp_protocol_error" in plain
    assert r'{"number": 3, "city": ' in plain


async def test_a_pipe_gets_them_escaped_in_json(tmp_path: Path) -> None:
    async with hostile_gateway(tmp_path) as (setup, request_id):
        pass
    config = write_config(tmp_path, setup.trace)
    done = run(tmp_path, "trace", "show", request_id, "--config", config)
    for attack in _ATTACKS[:3]:
        assert attack.encode() not in done.stdout
    detail = json.loads(done.stdout)
    assert [each.get("tool") for each in detail["server_calls"]][1:] == [NAME] * 3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_the_log_shows_them_as_text(tmp_path: Path, level: Literal["info", "debug"]) -> None:
    """The reason of a call that failed has no words of the server."""
    async with hostile_gateway(tmp_path) as (setup, _):
        entries = list(setup.gateway.log)
    screen = Terminal()
    write = open_log(LogConfig(level=level), screen)
    for entry in entries:
        write(entry)
    shown = screen.getvalue()
    assert NAME in shown
    assert "owned" not in shown
    assert not any(attack in shown for attack in _ATTACKS)
    [failed] = [entry.facts for entry in entries if entry.event == "mcp.call_failed"]
    assert failed["reason"] == "The server returned the error -32000 of the protocol."
    assert ESCAPES not in str(failed)
