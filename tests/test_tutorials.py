"""The tutorials, and the commands of README.md and docs/connect.md, are followed: configurations
are written, commands run on a terminal, and print what the page shows. The agents and Ollama are
stand-ins; tests/clients has the real agents."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from antiphon.cli.launcher.program import split_arguments
from antiphon.cli.main import _make_parser
from antiphon.config import parse_config
from antiphon.engine.routing import make_router
from antiphon.providers.registry import build_providers
from tests.support.commands import PATIENCE_S
from tests.support.connect_page import read_blocks as read_commands
from tests.support.mcp.tools_server import serve_named
from tests.support.tables import table
from tests.support.tutorial_pages import (
    PAGES,
    VALUE,
    Block,
    Reader,
    call,
    fail,
    find_missing,
    provider,
    read_blocks,
    read_inline_commands,
    reader,
    say,
)
from tests.test_readme import find_blocks

NAMES = sorted(page.stem for page in PAGES.glob("*.md"))
CONFIGURATIONS = [
    (name, block.text) for name in NAMES for block in read_blocks(name) if block.language == "toml"
]
INLINE = [(name, command) for name in NAMES for command in read_inline_commands(name)]
EXEC_COMMAND = {
    "type": "function",
    "name": "exec_command",
    "parameters": {
        "type": "object",
        "properties": {"cmd": {"type": "string"}},
        "required": ["cmd"],
        "additionalProperties": False,
    },
}


def follow(page: str, reading: Reader) -> int:
    """Do what a page says; return how many outputs were compared."""
    blocks = read_blocks(page)
    for block in blocks:
        reading.follow(block)
    return sum(not block.language for block in blocks)


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    [block] = find_blocks("sh", "antiphon codex")
    with provider() as address, reader(tmp_path, address) as reading:
        reading.follow(Block("sh", block))
        assert reading.gateway is not None
    with pytest.raises(URLError):  # nothing is left running
        urlopen(f"{reading.base_url}/health", timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("client", "written"),
    [("Codex", ".codex/config.toml"), ("Claude Code", ".claude/settings.json")],
)
def test_the_commands_for_an_agent_run(client: str, written: str, tmp_path: Path) -> None:
    [block] = read_commands(client, "sh")
    with (
        provider() as address,
        reader(tmp_path, address, DEEPSEEK_API_KEY=VALUE) as reading,
    ):
        reading.follow(Block("sh", block))
        assert f"127.0.0.1:{reading.port}" in (tmp_path / written).read_text()


@pytest.mark.parametrize("page", ["codex", "claude-code", "team", "scale"])
def test_a_page_is_followed(page: str, tmp_path: Path) -> None:
    with provider() as address, reader(tmp_path, address) as reading:
        assert follow(page, reading) > 0


def test_the_page_about_ollama_is_followed(tmp_path: Path) -> None:
    with provider() as address, reader(tmp_path, address, ()) as reading:
        host = address.removeprefix("http://").replace("127.0.0.1", "localhost")
        reading.set(OLLAMA_HOST=host, ANTIPHON_LOCAL_SERVERS="on")
        assert follow("ollama", reading) == 3


def test_a_failed_tool_call_is_found(tmp_path: Path) -> None:
    keys = {"DEEPSEEK_API_KEY": VALUE, "ZHIPU_API_KEY": VALUE}
    with (
        provider(call_wrongly) as address,
        reader(tmp_path, address, ("deepseek", "zhipu"), **keys) as reading,
    ):
        settings, *rest = read_blocks("failed-tool-call")
        reading.follow(settings)
        reading.start_gateway()
        assert send(reading.base_url, "Too long")[0] == 400
        status, request_id = send(reading.base_url, "List the files")
        assert status == 200
        reading.ids["f4668778"] = request_id[-8:]
        for block in rest:
            reading.follow(block)


def test_the_page_about_mcp_servers_is_followed(tmp_path: Path) -> None:
    with (
        serve_named("echo", "get-annotated-message", "get-env", "get-sum") as url,
        provider(add_with_a_tool) as address,
        reader(tmp_path, address, DEEPSEEK_API_KEY=VALUE) as reading,
    ):
        for block in read_blocks("mcp"):
            if "npx" in block.text:
                continue  # the server that stands in for it runs already
            if "mcp_approval_response" in block.text:
                reading.ids.update(ask_for_approval(reading.base_url))
            reading.follow(Block(block.language, block.text.replace(SHOWN_SERVER, url)))
            if "curl" in block.text:
                response = json.loads(reading.printed)
                assert response["output"][-1]["content"][0]["text"] == "It is 42."


SHOWN_SERVER = "http://127.0.0.1:3001/mcp"


def add_with_a_tool(request: Mapping[str, Any]) -> Mapping[str, Any]:
    is_done = request["messages"][-1]["role"] == "tool"
    return say("It is 42.") if is_done else call("everything__get-sum", '{"a": 17, "b": 25}')


def ask_for_approval(base_url: str) -> dict[str, str]:
    """Send the request that needs an approval; return the ids that the page leaves out."""
    tool = {"type": "mcp", "server_label": "everything", "allowed_tools": ["get-sum"]}
    body = {"model": "deepseek/deepseek-v4-pro", "input": "Add 17 and 25.", "tools": [tool]}
    headers = {"content-type": "application/json"}
    request = Request(f"{base_url}/v1/responses", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=PATIENCE_S) as response:
        found = json.load(response)
    asked = found["output"][-1]
    assert asked["type"] == "mcp_approval_request"
    return {"resp_…": found["id"], "mcpr_…": asked["id"]}


def call_wrongly(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """DeepSeek uses a wrong name for the argument; GLM does not."""
    if "Too long" in json.dumps(request):
        return fail("This model's maximum context length is 1000.", "context_length_exceeded")
    is_wrong = request["model"].startswith("deepseek")
    return call("exec_command", '{"command": "ls -la"}' if is_wrong else '{"cmd":"ls -la"}')


def send(base_url: str, text: str) -> tuple[int, str]:
    """Send a request; return the status, and the id of the request."""
    body = {"model": "deepseek/deepseek-v4-pro", "input": text, "tools": [EXEC_COMMAND]}
    headers = {"content-type": "application/json"}
    request = Request(f"{base_url}/v1/responses", json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=PATIENCE_S) as response:
            response.read()
            return response.status, response.headers["x-request-id"]
    except HTTPError as error:
        with error:
            return error.code, error.headers["x-request-id"]


def test_output_that_is_not_printed_is_found() -> None:
    printed = " time   id\n ─────\n 10:01  …0123abcd  ok  17→9 tok\n next\n"
    assert find_missing("time id\n09:59 …ffffffff ok 1→2 tok\n…", printed) == []
    assert find_missing("time id\n09:59 …ffffffff failed", printed) == ["09:59 …ffffffff failed"]
    assert find_missing("next\ntime id", printed) == ["time id"]


def test_there_are_tutorials() -> None:
    assert len(NAMES) == 7
    assert len(CONFIGURATIONS) >= 4
    assert len(INLINE) >= 5


@pytest.mark.parametrize(("page", "block"), CONFIGURATIONS)
def test_a_configuration_is_valid(page: str, block: str) -> None:
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "x" * 32)
    config = parse_config(block, variables, name=page)
    assert make_router(config, build_providers(config, variables)).names()


@table(("page", "line"), INLINE)
def test_a_command_in_a_sentence_has_the_options_it_is_shown_with(page: str, line: str) -> None:
    words = shlex.split(line)[1:]
    if words[0] in ("codex", "claude"):
        words = [words[0], *split_arguments(words[1:])[0]]
    assert _make_parser(words).parse_args(words).run, page
