"""Codex CLI: tools that it runs, and their results at the provider."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.clients import mcp_server
from tests.support.clients.codex import CODEX, Codex
from tests.support.clients.gateway import client_gateway
from tests.support.clients.scripted_model import Call, Dialect, Reply

PATCH = """\
*** Begin Patch
*** Update File: poem.txt
@@
-roses are red
+roses are blue
*** Add File: new/title.txt
+Flowers
*** End Patch
"""
SUMS = f"""
[mcp_servers.sums]
command = "{sys.executable}"
args = ["{mcp_server.__file__}"]
"""


def shell(command: str) -> Call:
    return Call("exec_command", {"cmd": command})


@CODEX.does("shell round trip")
async def test_a_command_is_run_and_its_output_comes_back(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply("I look.", calls=[shell("cat secret.txt; pwd")]), Reply("It says heron.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup)
        (codex.directory / "secret.txt").write_text("heron\n", encoding="utf-8")
        ran = await codex.exec("What is the secret?")
        assert (ran.status, ran.messages) == (0, ["I look.", "It says heron."])
        [command] = ran.items("command_execution")
        assert command["exit_code"] == 0
        assert command["aggregated_output"] == f"heron\n{codex.directory}\n"
        [result] = setup.requests[1].results
        assert "heron" in result
        assert setup.requests[1].calls == [("exec_command", {"cmd": "cat secret.txt; pwd"})]


@CODEX.does("parallel calls")
async def test_two_calls_at_once(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[shell("echo one"), shell("echo two")]), Reply("Both.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Both, please.")
        assert (ran.status, ran.messages) == (0, ["Both."])
        assert len(ran.items("command_execution")) == 2
        first, second = setup.requests[1].results
        assert ("one" in first, "two" in second) == (True, True)


@CODEX.does("freeform apply_patch")
async def test_a_patch_changes_the_files(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[Call("apply_patch", {"input": PATCH})]), Reply("Done.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup)
        poem = codex.directory / "poem.txt"
        poem.write_text("roses are red\nviolets are blue\n", encoding="utf-8")
        ran = await codex.exec("Make it blue.")
        assert (ran.status, ran.messages) == (0, ["Done."])
        assert poem.read_text(encoding="utf-8") == "roses are blue\nviolets are blue\n"
        assert (codex.directory / "new/title.txt").read_text(encoding="utf-8") == "Flowers\n"
        [change] = ran.items("file_change")
        assert change["status"] == "completed"
        assert "Success" in setup.requests[1].results[0]


@CODEX.does("MCP namespace call")
async def test_a_tool_of_an_mcp_server(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[Call("add", {"a": 19, "b": 23})]), Reply("42.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup, tables=SUMS, model={"supports_search_tool": False})
        ran = await codex.exec("How much is 19 and 23?")
        assert (ran.status, ran.messages) == (0, ["42."])
        [call] = ran.items("mcp_tool_call")
        assert (call["server"], call["tool"], call["status"]) == ("sums", "add", "completed")
        assert "the sum is 42" in setup.requests[1].results[0]


@CODEX.does("tool_search")
async def test_a_tool_that_was_searched_for(tmp_path: Path, dialect: Dialect) -> None:
    """A tool that was found is declared from then on, and can be called."""
    script = [
        Reply(calls=[Call("tool_search", {"query": "add numbers"})]),
        Reply(calls=[Call("add", {"a": 19, "b": 23})]),
        Reply("42."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup, tables=SUMS, model={"supports_search_tool": True})
        ran = await codex.exec("How much is 19 and 23?")
        assert (ran.status, ran.messages) == (0, ["42."])
        declared = [any(name.endswith("add") for name in each.tools) for each in setup.requests]
        assert declared == [False, True, True]
        [call] = ran.items("mcp_tool_call")
        assert (call["server"], call["tool"], call["status"]) == ("sums", "add", "completed")
        assert "the sum is 42" in setup.requests[2].results[1]
