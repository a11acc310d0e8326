"""Codex CLI in a home of its own: its configuration, how it is run, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.clients.gateway import KEY, MODEL, Done, Stage
from tests.support.clients.installed import node_command
from tests.support.clients.scenario import Client

CODEX = Client("Codex CLI", "npm:@openai/codex")

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
class Ran:
    """A turn that Codex has ended."""

    done: Done

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
        """What it warned of, or tried again."""
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
    stage: Stage
    place: Path
    """Where it works."""

    @classmethod
    async def at(
        cls,
        stage: Stage,
        *,
        top: str = "",
        tables: str = "",
        provider: str = "gw",
        retries: int = 5,
        model: Mapping[str, Any] | None = None,
        asks_for_catalog: bool = False,
    ) -> Codex:
        """Set up with the gateway's own catalog; `model` changes what that says of the model.

        `top` and `tables` are added to the configuration, before its tables and after them.
        """
        gateway = f"stream_max_retries = {retries}\n"
        if asks_for_catalog:
            gateway += _KEY_BY_COMMAND
        else:
            gateway += _KEY_BY_VARIABLE
            top += f'\nmodel_catalog_json = "{await _saved_catalog(stage, model or {})}"'
        config = _CONFIG.format(
            model=MODEL,
            provider=provider,
            base_url=stage.base_url,
            top=top,
            gateway=gateway,
            tables=tables,
        )
        (stage.home / "config.toml").write_text(config, encoding="utf-8")
        place = stage.home / "work"
        place.mkdir()
        return cls(stage, place)

    async def exec(self, *args: str, env: Mapping[str, str] | None = None) -> Ran:
        """One turn; `args` are the prompt, and what stands before it."""
        own = {"CODEX_HOME": str(self.stage.home), "GW_KEY": KEY, **(env or {})}
        argv = [node_command("codex"), *_EXEC, *args]
        return Ran(await self.stage.run(argv, env=own, cwd=self.place))


async def _saved_catalog(stage: Stage, changes: Mapping[str, Any]) -> Path:
    """The catalog as the gateway tells it, in a file."""
    async with stage.gateway.client.get(f"{stage.gateway.base_url}/models") as response:
        models = (await response.json())["models"]
    entries = [{**each, **changes} if each["slug"] == MODEL else each for each in models]
    path = stage.home / "catalog.json"
    path.write_text(json.dumps({"models": entries}), encoding="utf-8")
    return path
