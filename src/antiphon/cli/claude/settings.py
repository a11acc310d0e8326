"""Claude Code's settings for the gateway: environment variables, and members of its
`settings.json`.

`settings.json` belongs to the user. Our members are added and removed, and the values that they
replace are restored from the copy that `setup` keeps. Errors do not name the file: their caller
knows its path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.cli.launcher.gateway import KEY_VARIABLE
from antiphon.errors import ConfigError

TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
KEY_HELPER = f"printenv {KEY_VARIABLE}"
"""A command that Claude Code runs to learn its key, so that no key is written to a file."""

_MAIN_NAMES = ("OPUS", "SONNET", "FABLE")
_SMALL_NAME = "HAIKU"
_SWITCHES = {
    # Names the class of a request (main, subagent …) in a header.
    "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
    # A line in the system prompt for Anthropic's accounts, which differs between agents.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    # The menu of models lists those of the gateway that begin with `claude` or `anthropic`.
    "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    # Nothing but requests to the gateway leaves the machine.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of Claude Code that make it use the gateway."""

    base_url: str
    """The address of the gateway, with `/v1`."""
    model: str
    small_model: str = ""
    """The model of titles, summaries of web pages and other small requests; empty: `model`."""
    context_window: int | None = None
    """In tokens; None: unknown, and Claude Code assumes a million."""
    requires_key: bool = False

    def variables(self) -> dict[str, str]:
        """Return the environment variables but for the key, and whether a key is needed."""
        small = self.small_model or self.model
        models = dict.fromkeys(_MAIN_NAMES, self.model) | {_SMALL_NAME: small}
        found = {"ANTHROPIC_BASE_URL": self.base_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": ""}
        for name, model in models.items():
            found[f"ANTHROPIC_DEFAULT_{name}_MODEL"] = model
            found[f"ANTHROPIC_DEFAULT_{name}_MODEL_NAME"] = model
        found["CLAUDE_CODE_SUBAGENT_MODEL"] = self.model
        if self.context_window is not None:
            found["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(self.context_window)
        return found | _SWITCHES

    def members(self) -> dict[str, Any]:
        """Return the members of `settings.json` other than `env`."""
        helper = {"apiKeyHelper": KEY_HELPER} if self.requires_key else {}
        return {"model": self.model, **helper}

    def file_variables(self) -> dict[str, str]:
        """Return the member `env` of `settings.json`. A gateway without keys accepts any token."""
        return self.variables() | ({} if self.requires_key else {TOKEN_VARIABLE: "none"})


def install_settings(text: str, settings: ClaudeSettings) -> str:
    """Add our members to the file."""
    document = parse_settings(text)
    env = {**document.get("env", {}), **settings.file_variables()}
    return _write({**document, **settings.members(), "env": env})


def remove_settings(text: str, original: str) -> str:
    """Remove our members from the file, and restore those that it had in `original`."""
    document = parse_settings(text)
    before = parse_settings(original)
    names = ClaudeSettings(base_url="", model="", context_window=0, requires_key=True)
    _restore(document, before, names.members())
    env = dict(document.get("env", {}))
    ours = {**names.file_variables(), TOKEN_VARIABLE: ""}
    _restore(env, before.get("env", {}), ours)
    document["env"] = env
    if not env and "env" not in before:
        del document["env"]
    return _write(document) if document else ""


def _restore(members: dict[str, Any], before: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    for name in ours:
        members.pop(name, None)
        if name in before:
            members[name] = before[name]


def parse_settings(text: str) -> dict[str, Any]:
    """Read the file; an empty one has no members."""
    try:
        document = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"not valid JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("env", {}), dict):
        raise ConfigError("it must be an object, and its member `env` an object of variables.")
    return document


def _write(document: Mapping[str, Any]) -> str:
    """Write the file as Claude Code itself does."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
