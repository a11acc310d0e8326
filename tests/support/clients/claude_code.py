"""Claude Code with its own home directory: its runs, and what they print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.gateway import KEY, MODEL, ClientSetup, FinishedProcess
from tests.support.clients.installed import NEWEST, PINNED, Release
from tests.support.clients.scenario import Client, Test, run_id
from tests.support.clients.scripted_model import Dialect

OLDER = NEWEST
"""The set of packages that has the release before."""


@dataclass(frozen=True)
class ClaudeClient(Client):
    """Claude Code in its newest release and in the one before: a test runs with both."""

    def does(self, scenario: str, *dialects: Dialect) -> Callable[[Test], Test]:
        cases = [(each, release) for release in (PINNED, OLDER) for each in dialects]

        def mark(test: Test) -> Test:
            shown = pytest.mark.scenario(self.name, self.package, scenario)
            runs = pytest.mark.parametrize(("dialect", "release"), cases, ids=run_id)
            marked: Test = shown(runs(test))
            return marked

        return mark


CLAUDE = ClaudeClient("Claude Code", "npm:@anthropic-ai/claude-code")
TOOLS = "Bash Edit Write Read Agent WebSearch"
_PRINT = "--output-format stream-json --verbose --allowed-tools".split()


@dataclass(frozen=True)
class ClaudeRun:
    """A finished run, read from its JSON messages."""

    done: FinishedProcess

    @property
    def result(self) -> dict[str, Any]:
        """The last message: the text, whether it is an error, the usage."""
        [result] = [each for each in self.done.lines if each["type"] == "result"]
        return result

    @property
    def text(self) -> str:
        assert self.done.status == 0, self.done.report
        text: str = self.result["result"]
        return text

    @property
    def usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = self.result["usage"]
        return usage

    def blocks(self, role: str, kind: str) -> list[dict[str, Any]]:
        """The content blocks of a type, in messages of a role."""
        messages = [each["message"] for each in self.done.lines if each["type"] == role]
        contents = [each["content"] for each in messages if isinstance(each["content"], list)]
        return [block for content in contents for block in content if block["type"] == kind]


def find_program(release: Release = PINNED) -> str:
    """The program for this machine: npm's own link to it is made by a script that is not run."""
    found = sorted(release.modules.glob("@anthropic-ai/claude-code-*/claude"))
    return str(found[0])


@dataclass(frozen=True)
class ClaudeCode:
    setup: ClientSetup
    base_url: str
    release: Release = PINNED

    @property
    def directory(self) -> Path:
        """Its working directory."""
        path = self.setup.home / "work"
        path.mkdir(exist_ok=True)
        return path

    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.base_url.removesuffix("/v1"),
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "DISABLE_AUTOUPDATER": "1",
        }

    async def run(
        self, prompt: str, *options: str, env: Mapping[str, str] | None = None, model: str = MODEL
    ) -> ClaudeRun:
        """Run one turn without a terminal."""
        argv = [find_program(self.release), "-p", *_PRINT, TOOLS, "--model", model, *options]
        own = {**self.environment(), **(env or {})}
        return ClaudeRun(await self.setup.run(argv, env=own, cwd=self.directory, stdin=prompt))
