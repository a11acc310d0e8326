"""An older Codex CLI: text, sessions, a command and a patch."""

from __future__ import annotations

from pathlib import Path

from tests.support.clients.codex import OLDER, OLDER_CODEX, Codex
from tests.support.clients.gateway import client_gateway
from tests.support.clients.scripted_model import Call, Dialect, Reply

PATCH = "*** Begin Patch\n*** Add File: title.txt\n+Flowers\n*** End Patch\n"


@OLDER_CODEX.does("resume", "chat")
async def test_a_session_is_resumed(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply("Nice to meet you."), Reply("You are Ada.")]
    ) as setup:
        codex = await Codex.at(setup, release=OLDER)
        first = await codex.exec("I am Ada.")
        assert (first.status, first.messages) == (0, ["Nice to meet you."])
        ran = await codex.exec("resume", "--last", "Who am I?")
        assert (ran.status, ran.messages) == (0, ["You are Ada."])
        assert "I am Ada." in setup.requests[1].text_of_role("user")


@OLDER_CODEX.does("shell round trip", "chat", "anthropic")
async def test_a_command_is_run_and_its_output_comes_back(tmp_path: Path, dialect: Dialect) -> None:
    command = Call("exec_command", {"cmd": "cat secret.txt"})
    script = [Reply("I look.", calls=[command]), Reply("It says heron.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup, release=OLDER)
        (codex.directory / "secret.txt").write_text("heron\n", encoding="utf-8")
        ran = await codex.exec("What is the secret?")
        assert (ran.status, ran.messages) == (0, ["I look.", "It says heron."])
        [result] = setup.requests[1].results
        assert "heron" in result


@OLDER_CODEX.does("apply_patch", "chat")
async def test_a_patch_is_applied(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply(calls=[Call("apply_patch", {"input": PATCH})]), Reply("Done.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup, release=OLDER)
        ran = await codex.exec("A title, please.")
        assert (ran.status, ran.messages) == (0, ["Done."])
        assert (codex.directory / "title.txt").read_text(encoding="utf-8") == "Flowers\n"
