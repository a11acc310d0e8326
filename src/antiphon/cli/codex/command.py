"""`antiphon codex`: run Codex CLI against the gateway without changing Codex's configuration.

All settings are passed on Codex's command line, as overrides (`-c key=value`) of its configuration.
The user's own configuration applies to everything else, and is never written.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, Self
from urllib.parse import urlsplit

import msgspec

from antiphon.cli.codex import setup as codex_setup
from antiphon.cli.codex.config import KEY_VARIABLE, CodexSettings
from antiphon.cli.codex.files import replace_file
from antiphon.cli.codex.gateway import (
    RunningGateway,
    encode_catalog,
    find_gateway,
    start_gateway,
)
from antiphon.cli.codex.setup import choose_model, find_codex_config, has_catalog_file
from antiphon.cli.load_config import add_config_option, load_config_or_default
from antiphon.cli.terminal import print_error
from antiphon.config import data_directory
from antiphon.errors import CodexNotFound
from antiphon.providers import echo

_FIRST_WITH_CATALOG_URL = (0, 166)
_VERSION_TIMEOUT_S = 10.0

_USAGE = """\
antiphon codex [--config FILE] [--model NAME] [arguments of codex …]
       antiphon codex setup [--config FILE] [--model NAME] [--yes]
       antiphon codex undo [--yes]"""

_EPILOG = """\
examples:
  antiphon codex                                    a session with the gateway's default model
  antiphon codex "why does this test fail?"         with a first prompt
  antiphon codex --model deepseek/deepseek-v4-pro   with another model; Codex's own -m works too
  antiphon codex exec "fix the tests"               non-interactive
  antiphon codex resume --last                      resume the last session
  antiphon codex setup                              configure `codex` to use the gateway
  antiphon codex undo                               revert the setup
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.usage = _USAGE
    parser.description = (
        "Run Codex CLI with the models of the gateway. A gateway that runs at the configured\n"
        "address is used; otherwise one is started, and stopped when Codex exits. Codex's own\n"
        "files are not changed. The options below come first; the rest is passed on to codex."
    )
    parser.epilog = _EPILOG
    add_config_option(parser, search_cwd=False)
    parser.add_argument("--model", metavar="NAME", help="the model, as `antiphon models` lists it")
    parser.set_defaults(run=run)
    codex_setup.add(
        parser.add_subparsers(title="permanent setup", metavar="COMMAND", prog="antiphon codex")
    )


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate our own arguments, which come first, from those that are passed on to Codex.

    Codex has options of the same names: a `--config` whose value contains `key=value` is Codex's.
    """
    rest = [*arguments]
    own: list[str] = []
    while rest:
        if rest[0] in ("setup", "undo"):
            return own + rest, []
        name, equals, value = rest[0].partition("=")
        if name not in ("--config", "--model", "--help", "-h"):
            break
        size = 1 if equals or name in ("--help", "-h") else 2
        value = value if equals else "".join(rest[1:2])
        if name == "--config" and "=" in value:
            break
        own += rest[:size]
        rest = rest[size:]
    return own, rest


def run(args: argparse.Namespace) -> int:
    program = _find_codex(os.environ)
    config = load_config_or_default(args.config, search_cwd=False)
    if gateway := find_gateway(config):
        path = data_directory(os.environ) / f"codex-{urlsplit(gateway.base_url).port}.json"
        _exec_codex(program, _build_command(program, gateway, path, args), gateway)
    with (
        _SignalForwarder() as forwarder,
        start_gateway(config, args.config) as gateway,
        tempfile.TemporaryDirectory(prefix="antiphon-") as directory,
    ):
        command = _build_command(program, gateway, Path(directory) / "catalog.json", args)
        return forwarder.run(command, _build_environment(gateway))


def _find_codex(environment: Mapping[str, str]) -> str:
    configured = environment.get("ANTIPHON_CODEX")
    program = shutil.which(configured or "codex")
    if program:
        return program
    if configured:
        raise CodexNotFound(
            f"$ANTIPHON_CODEX is {configured!r}, which is not an executable program: correct it,"
            " or unset it to use `codex` from the PATH."
        )
    raise CodexNotFound(
        "codex is not installed. Install it with `npm install -g @openai/codex` (on macOS also"
        " `brew install --cask codex`), or set $ANTIPHON_CODEX if it is not on the PATH."
    )


def _build_command(
    program: str, gateway: RunningGateway, catalog: Path, args: argparse.Namespace
) -> list[str]:
    """Return the command line. Codex reads the model catalog from the gateway; for a version that
    cannot, it is written to the file `catalog`."""
    _warn_without_provider(gateway)
    config = find_codex_config(os.environ)
    settings = CodexSettings(
        base_url=gateway.base_url,
        model=args.model or choose_model(gateway.catalog, config),
        catalog_url=f"{gateway.base_url}/models",
        requires_key=True,
    )
    if has_catalog_file(config) or not _reads_catalog_url(program):
        replace_file(catalog, encode_catalog(gateway.catalog))
        settings = msgspec.structs.replace(settings, catalog=str(catalog), catalog_url="")
    return [program, *settings.command_options(), *args.codex_arguments]


def _reads_catalog_url(program: str) -> bool:
    """Whether this Codex reads the catalog from `model_catalog_url`, as 0.166 does."""
    command = [program, "--version"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(rb"(\d+)\.(\d+)\.\d+", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_WITH_CATALOG_URL


def _warn_without_provider(gateway: RunningGateway) -> None:
    """Say so if the gateway has nothing but the built-in test models."""
    if all(entry["owned_by"] == echo.SPEC.name for entry in gateway.catalog["data"]):
        print_error(
            "no provider is configured: Codex runs with the built-in echo model, which only repeats"
            " its input. Set an API key such as DEEPSEEK_API_KEY, or run `antiphon init`, and"
            " restart the gateway."
        )


def _build_environment(gateway: RunningGateway) -> dict[str, str]:
    """Return this process's environment with the API key, and without a proxy to the gateway."""
    variables = {**os.environ, KEY_VARIABLE: gateway.key}
    if any(name.lower() in ("http_proxy", "all_proxy") for name in variables):
        excluded = variables.get("NO_PROXY") or variables.get("no_proxy") or ""
        host = urlsplit(gateway.base_url).hostname or ""
        variables["NO_PROXY"] = variables["no_proxy"] = ",".join(filter(None, (excluded, host)))
    return variables


def _exec_codex(program: str, command: list[str], gateway: RunningGateway) -> NoReturn:
    """Replace this process by Codex: with a gateway that runs anyway, nothing is left to stop."""
    sys.stdout.flush()
    os.execve(program, command, _build_environment(gateway))


class _SignalForwarder:
    """Runs Codex as a child process and forwards signals to it, so that the gateway is stopped.

    The terminal sends Ctrl-C to Codex by itself, so SIGINT and SIGQUIT are ignored here while Codex
    runs and after it has ended; SIGTERM and SIGHUP are forwarded. Before Codex is started, every
    signal ends this process.
    """

    def __init__(self) -> None:
        self._codex: subprocess.Popen[bytes] | None = None
        self._is_starting = False
        self._pending: list[int] = []
        """Signals that arrived while Codex was being started; it may run already."""

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, action in self._previous.items():
            signal.signal(number, action)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run Codex and return its exit status; 128 + N if signal N ended it, as shells do."""
        self._is_starting = True
        self._codex = subprocess.Popen(command, env=environment)
        for number in self._pending:
            self._codex.send_signal(number)
        code = self._codex.wait()
        return code if code >= 0 else 128 - code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_starting:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        if number in _TERMINAL_SIGNALS:
            return
        if self._codex is None:
            self._pending.append(number)
        else:
            self._codex.send_signal(number)


_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
_SIGNALS = (*_TERMINAL_SIGNALS, signal.SIGTERM, signal.SIGHUP)
