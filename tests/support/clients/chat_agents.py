"""Coding agents that use Chat Completions: how each is started, and what it says it received.

Each has a home directory of its own, and may reach nothing but the gateway: it is told not to look
for updates and not to report what it does, and any other address goes to a port without a listener.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.clients.gateway import KEY, MODEL, OFFLINE, ClientGateway, FinishedProcess
from tests.support.clients.installed import NEWEST, node_command
from tests.support.clients.opencode import OPENCODE_ENVIRONMENT, write_config
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import Call


@dataclass(frozen=True)
class AgentRun:
    """A finished run: what the agent has printed of the model."""

    done: FinishedProcess
    texts: Sequence[str]
    """The texts of the model, in order; only the last one, if the agent prints no other."""
    thoughts: Sequence[str]


@dataclass(frozen=True)
class ChatAgent(ABC):
    client: Client
    shell: str
    """Its tool that runs a command."""
    shows_thoughts = True
    shows_every_text = True
    can_continue = True
    repeats_after_a_cut = False

    @abstractmethod
    def prepare(self, setup: ClientGateway) -> Mapping[str, str]:
        """Write its settings; return its environment variables."""

    @abstractmethod
    def argv(self, setup: ClientGateway, prompt: str, *, is_continued: bool) -> list[str]: ...

    @abstractmethod
    def read(self, done: FinishedProcess) -> AgentRun: ...

    def call(self, command: str) -> Call:
        """A call of the model that has it run a command."""
        return Call(self.shell, {"command": command})

    def directory(self, setup: ClientGateway) -> Path:
        """Its working directory."""
        path = setup.home / "work"
        path.mkdir(exist_ok=True)
        return path

    async def run(
        self, setup: ClientGateway, prompt: str, *, is_continued: bool = False
    ) -> AgentRun:
        """Run one turn without a terminal; `is_continued`: in the session of the run before."""
        directory = self.directory(setup)
        env = {**OFFLINE, **self.prepare(setup)}
        argv = self.argv(setup, prompt, is_continued=is_continued)
        return self.read(await setup.run(argv, env=env, cwd=directory))


def _node(command: str) -> list[str]:
    """The program of a package that needs Node 22."""
    return [NEWEST.node, NEWEST.command(command)]


def _write(path: Path, document: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


class Opencode(ChatAgent):
    repeats_after_a_cut = True

    def prepare(self, setup: ClientGateway) -> Mapping[str, str]:
        path = write_config(setup, "@ai-sdk/openai-compatible")
        return {**OPENCODE_ENVIRONMENT, "OPENCODE_CONFIG": str(path)}

    def argv(self, setup: ClientGateway, prompt: str, *, is_continued: bool) -> list[str]:
        options = ["--continue"] if is_continued else ["--title", "A title"]
        command = [node_command("opencode"), "run", "--format", "json", "--thinking"]
        return [*command, "-m", f"gw/{MODEL}", *options, prompt]

    def read(self, done: FinishedProcess) -> AgentRun:
        parts = [line["part"] for line in done.lines if "part" in line]
        found = {
            kind: [part["text"] for part in parts if part["type"] == kind]
            for kind in ("text", "reasoning")
        }
        return AgentRun(done, found["text"], found["reasoning"])

    def call(self, command: str) -> Call:
        return Call(self.shell, {"command": command, "description": "Run it"})


class QwenCode(ChatAgent):
    repeats_after_a_cut = True

    def prepare(self, setup: ClientGateway) -> Mapping[str, str]:
        # After a turn it would ask the model what to remember of it.
        settings = {"memory": {"enableManagedAutoMemory": False}}
        _write(setup.home / ".qwen" / "settings.json", settings)
        return {"OPENAI_MODEL": MODEL, "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}

    def argv(self, setup: ClientGateway, prompt: str, *, is_continued: bool) -> list[str]:
        options = ["--continue"] if is_continued else []
        command = [*_node("qwen"), "--auth-type", "openai", "--yolo", "-o", "stream-json"]
        return [*command, *options, prompt]

    def read(self, done: FinishedProcess) -> AgentRun:
        messages = [line["message"] for line in done.lines if line["type"] == "assistant"]
        blocks = [block for message in messages for block in message["content"]]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        return AgentRun(done, texts, thoughts)

    def call(self, command: str) -> Call:
        return Call(self.shell, {"command": command, "is_background": False})


class Cline(ChatAgent):
    can_continue = False  # only in a terminal

    def prepare(self, setup: ClientGateway) -> Mapping[str, str]:
        settings = self._state(setup) / "settings"
        name = "openai-compatible"
        gateway = {"provider": name, "apiKey": KEY, "model": MODEL, "baseUrl": setup.base_url}
        entry = {"settings": gateway, "updatedAt": "2026-11-18T00:00:00.000Z"}
        providers = {"version": 1, "lastUsedProvider": name, "providers": {name: entry}}
        _write(settings / "providers.json", providers)
        return cline_environment(settings)

    def argv(self, setup: ClientGateway, prompt: str, *, is_continued: bool) -> list[str]:
        return [find_cline(), "--data-dir", str(self._state(setup)), "--json", prompt]

    def _state(self, setup: ClientGateway) -> Path:
        """With a directory for its state it starts no server in the background."""
        return setup.home / "cline"

    def read(self, done: FinishedProcess) -> AgentRun:
        events = [line["event"] for line in done.lines if line["type"] == "agent_event"]
        ends = [event for event in events if event["type"] == "content_end"]
        texts = [event["text"] for event in ends if event["contentType"] == "text"]
        thoughts = [event["reasoning"] for event in ends if event["contentType"] == "reasoning"]
        return AgentRun(done, texts, thoughts)


def find_cline() -> str:
    """The program for this machine."""
    [found] = NEWEST.modules.glob("@cline/cli-*/bin/cline")
    return str(found)


def cline_environment(settings: Path) -> dict[str, str]:
    """Turn off its reports and its look for updates, which it would wait for."""
    switches = {"telemetryOptOut": True, "autoUpdateEnabled": False}
    path = _write(settings / "global-settings.json", switches)
    return {"CLINE_GLOBAL_SETTINGS_PATH": path, "IS_TEST": "true"}


class Continue(ChatAgent):
    shows_thoughts = False
    shows_every_text = False
    repeats_after_a_cut = True

    def prepare(self, setup: ClientGateway) -> Mapping[str, str]:
        model: dict[str, Any] = {"name": "A model", "provider": "openai", "model": MODEL}
        model |= {"apiBase": setup.base_url, "apiKey": KEY}
        model |= {"roles": ["chat"], "capabilities": ["tool_use"]}
        config = {"name": "gw", "version": "1.0.0", "schema": "v1", "models": [model]}
        _write(setup.home / "continue.yaml", config)  # JSON is YAML
        return {"CONTINUE_CLI_ENABLE_TELEMETRY": "0", "CONTINUE_TELEMETRY_ENABLED": "0"}

    def argv(self, setup: ClientGateway, prompt: str, *, is_continued: bool) -> list[str]:
        options = ["--resume"] if is_continued else []
        config = str(setup.home / "continue.yaml")
        return [*_node("cn"), "--config", config, "--auto", *options, "-p", prompt]

    def read(self, done: FinishedProcess) -> AgentRun:
        return AgentRun(done, [done.out.strip()], [])


class Pi(ChatAgent):
    def prepare(self, setup: ClientGateway) -> Mapping[str, str]:
        model = {"id": MODEL, "name": "A model", "reasoning": True}
        provider = {"baseUrl": setup.base_url, "api": "openai-completions", "apiKey": KEY}
        models = {"providers": {"gw": {**provider, "models": [model]}}}
        _write(setup.home / ".pi" / "agent" / "models.json", models)
        return {"PI_OFFLINE": "1"}

    def argv(self, setup: ClientGateway, prompt: str, *, is_continued: bool) -> list[str]:
        options = ["--continue"] if is_continued else []
        command = [*_node("pi"), "--print", "--mode", "json", "--model", f"gw/{MODEL}"]
        return [*command, *options, prompt]

    def read(self, done: FinishedProcess) -> AgentRun:
        ended = [line["message"] for line in done.lines if line["type"] == "message_end"]
        messages = [message for message in ended if message["role"] == "assistant"]
        blocks = [block for message in messages for block in message["content"]]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        return AgentRun(done, texts, thoughts)


AGENTS: tuple[ChatAgent, ...] = (
    Cline(Client("Cline", "node22:cline"), "run_commands"),
    Continue(Client("Continue", "node22:@continuedev/cli"), "Bash"),
    Opencode(Client("opencode, Chat", "npm:opencode-ai"), "bash"),
    Pi(Client("pi", "node22:@earendil-works/pi-coding-agent"), "bash"),
    QwenCode(Client("Qwen Code", "node22:@qwen-code/qwen-code"), "run_shell_command"),
)
