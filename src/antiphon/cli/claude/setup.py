"""`antiphon claude setup` and `undo`: add the gateway to Claude Code's `settings.json`, and remove
it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from antiphon.cli.claude.settings import (
    ClaudeSettings,
    install_settings,
    parse_settings,
    remove_settings,
)
from antiphon.cli.launcher.change import (
    UserFile,
    add_setup_options,
    add_undo_options,
    name_file,
)
from antiphon.cli.launcher.files import read_file, replace_file
from antiphon.cli.launcher.gateway import KEY_VARIABLE, read_catalog
from antiphon.cli.launcher.program import warn_before_setup
from antiphon.cli.load_config import load_config_or_default, make_base_url, with_local_servers
from antiphon.cli.prompts import Prompts
from antiphon.cli.terminal import make_console
from antiphon.config import Config
from antiphon.errors import ConfigError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

PROFILE = "claude-code"


def add(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    setup = commands.add_parser("setup", help="add the gateway to Claude Code's own settings")
    setup.description = (
        "Add the gateway and its models to Claude Code's settings.json, so that `claude` uses it\n"
        "by itself. The change is shown before it is written; `undo` restores what it replaces."
    )
    undo = commands.add_parser("undo", help="remove the gateway from Claude Code's settings")
    undo.description = "Remove what `antiphon claude setup` has added, and nothing else."
    add_setup_options(setup, run_setup)
    add_undo_options(undo, run_undo)


def find_settings_file(environment: Mapping[str, str]) -> Path:
    home = environment.get("CLAUDE_CONFIG_DIR") or "~/.claude"
    return Path(home).expanduser().absolute() / "settings.json"


def choose_model(catalog: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Choose the model of Claude Code's environment or settings if the gateway lists it, else the
    default one."""
    names = {entry["slug"] for entry in catalog["models"]}
    settings: dict[str, Any] = {}
    with suppress(OSError, UnicodeDecodeError, ConfigError):  # Claude Code reports these
        settings = parse_settings(find_settings_file(environment).read_text(encoding="utf-8"))
    for wanted in (environment.get("ANTHROPIC_MODEL"), settings.get("model")):
        if isinstance(wanted, str) and wanted in names:
            return wanted
    default: str = catalog["antiphon"]["default_model"]
    return default


def find_window(catalog: Mapping[str, Any], model: str) -> int | None:
    """The context window of a model that the gateway lists."""
    windows = {entry["slug"]: entry.get("context_window") for entry in catalog["models"]}
    return windows.get(model)


def small_model(config: Config) -> str:
    """The model of small requests, from `[clients.claude-code] small_model`; empty: none."""
    client = config.clients.get(PROFILE)
    return (client.small_model or "") if client else ""


def run_setup(args: argparse.Namespace) -> int:
    config = with_local_servers(load_config_or_default(args.config, search_cwd=False))
    if not config.server.port:
        raise ConfigError(
            "server.port is 0, a different port at each start: set a fixed port under [server],"
            " so that Claude Code can find the gateway."
        )
    path = find_settings_file(os.environ)
    file = UserFile(path, "JSON")
    catalog = read_catalog(config)
    model = args.model or choose_model(catalog, os.environ)
    settings = ClaudeSettings(
        base_url=make_base_url(config.server.host, config.server.port),
        model=model,
        small_model=small_model(config),
        context_window=find_window(catalog, model),
        requires_key=bool(config.server.api_keys),
    )
    with name_file(path):
        after = install_settings(file.before, settings)
    warn_before_setup(catalog, config, args.model or "", "Claude Code")
    if (status := _confirm(file, after, use_defaults=args.yes)) is not None:
        return status
    file.check_unchanged()
    if read_file(file.backup) is None:
        replace_file(file.backup, file.before.encode())
    replace_file(path, after.encode())
    _print_next_steps(path, settings)
    return 0


def _print_next_steps(path: Path, settings: ClaudeSettings) -> None:
    console = make_console()
    console.print(Text.assemble(("✓ ", "bold green"), f"wrote {path}"), soft_wrap=True)
    key = f"; set ${KEY_VARIABLE} to a key of the gateway" if settings.requires_key else ""
    console.print("  antiphon serve        must be running", soft_wrap=True)
    console.print(f"  claude                now uses the gateway{key}", soft_wrap=True)
    console.print("  antiphon claude undo  reverts this setup", soft_wrap=True)


def run_undo(args: argparse.Namespace) -> int:
    path = find_settings_file(os.environ)
    file = UserFile(path, "JSON")
    original = read_file(file.backup)
    if original is None:
        make_console().print(f"{path} has no setup of Antiphon; nothing to change.")
        return 0
    with name_file(path):
        after = _undo(file.before, original.decode())
    if (status := _confirm(file, after, use_defaults=args.yes)) is not None:
        return status
    file.check_unchanged()
    if file.existed and not after:
        path.unlink()  # `setup` created the file
    elif after != file.before:
        replace_file(path, after.encode())
    file.backup.unlink()
    console = make_console()
    console.print(Text.assemble(("✓ ", "bold green"), f"removed the gateway from {path}"))
    return 0


def _undo(text: str, original: str) -> str:
    """The file without our members: as it was to the byte, if nothing else has changed."""
    after = remove_settings(text, original)
    return original if parse_settings(after) == parse_settings(original) else after


def _confirm(file: UserFile, after: str, *, use_defaults: bool) -> int | None:
    """Show the change and ask; return the exit status if nothing is to be written."""
    console = make_console()
    if after == file.before and file.existed:
        console.print(f"{file.path} is up to date; nothing to change.", soft_wrap=True)
        return 0
    file.print_diff(console, after)
    if Prompts(console, use_defaults=use_defaults).confirm("Write this change?", default=True):
        return None
    console.print("Nothing was written.")
    return 1
