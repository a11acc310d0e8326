"""`antiphon codex setup` and `undo`: add the gateway to Codex's `config.toml`, and remove it."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.text import Text

from antiphon.cli.codex.config import CodexSettings, install_settings, remove_settings
from antiphon.cli.launcher.change import (
    STYLES,
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
from antiphon.errors import ConfigError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_SHOWN_MODELS = 6


def add(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    setup = commands.add_parser("setup", help="add the gateway to Codex's own configuration")
    setup.description = (
        "Add the gateway and its models to Codex's config.toml, so that `codex` uses it by\n"
        "itself. The change is shown before it is written; settings that it replaces are\n"
        "commented out."
    )
    undo = commands.add_parser("undo", help="remove the gateway from Codex's configuration")
    undo.description = "Remove what `antiphon codex setup` has added, and nothing else."
    add_setup_options(setup, run_setup)
    add_undo_options(undo, run_undo)


def find_codex_config(environment: Mapping[str, str]) -> Path:
    home = environment.get("CODEX_HOME") or "~/.codex"
    return Path(home).expanduser().absolute() / "config.toml"


def choose_model(catalog: Mapping[str, Any], path: Path) -> str:
    """Choose the model of Codex's configuration if the gateway has it, else the default one."""
    configured = _read_setting(path, "model")
    if isinstance(configured, str) and _has_model(catalog, configured):
        return configured
    default: str = catalog["antiphon"]["default_model"]
    return default


def _has_model(catalog: Mapping[str, Any], name: str) -> bool:
    """Whether a gateway lists a model, by this name or behind its provider's, or has the provider
    of `provider/model`, of whose models it may list only some."""
    listed = {entry["id"] for entry in catalog["data"]}
    owners = {entry["owned_by"] for entry in catalog["data"]}
    names = {name, *(f"{owner}/{name}" for owner in owners)}
    return bool(names & listed) or name.partition("/")[0] in owners


def has_catalog_file(path: Path) -> bool:
    """Whether Codex's configuration names a catalog file, which would replace any other catalog."""
    return _read_setting(path, "model_catalog_json") is not None


def _read_setting(path: Path, key: str) -> object:
    with suppress(OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):  # Codex reports these
        return tomllib.loads(path.read_text(encoding="utf-8")).get(key)
    return None


def run_setup(args: argparse.Namespace) -> int:
    config = with_local_servers(load_config_or_default(args.config, search_cwd=False))
    if not config.server.port:
        raise ConfigError(
            "server.port is 0, a different port at each start: set a fixed port under [server],"
            " so that Codex can find the gateway."
        )
    path = find_codex_config(os.environ)
    change = _ConfigChange(path)
    catalog = read_catalog(config)
    settings = CodexSettings(
        base_url=make_base_url(config.server.host, config.server.port),
        model=args.model or choose_model(catalog, path),
        catalog=str(change.catalog),
        requires_key=bool(config.server.api_keys),
    )
    after = change.install(settings)
    warn_before_setup(catalog, config, args.model or "", "Codex")
    status = change.confirm(after, encode_catalog(catalog), use_defaults=args.yes)
    if status is not None:
        return status
    change.check_unchanged()
    if after != change.before and change.existed and not change.is_installed:
        replace_file(change.backup, change.before.encode())
    replace_file(change.catalog, encode_catalog(catalog))
    replace_file(path, after.encode())
    _print_next_steps(path, settings)
    return 0


def _print_next_steps(path: Path, settings: CodexSettings) -> None:
    console = make_console()
    console.print(Text.assemble(("✓ ", "bold green"), f"wrote {path}"), soft_wrap=True)
    key = f"; set ${KEY_VARIABLE} to a key of the gateway" if settings.requires_key else ""
    console.print("  antiphon serve       must be running", soft_wrap=True)
    console.print(f"  codex                now uses the gateway{key}", soft_wrap=True)
    console.print("  antiphon codex undo  reverts this setup", soft_wrap=True)


def run_undo(args: argparse.Namespace) -> int:
    path = find_codex_config(os.environ)
    change = _ConfigChange(path)
    after = change.remove()
    if (status := change.confirm(after, None, use_defaults=args.yes)) is not None:
        return status
    change.check_unchanged()
    backup = read_file(change.backup)
    if change.existed and not after and backup is None:
        path.unlink()  # `setup` created the file
    elif after != change.before:
        replace_file(path, after.encode())
    for leftover in (change.catalog, *([change.backup] if backup == after.encode() else [])):
        with suppress(FileNotFoundError):
            leftover.unlink()
    console = make_console()
    console.print(Text.assemble(("✓ ", "bold green"), f"removed the gateway from {path}"))
    if change.backup.exists():
        console.print(f"  {change.backup} is the file as it was before setup.", soft_wrap=True)
    return 0


class _ConfigChange(UserFile):
    """A change of Codex's configuration: read, shown, confirmed; and the catalog beside it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "TOML")
        self.catalog = path.parent / "antiphon-catalog.json"

    def install(self, settings: CodexSettings) -> str:
        with name_file(self.path):
            return install_settings(self.before, settings)

    def remove(self) -> str:
        with name_file(self.path):
            return remove_settings(self.before)

    @property
    def is_installed(self) -> bool:
        return self.remove() != self.before

    def confirm(self, after: str, catalog: bytes | None, *, use_defaults: bool) -> int | None:
        """Show the change and ask; return the exit status if nothing is to be written."""
        console = make_console()
        previous = read_file(self.catalog)
        if after == self.before and catalog == previous:
            console.print(f"{self.path} is up to date; nothing to change.", soft_wrap=True)
            return 0
        self.print_diff(console, after)
        for sign, names in _compare_catalogs(_read_models(previous), _read_models(catalog)):
            line = f"{sign} {self.catalog.name}: {_summarize_names(names)}"
            console.print(Text(line, STYLES[sign]), soft_wrap=True)
        if Prompts(console, use_defaults=use_defaults).confirm("Write this change?", default=True):
            return None
        console.print("Nothing was written.")
        return 1


def encode_catalog(catalog: Mapping[str, Any]) -> bytes:
    """Encode the part of the model list that Codex reads, as indented JSON."""
    document = msgspec.json.encode({"models": catalog["models"]})
    return msgspec.json.format(document, indent=2) + b"\n"


def _compare_catalogs(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    """Yield models to remove (`-`) and to add (`+`); a changed model is both."""
    for sign, source, other in (("-", before, after), ("+", after, before)):
        if names := [name for name in source if source[name] != other.get(name)]:
            yield sign, names


def _summarize_names(names: Sequence[str]) -> str:
    count = f"{len(names)} model{'s' if len(names) > 1 else ''}"
    more = " …" if len(names) > _SHOWN_MODELS else ""
    return f"{count}, {', '.join(names[:_SHOWN_MODELS])}{more}"


def _read_models(catalog: bytes | None) -> dict[str, Any]:
    """Read the models of a catalog file by name; none if it is missing or cannot be parsed."""
    with suppress(ValueError, KeyError, TypeError):
        return {each["slug"]: each for each in msgspec.json.decode(catalog or b"")["models"]}
    return {}
