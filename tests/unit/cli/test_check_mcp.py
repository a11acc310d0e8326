"""`antiphon check` and MCP servers: mistakes in `[mcp]`, and with `--live` their tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.check_mcp import describe_mcp
from antiphon.cli.main import main
from antiphon.config import Config, McpConfig
from tests.support.commands import Screen
from tests.support.mcp.tools_server import ToolsServer, serve_tools

HEAD = "[trace]\nenabled = false\n"


def write(home: Path, *lines: str) -> None:
    (home / "antiphon.toml").write_text(HEAD + "\n".join(lines))


def documents(capsys: pytest.CaptureFixture[str], kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [document for document in found if document["check"] == kind]


def test_a_mistake_in_mcp_is_named_with_its_line(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, "[mcp]", 'allow = ["https://*/"]')
    assert main(["check"]) == 1
    assert ":4: mcp.allow: 'https://*/' is not a URL" in capsys.readouterr().err


def test_servers_are_named_without_their_urls(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, "[mcp.servers.files]", 'url = "https://a.example/?key=canary"')
    assert main(["check"]) == 0
    assert documents(capsys, "mcp") == [{"check": "mcp", "value": "files"}]


def test_servers_and_allowed_urls_are_described() -> None:
    assert describe_mcp(Config()) == "no servers"
    allowed = Config(mcp=McpConfig(allow=["https://a.example/"]))
    assert describe_mcp(allowed) == "none by name, 1 allowed URL of clients"


def test_live_lists_the_tools_of_each_server_and_names_the_one_that_fails(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ToolsServer()
    state.require_token("canary")
    with serve_tools(state=state) as server:
        good = ["[mcp.servers.good]", f'url = "{server.url}"']
        good += ['headers = { authorization = "Bearer canary" }']
        write(home, *good, "[mcp.servers.bad]", f'url = "{server.url}"')
        assert main(["check", "--live"]) == 1
    found, failed = documents(capsys, "live_mcp")
    assert (found["server"], found["ok"]) == ("good", True)
    assert "greet" in found["tools"]
    assert (failed["server"], failed["ok"]) == ("bad", False)
    assert "HTTP status 401" in failed["message"]


def test_live_shows_servers_in_a_table_on_a_terminal(home: Path, screen: Screen) -> None:
    with serve_tools() as server:
        write(home, "[mcp.servers.good]", f'url = "{server.url}"')
        assert screen.run("check", "--live") == 0
    assert "MCP server" in screen.plain
    assert "greet, picture, document" in screen.plain
