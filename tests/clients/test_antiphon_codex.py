"""`antiphon codex` with the real Codex, without any setup before."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from antiphon.config import Config
from antiphon.engine.routing import make_router
from antiphon.providers.registry import SPECS, build_providers
from antiphon.server.model_catalog import model_list
from tests.support.clients import mcp_server
from tests.support.clients.codex import CodexRun
from tests.support.clients.gateway import ClientGateway, client_gateway
from tests.support.clients.installed import node_command
from tests.support.clients.scripted_model import (
    Call,
    ErrorReply,
    Reply,
    ScriptedModel,
    rate_limited,
)
from tests.support.commands import COMMAND, SOURCE, own_settings
from tests.support.upstream import upstream

EXEC = "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox".split()
# What the user has set up in Codex: a server of tools, and no wish to talk to anybody outside.
OWN = f"""\
model = "gpt-6-sol"
web_search = "disabled"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
apps = false
[mcp_servers.sums]
command = "{sys.executable}"
args = ["{mcp_server.__file__}"]
"""
PATCH = """\
*** Begin Patch
*** Add File: title.txt
+Flowers
*** End Patch
"""
SCRIPT = [
    Reply(calls=[Call("tool_search", {"query": "add numbers"})]),
    Reply(calls=[Call("add", {"a": 19, "b": 23}), Call("apply_patch", {"input": PATCH})]),
    Reply("42, and a title."),
]

FORGOTTEN = {"supports_reasoning_summaries", "supports_parallel_tool_calls"}  # since 0.150
DEFAULTS = {"supports_reasoning_summary_parameter": True}  # goes without saying


async def run_codex(client_gateway: ClientGateway, config: str, *args: str) -> CodexRun:
    """`antiphon codex`, in the user's home, with Codex's own settings in their place."""
    own_settings(client_gateway.home).write_text(config, encoding="utf-8")
    own = client_gateway.home / ".codex" / "config.toml"
    own.parent.mkdir(exist_ok=True)
    own.write_text(OWN, encoding="utf-8")
    env = {"ANTIPHON_CODEX": node_command("codex"), "PYTHONPATH": str(SOURCE)}
    done = CodexRun(await client_gateway.run([*COMMAND, "codex", *args], env=env))
    assert own.read_text(encoding="utf-8") == OWN
    return done


def check(done: CodexRun, client_gateway: ClientGateway, player: ScriptedModel) -> None:
    """Check that deferred tools were found, the patch was applied, and there was no warning."""
    assert (done.status, done.messages) == (0, ["42, and a title."]), done.done.report
    assert done.complaints == []
    [call] = done.items("mcp_tool_call")
    assert (call["server"], call["tool"], call["status"]) == ("sums", "add", "completed")
    assert (client_gateway.home / "title.txt").read_text(encoding="utf-8") == "Flowers\n"
    offered = [any(name.endswith("add") for name in each.tools) for each in player.requests]
    assert offered == [False, True, True]


async def test_a_running_gateway_is_used(tmp_path: Path) -> None:
    async with client_gateway(tmp_path, "chat", SCRIPT) as s:
        port = s.gateway.gateway.port
        done = await run_codex(
            s, f"[server]\nport = {port}\n", *EXEC, "-m", "scripted", "How much?"
        )
        check(done, s, s.model)
        assert list(s.home.rglob("codex-*.json")) == []  # it reads the catalog from the gateway


async def test_a_gateway_is_started_if_none_runs(
    tmp_path: Path,
) -> None:
    player = ScriptedModel("chat", SCRIPT)
    async with client_gateway(tmp_path, "chat", []) as s, upstream(player) as provider_server:
        provider = (
            f'kind = "chat"\nbase_url = "{provider_server.url}"\n[providers.up.models.some-model]\n'
        )
        config = f"[server]\nport = 0\n[providers.up]\n{provider}"
        check(await run_codex(s, config, *EXEC, "How much?"), s, player)
        assert {each.body["model"] for each in player.requests} == {"some-model"}
        assert player.problems == []


async def test_a_session_is_continued_with_the_same_command(tmp_path: Path) -> None:
    async with client_gateway(
        tmp_path, "chat", [Reply("Nice to meet you."), Reply("You are Ada.")]
    ) as s:
        config = f"[server]\nport = {s.gateway.gateway.port}\n"
        assert (await run_codex(s, config, "--model", "scripted", *EXEC, "I am Ada.")).status == 0
        again = await run_codex(
            s, config, "--model", "scripted", *EXEC, "resume", "--last", "Who am I?"
        )
        assert (again.messages, again.complaints) == (["You are Ada."], [])
        assert "I am Ada." in s.requests[1].text_of_role("user")


async def test_a_rate_limit_is_waited_for(tmp_path: Path) -> None:
    async with client_gateway(
        tmp_path, "chat", [rate_limited("chat", 1), Reply("Good morning.")]
    ) as s:
        config = f"[server]\nport = {s.gateway.gateway.port}\n"
        done = await run_codex(s, config, "--model", "scripted", *EXEC, "Hello?")
        assert (done.status, done.messages) == (0, ["Good morning."])
        assert len(s.requests) == 2


async def test_a_provider_that_fails_is_not_asked_again_and_again(tmp_path: Path) -> None:
    """The gateway retries, and Codex repeats the turn five times; a request is not repeated."""
    broken = ErrorReply(500, {"error": {"message": "Oops.", "type": "server_error"}})
    async with client_gateway(tmp_path, "chat", [broken] * 6) as s:
        config = f"[server]\nport = {s.gateway.gateway.port}\n"
        done = await run_codex(s, config, "--model", "scripted", *EXEC, "Hello?")
        assert done.status == 1
        assert "internal error" in done.failure
        assert len(s.requests) == 6


async def test_after_setup_codex_alone_uses_the_gateway_until_it_is_undone(tmp_path: Path) -> None:
    async with client_gateway(tmp_path, "chat", [Reply("Good morning.")]) as s:
        port = s.gateway.gateway.port
        config = s.home / ".codex" / "config.toml"
        done = await run_setup(s, port, "setup", "--model", "scripted", "--yes")
        assert done == 0
        assert tomllib.loads(config.read_text(encoding="utf-8"))["model"] == "scripted"
        codex_run = CodexRun(await s.run([node_command("codex"), *EXEC, "Hello?"]))
        assert (codex_run.status, codex_run.messages, codex_run.complaints) == (
            0,
            ["Good morning."],
            [],
        )
        assert await run_setup(s, port, "undo", "--yes") == 0
        assert config.read_text(encoding="utf-8") == OWN


async def run_setup(client_gateway: ClientGateway, port: int, *args: str) -> int:
    """The exit status of a command that changes Codex's settings."""
    own_settings(client_gateway.home).write_text(f"[server]\nport = {port}\n", encoding="utf-8")
    own = client_gateway.home / ".codex" / "config.toml"
    own.parent.mkdir(exist_ok=True)
    if not own.exists():
        own.write_text(OWN, encoding="utf-8")
    env = {"PYTHONPATH": str(SOURCE)}
    return (await client_gateway.run([*COMMAND, "codex", *args], env=env)).status


async def test_codex_reads_every_field_of_the_catalog_as_it_is_meant(tmp_path: Path) -> None:
    """For every known model: an unknown value would be dropped or rejected by Codex."""
    keys = {name: "k" for spec in SPECS.values() for name in spec.api_key_env}
    models = model_list(make_router(Config(), build_providers(Config(), keys)))["models"]
    async with client_gateway(tmp_path, "chat", []) as s:
        path = s.home / "catalog.json"
        path.write_text(json.dumps({"models": models}), encoding="utf-8")
        override = f'model_catalog_json="{path}"'
        done = await s.run([node_command("codex"), "debug", "models", "-c", override])
        [line] = done.check_success().lines
    read = {each["slug"]: DEFAULTS | each for each in line["models"]}
    assert len(read) == len(models) > 50
    for model in models:
        codex_run = {name: value for name, value in model.items() if name not in FORGOTTEN}
        assert {name: read[model["slug"]].get(name) for name in codex_run} == codex_run
