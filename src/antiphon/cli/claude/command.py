"""`antiphon claude`: run Claude Code against the gateway without changing its configuration.

Everything is passed in its environment and on its command line. The user's own settings apply to
everything else, and are never written (ADR 0094).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.claude import setup as claude_setup
from antiphon.cli.claude.settings import TOKEN_VARIABLE, ClaudeSettings, parse_settings
from antiphon.cli.claude.setup import choose_model, find_window, small_model
from antiphon.cli.launcher.change import name_file
from antiphon.cli.launcher.files import read_file, replace_file
from antiphon.cli.launcher.gateway import RunningGateway
from antiphon.cli.launcher.program import (
    Launch,
    Program,
    make_environment,
    make_proxy_exceptions,
    run_program,
    warn_without_provider,
)
from antiphon.cli.load_config import add_config_option, load_config_or_default, with_local_servers
from antiphon.config import Config
from antiphon.errors import ConfigError

CLAUDE = Program(
    title="Claude Code",
    command="claude",
    variable="ANTIPHON_CLAUDE",
    installation="`npm install -g @anthropic-ai/claude-code`",
)

_NO_CLOUD = {f"CLAUDE_CODE_USE_{name}": "" for name in ("BEDROCK", "VERTEX", "FOUNDRY")}
"""With one of these, Claude Code sends its requests to a cloud instead of the gateway."""

_USAGE = """\
antiphon claude [--config FILE] [--model NAME] [arguments of claude …]
       antiphon claude setup [--config FILE] [--model NAME] [--yes]
       antiphon claude undo [--yes]"""

_EPILOG = """\
examples:
  antiphon claude                                    a session with the gateway's default model
  antiphon claude "why does this test fail?"         with a first prompt
  antiphon claude --model deepseek/deepseek-v4-pro   with another model
  antiphon claude -p "fix the tests"                 non-interactive
  antiphon claude --continue                         continue the last session
  antiphon claude setup                              configure `claude` to use the gateway
  antiphon claude undo                               revert the setup
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.usage = _USAGE
    parser.description = (
        "Run Claude Code with the models of the gateway. A gateway that runs at the configured\n"
        "address is used; otherwise one is started, and stopped when Claude Code exits. Its own\n"
        "files are not changed. The options below come first; the rest is passed on to claude."
    )
    parser.epilog = _EPILOG
    add_config_option(parser, search_cwd=False)
    parser.add_argument("--model", metavar="NAME", help="the model, as `antiphon models` lists it")
    parser.set_defaults(run=run)
    claude_setup.add(
        parser.add_subparsers(title="permanent setup", metavar="COMMAND", prog="antiphon claude")
    )


def run(args: argparse.Namespace) -> int:
    program = CLAUDE.find(os.environ)
    config = with_local_servers(load_config_or_default(args.config, search_cwd=False))

    def prepare(gateway: RunningGateway, directory: Path) -> Launch:
        warn_without_provider(gateway, CLAUDE.title)
        own_settings, passed = _take_settings(args.passed_arguments)
        chosen = _choose_settings(gateway, config, args.model or _find_model(passed))
        own = {} if chosen.context_window is None else _kept(os.environ, "MAX_CONTEXT_TOKENS")
        direct = {**make_proxy_exceptions(gateway), **_NO_CLOUD}
        variables = {**chosen.variables(), **own, **direct}
        settings = _write_settings(variables, own_settings, directory)
        environment = make_environment(gateway, {**variables, TOKEN_VARIABLE: gateway.key})
        return Launch([program, *_options(settings, chosen.model, passed), *passed], environment)

    requested = args.model or _find_model(args.passed_arguments) or ""
    return run_program(config, args.config, prepare, requested)


def _choose_settings(gateway: RunningGateway, config: Config, model: str | None) -> ClaudeSettings:
    chosen = model or choose_model(gateway.catalog, os.environ)
    return ClaudeSettings(
        base_url=gateway.base_url,
        model=chosen,
        small_model=small_model(config),
        context_window=find_window(gateway.catalog, chosen),
    )


def _kept(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """The user's own value of a variable of Claude Code, if it is set."""
    variable = f"CLAUDE_CODE_{name}"
    return {variable: environment[variable]} if variable in environment else {}


def _find_model(passed: Sequence[str]) -> str | None:
    """The model among the arguments of Claude Code, if it is there."""
    for position, argument in enumerate(passed):
        name, equals, value = argument.partition("=")
        if name == "--model":
            return value if equals else next(iter(passed[position + 1 :]), None)
    return None


def _options(settings: str, model: str, passed: Sequence[str]) -> list[str]:
    """The options that come before those of the user."""
    is_given = any(argument.partition("=")[0] == "--model" for argument in passed)
    return ["--settings", settings, *([] if is_given else ["--model", model])]


def _write_settings(variables: Mapping[str, str], own: str | None, directory: Path) -> str:
    """Return the value of `--settings`: our variables, and the settings that the user passes.

    Variables in the settings of a user or a project replace those of the process. They must not
    send the key of the gateway elsewhere, so ours are passed as settings, too, which replace all
    others; the key itself is in the environment only, where other users cannot see it. Settings
    that the user passes in a file are passed in a file, for the same reason."""
    document = {} if own is None else _read_settings(own)
    merged = {**document, "env": {**variables, **document.get("env", {})}}
    text = msgspec.json.encode(merged)
    if own is None or _is_json(own):
        return text.decode()
    path = directory / "claude-settings.json"
    replace_file(path, text)
    return str(path)


def _is_json(settings: str) -> bool:
    return settings.lstrip().startswith("{")


def _read_settings(own: str) -> dict[str, Any]:
    """Read the user's value of `--settings`, JSON or the path of a file, as Claude Code does."""
    path = Path(own).expanduser()
    with name_file(Path("--settings")):
        if _is_json(own):
            return parse_settings(own)
        data = read_file(path)
        if data is None:
            raise ConfigError(f"the file {own} does not exist.")
        return parse_settings(data.decode("utf-8", "replace"))


def _take_settings(passed: Sequence[str]) -> tuple[str | None, list[str]]:
    """Separate the last value of `--settings` from the other arguments of Claude Code."""
    rest = [*passed]
    found = None
    position = 0
    while position < len(rest) and rest[position] != "--":
        name, equals, value = rest[position].partition("=")
        size = 1 if equals else 2
        if name != "--settings" or position + size > len(rest):
            position += 1
            continue
        found = value if equals else rest[position + 1]
        del rest[position : position + size]
    return found, rest
