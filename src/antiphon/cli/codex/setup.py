"""`antiphon codex setup` and `undo`: the gateway in Codex's own configuration, and out of it."""

from __future__ import annotations

import argparse
import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.text import Text

from antiphon.cli.codex.config import KEY_VARIABLE, Settings, installed, removed
from antiphon.cli.codex.files import read_file, replace_file
from antiphon.cli.codex.gateway import catalog_bytes, find_gateway
from antiphon.cli.load_config import base_url, load_settings
from antiphon.cli.prompts import Prompts
from antiphon.cli.terminal import make_console
from antiphon.config import Config
from antiphon.engine.routing import make_router
from antiphon.errors import ConfigError
from antiphon.providers.registry import build_providers
from antiphon.server.model_catalog import model_list

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_SHOWN_MODELS = 6
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def add(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    setup = commands.add_parser("setup", help="put the gateway into Codex's own configuration")
    setup.description = (
        "Add the gateway and its models to Codex's config.toml, so that `codex` uses it by itself."
        " The change is shown before it is made; settings that it replaces become comments."
    )
    # Suppressed, for otherwise a default would undo what was said before the word `setup`.
    for option, metavar, about in (
        ("--config", "FILE", "the gateway's configuration, instead of the one that is found"),
        ("--model", "NAME", "the model, instead of the default one"),
    ):
        setup.add_argument(option, metavar=metavar, default=argparse.SUPPRESS, help=about)
    undo = commands.add_parser("undo", help="take the gateway out of Codex's configuration again")
    undo.description = "Take out what `antiphon codex setup` has added, and nothing else."
    for parser, run in ((setup, run_setup), (undo, run_undo)):
        parser.add_argument("--yes", action="store_true", help="do it without asking")
        parser.set_defaults(run=run)


def config_path(environment: Mapping[str, str]) -> Path:
    home = environment.get("CODEX_HOME") or "~/.codex"
    return Path(home).expanduser().absolute() / "config.toml"


def preferred_model(catalog: Mapping[str, Any], path: Path) -> str:
    """The model that the user has chosen in Codex, if the gateway has it; or the default one."""
    own: object = None
    with suppress(OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):  # Codex says so itself
        own = tomllib.loads(path.read_text(encoding="utf-8")).get("model")
    names = [entry["slug"] for entry in catalog["models"]]
    return own if isinstance(own, str) and own in names else catalog["antiphon"]["default_model"]


def run_setup(args: argparse.Namespace) -> int:
    config = load_settings(args.config, here=False)
    if not config.server.port:
        raise ConfigError("server.port is 0, a free one each time: Codex needs one that stays.")
    path = config_path(os.environ)
    change = _Change(path)
    catalog = _catalog(config)
    settings = Settings(
        base_url=base_url(config.server.host, config.server.port),
        model=args.model or preferred_model(catalog, path),
        catalog=str(change.catalog),
        with_key=bool(config.server.api_keys),
    )
    after = installed(change.before, settings)
    if (status := change.confirm(after, catalog_bytes(catalog), silent=args.yes)) is not None:
        return status
    change.refuse_another()
    if after != change.before and change.existed and removed(change.before) == change.before:
        replace_file(change.backup, change.before.encode())
    replace_file(change.catalog, catalog_bytes(catalog))
    replace_file(path, after.encode())
    console = make_console()
    console.print(Text.assemble(("✓ ", "bold green"), f"wrote {path}"), soft_wrap=True)
    key = f" (with a key of its own in ${KEY_VARIABLE})" if settings.with_key else ""
    console.print(f"  antiphon serve       has to be running{key}", soft_wrap=True)
    console.print("  codex                uses it from now on", soft_wrap=True)
    console.print("  antiphon codex undo  takes it out again", soft_wrap=True)
    return 0


def run_undo(args: argparse.Namespace) -> int:
    path = config_path(os.environ)
    change = _Change(path)
    after = removed(change.before)
    if (status := change.confirm(after, None, silent=args.yes)) is not None:
        return status
    change.refuse_another()
    backup = read_file(change.backup)
    if change.existed and not after and backup is None:
        path.unlink()  # there was none before
    elif after != change.before:
        replace_file(path, after.encode())
    for leftover in (change.catalog, *([change.backup] if backup == after.encode() else [])):
        with suppress(FileNotFoundError):
            leftover.unlink()
    console = make_console()
    console.print(Text.assemble(("✓ ", "bold green"), f"took the gateway out of {path}"))
    if change.backup.exists():
        console.print(f"  {change.backup} is how it was before the setup.", soft_wrap=True)
    return 0


class _Change:
    """Codex's configuration as it is, and the question whether it may become something else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.catalog = path.parent / "antiphon-catalog.json"
        self.backup = path.parent / "config.toml.before-antiphon"
        self._data = read_file(path)
        self.existed = self._data is not None
        try:
            self.before = (self._data or b"").decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not valid TOML: it is not UTF-8 text") from error

    def refuse_another(self) -> None:
        """Codex writes to its file, too, perhaps while a question waits for its answer."""
        if read_file(self.path) != self._data:
            raise ConfigError(f"{self.path} has changed meanwhile; nothing was written. Try again.")

    def confirm(self, after: str, catalog: bytes | None, *, silent: bool) -> int | None:
        """Show what would change, and ask; the exit status if nothing is to be written."""
        console = make_console()
        known = read_file(self.catalog)
        if after == self.before and catalog == known:
            console.print("Nothing has to be changed.")
            return 0
        _show_diff(console, self.path, self.before, after)
        for sign, names in _catalog_changes(_slugs(known), _slugs(catalog)):
            line = f"{sign} {self.catalog.name}: {_listed(names)}"
            console.print(Text(line, _STYLES[sign]), soft_wrap=True)
        if Prompts(console, silent=silent).confirm("Write this?", default=True):
            return None
        console.print("Nothing was written.")
        return 1


def _catalog(config: Config) -> Mapping[str, Any]:
    """What the gateway says that is running, or would say if it were."""
    if gateway := find_gateway(config):
        return gateway.catalog
    router = make_router(config, build_providers(config, os.environ))
    return model_list(router, describes_images=bool(config.vision.model))


def _show_diff(console: Console, path: Path, before: str, after: str) -> None:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(path), str(path), "now", "then", lineterm=""
    )
    for line in lines:
        console.print(Text(line, _STYLES.get(line[:1], "")), soft_wrap=True)


def _catalog_changes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    """What is gone or was different, and what is new or different."""
    for sign, here, there in (("-", before, after), ("+", after, before)):
        if names := [name for name in here if here[name] != there.get(name)]:
            yield sign, names


def _listed(names: Sequence[str]) -> str:
    count = f"{len(names)} model{'s' if len(names) > 1 else ''}"
    more = " …" if len(names) > _SHOWN_MODELS else ""
    return f"{count}, {', '.join(names[:_SHOWN_MODELS])}{more}"


def _slugs(catalog: bytes | None) -> dict[str, Any]:
    with suppress(ValueError, KeyError, TypeError):
        return {each["slug"]: each for each in msgspec.json.decode(catalog or b"")["models"]}
    return {}
