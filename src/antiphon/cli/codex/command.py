"""`antiphon codex`: run Codex CLI against the gateway without changing Codex's configuration.

All settings are passed on Codex's command line, as overrides (`-c key=value`) of its configuration.
The user's own configuration applies to everything else, and is never written.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from antiphon.cli.codex import setup as codex_setup
from antiphon.cli.codex.config import CodexSettings
from antiphon.cli.codex.setup import (
    choose_model,
    encode_catalog,
    find_codex_config,
    has_catalog_file,
)
from antiphon.cli.launcher.files import replace_file
from antiphon.cli.launcher.gateway import KEY_VARIABLE, RunningGateway
from antiphon.cli.launcher.program import (
    Launch,
    Program,
    make_environment,
    run_program,
    warn_without_provider,
)
from antiphon.cli.load_config import add_config_option, load_config_or_default, with_local_servers

CODEX = Program(
    title="Codex",
    command="codex",
    variable="ANTIPHON_CODEX",
    installation="`npm install -g @openai/codex` (on macOS also `brew install --cask codex`)",
)
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


def run(args: argparse.Namespace) -> int:
    program = CODEX.find(os.environ)
    config = with_local_servers(load_config_or_default(args.config, search_cwd=False))

    def prepare(gateway: RunningGateway, directory: Path) -> Launch:
        catalog = directory / f"codex-{urlsplit(gateway.base_url).port}.json"
        command = _build_command(program, gateway, catalog, args)
        return Launch(command, make_environment(gateway, {KEY_VARIABLE: gateway.key}))

    return run_program(config, args.config, prepare, _find_requested_model(args))


def _find_requested_model(args: argparse.Namespace) -> str:
    """The model of `--model`, also as an option of Codex; empty: the default."""
    words = args.passed_arguments
    given = (following for word, following in pairwise(words) if word in ("-m", "--model"))
    return args.model or next(given, "")


def _build_command(
    program: str, gateway: RunningGateway, catalog: Path, args: argparse.Namespace
) -> list[str]:
    """Return the command line. Codex reads the model catalog from the gateway; for a version that
    cannot, it is written to the file `catalog`."""
    warn_without_provider(gateway, CODEX.title)
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
    return [program, *settings.command_options(), *args.passed_arguments]


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
