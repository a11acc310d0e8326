"""Codex CLI with its own home directory: its configuration, its runs and their output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.clients.gateway import KEY, MODEL, ClientGateway, FinishedProcess
from tests.support.clients.installed import NEWEST, PINNED, Release
from tests.support.clients.scenario import Client

CODEX = Client("Codex CLI", "npm:@openai/codex")
OLDER_CODEX = Client("Codex CLI", "node22:@openai/codex")
OLDER = NEWEST
"""The set of packages that has the older Codex beside the newest majors of others."""

_CONFIG = """\
model = "{model}"
model_provider = "{provider}"
web_search = "disabled"
check_for_update_on_startup = false
{top}
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
apps = false
goals = false
multi_agent = false
[model_providers.gw]
name = "gw"
base_url = "{base_url}"
wire_api = "responses"
{gateway}
{tables}
"""
_KEY_BY_VARIABLE = 'env_key = "GW_KEY"'
_KEY_BY_COMMAND = f'[model_providers.gw.auth]\ncommand = "echo"\nargs = ["{KEY}"]'
_EXEC = "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox".split()


@dataclass(frozen=True)
class CodexRun:
    """A finished turn of Codex, read from its JSON events."""

    done: FinishedProcess

    @property
    def status(self) -> int:
        return self.done.status

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.done.lines

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The completed items of a kind."""
        completed = [each["item"] for each in self.events if each["type"] == "item.completed"]
        return [item for item in completed if item["type"] == kind]

    @property
    def messages(self) -> list[str]:
        return [item["text"] for item in self.items("agent_message")]

    @property
    def usage(self) -> dict[str, int]:
        [event] = [each for each in self.events if each["type"] == "turn.completed"]
        usage: dict[str, int] = event["usage"]
        return usage

    @property
    def complaints(self) -> list[str]:
        """Warnings and retries that it reported."""
        items = [item["message"] for item in self.items("error")]
        return items + [each["message"] for each in self.events if each["type"] == "error"]

    @property
    def failure(self) -> str:
        """Why the turn failed."""
        [event] = [each for each in self.events if each["type"] == "turn.failed"]
        message: str = event["error"]["message"]
        return message


@dataclass(frozen=True)
class Codex:
    gateway: ClientGateway
    directory: Path
    """Its working directory."""
    release: Release = PINNED

    @classmethod
    async def at(
        cls,
        gateway: ClientGateway,
        *,
        top: str = "",
        tables: str = "",
        provider: str = "gw",
        retries: int = 5,
        model: Mapping[str, Any] | None = None,
        asks_for_catalog: bool = False,
        release: Release = PINNED,
    ) -> Codex:
        """Configure Codex with the catalog of the gateway; `model` overrides fields in it.

        `top` and `tables` are added to the configuration, before its tables and after them.
        """
        entry = f"stream_max_retries = {retries}\n"
        if asks_for_catalog:
            entry += _KEY_BY_COMMAND
        else:
            entry += _KEY_BY_VARIABLE
            top += f'\nmodel_catalog_json = "{await _save_catalog(gateway, model or {})}"'
        config = _CONFIG.format(
            model=MODEL,
            provider=provider,
            base_url=gateway.base_url,
            top=top,
            gateway=entry,
            tables=tables,
        )
        (gateway.home / "config.toml").write_text(config, encoding="utf-8")
        directory = gateway.home / "work"
        directory.mkdir()
        return cls(gateway, directory, release)

    async def exec(self, *args: str, env: Mapping[str, str] | None = None) -> CodexRun:
        """Run one turn; `args` are options and the prompt."""
        own = {"CODEX_HOME": str(self.gateway.home), "GW_KEY": KEY, **(env or {})}
        argv = [self.release.command("codex"), *_EXEC, *args]
        return CodexRun(await self.gateway.run(argv, env=own, cwd=self.directory))


async def _save_catalog(gateway: ClientGateway, changes: Mapping[str, Any]) -> Path:
    """Save the catalog that the gateway serves to a file."""
    async with gateway.gateway.client.get(f"{gateway.gateway.base_url}/models") as response:
        models = (await response.json())["models"]
    entries = [{**each, **changes} if each["slug"] == MODEL else each for each in models]
    path = gateway.home / "catalog.json"
    path.write_text(json.dumps({"models": entries}), encoding="utf-8")
    return path
