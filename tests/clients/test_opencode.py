"""opencode, headless: text, a command, and a continued session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.clients.gateway import MODEL, ClientGateway, client_gateway
from tests.support.clients.installed import node_command
from tests.support.clients.opencode import OPENCODE_ENVIRONMENT, write_config
from tests.support.clients.provider_requests import ProviderRequest
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import Call, Dialect, Reply, Step

OPENCODE = Client("opencode", "npm:opencode-ai")


async def run(setup: ClientGateway, *args: str) -> list[dict[str, Any]]:
    """Run one message; return the parts of the turn."""
    directory = setup.home / "work"
    directory.mkdir(exist_ok=True)
    path = write_config(setup, "@ai-sdk/openai")
    argv = [node_command("opencode"), "run", "--format", "json", "-m", f"gw/{MODEL}", *args]
    env = {**OPENCODE_ENVIRONMENT, "OPENCODE_CONFIG": str(path)}
    done = await setup.run(argv, env=env, cwd=directory, limit_s=180.0)
    return [line["part"] for line in done.check_success().lines]


def texts(parts: list[dict[str, Any]]) -> list[str]:
    return [part["text"] for part in parts if part["type"] == "text"]


@OPENCODE.does("text")
async def test_a_text_and_a_title_for_the_session(tmp_path: Path, dialect: Dialect) -> None:
    def script(request: ProviderRequest) -> Step:
        return Reply("Good morning.") if request.tools else Reply("A greeting")

    async with client_gateway(tmp_path, dialect, script) as setup:
        parts = await run(setup, "Hello?")
        assert texts(parts) == ["Good morning."]
        assert parts[-1]["reason"] == "stop"
        assert parts[-1]["tokens"]["total"] == 14
        assert [request.messages[-1] for request in setup.requests if request.tools] == [
            ("user", "Hello?")
        ]


@OPENCODE.does("bash round trip")
async def test_a_command_and_its_output(tmp_path: Path, dialect: Dialect) -> None:
    command = {"command": "echo one > made.txt; echo two", "description": "Make a file"}
    script = [Reply("I look.", thought="Hm.", calls=[Call("bash", command)]), Reply("Two.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        parts = await run(setup, "--title", "Numbers", "What does it print?")
        [tool] = [part for part in parts if part["type"] == "tool"]
        assert (tool["tool"], tool["state"]["status"]) == ("bash", "completed")
        assert (setup.home / "work" / "made.txt").read_text(encoding="utf-8") == "one\n"
        assert texts(parts) == ["I look.", "Two."]
        assert "two" in setup.requests[1].results[0]
        assert setup.requests[1].states == [setup.model.state(0, "Hm.")]


@OPENCODE.does("session continued")
async def test_a_session_is_continued(tmp_path: Path, dialect: Dialect) -> None:
    script = [Reply("Hello, Ada.", thought="A name."), Reply("Ada.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        await run(setup, "--title", "Names", "My name is Ada.")
        assert texts(await run(setup, "--continue", "What is my name?")) == ["Ada."]
        assert "My name is Ada." in setup.requests[1].text_of_role("user")
        assert "".join(setup.requests[1].text_of_role("assistant").split("\n")) == "Hello, Ada."
        assert setup.requests[1].states == [setup.model.state(0, "A name.")]
