"""`antiphon codex`: Codex, in front of the gateway, with nothing to set up and nothing left behind.

Everything that Codex has to know goes onto its command line, as overrides of its configuration. The
user's own configuration stays in force for all the rest, and nobody writes to it.
"""

from __future__ import annotations

import argparse
import os
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

from antiphon.cli.codex import setup as codex_setup
from antiphon.cli.codex.config import KEY_VARIABLE, Settings
from antiphon.cli.codex.files import replace_file
from antiphon.cli.codex.gateway import Gateway, catalog_bytes, find_gateway, started_gateway
from antiphon.cli.codex.setup import config_path, preferred_model
from antiphon.cli.load_config import add_config_option, load_settings
from antiphon.config import data_directory
from antiphon.errors import CodexNotFound

_USAGE = """\
antiphon codex [--config FILE] [--model NAME] [what codex takes …]
       antiphon codex setup [--config FILE] [--model NAME] [--yes]
       antiphon codex undo [--yes]"""

_EPILOG = """\
examples:
  antiphon codex                                    a session, with the gateway's default model
  antiphon codex "why does this test fail?"         with a first question
  antiphon codex --model deepseek/deepseek-v4-pro   with another model; so does Codex's own -m
  antiphon codex exec "mend the tests"              without a screen
  antiphon codex resume --last                      go on where you stopped
  antiphon codex setup                              for good: `codex` alone uses the gateway then
  antiphon codex undo                               and no longer
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.usage = _USAGE
    parser.description = (
        "Run Codex with the models of the gateway: of the one that runs where the configuration\n"
        "says, or else of one that is started now and stopped when Codex ends. Nothing is written\n"
        "to Codex's own files. The options below come first; all else is passed on to codex."
    )
    parser.epilog = _EPILOG
    add_config_option(parser, here=False)
    parser.add_argument("--model", metavar="NAME", help="the model, by the gateway's name for it")
    parser.set_defaults(run=run)
    codex_setup.add(
        parser.add_subparsers(title="for good", metavar="COMMAND", prog="antiphon codex")
    )


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What of a command line is ours, and what is Codex's, which has options of the same name.

    Ours come first. A value of `--config` with `key=value` in it is meant for Codex.
    """
    left = [*words]
    ours: list[str] = []
    while left:
        if left[0] in ("setup", "undo"):
            return ours + left, []
        name, equals, value = left[0].partition("=")
        if name not in ("--config", "--model", "--help", "-h"):
            break
        size = 1 if equals or name in ("--help", "-h") else 2
        given = value if equals else "".join(left[1:2])
        if name == "--config" and "=" in given:
            break
        ours += left[:size]
        left = left[size:]
    return ours, left


def run(args: argparse.Namespace) -> int:
    program = _find_codex(os.environ)
    config = load_settings(args.config, here=False)
    if gateway := find_gateway(config):
        path = data_directory(os.environ) / f"codex-{urlsplit(gateway.base_url).port}.json"
        _become(program, _command(program, gateway, path, args), gateway)
    with (
        _Switchboard() as switchboard,
        started_gateway(config, args.config) as gateway,
        tempfile.TemporaryDirectory(prefix="antiphon-") as place,
    ):
        command = _command(program, gateway, Path(place) / "catalog.json", args)
        return switchboard.run(command, _environment(gateway))


def _find_codex(environment: Mapping[str, str]) -> str:
    named = environment.get("ANTIPHON_CODEX")
    found = shutil.which(named or "codex")
    if found:
        return found
    if named:
        raise CodexNotFound(f"$ANTIPHON_CODEX is {named!r}, but no program is there.")
    raise CodexNotFound(
        "codex is not installed. `npm install -g @openai/codex` installs it (or, on a Mac,"
        " `brew install --cask codex`); $ANTIPHON_CODEX may name it where it is not on the PATH."
    )


def _command(program: str, gateway: Gateway, catalog: Path, args: argparse.Namespace) -> list[str]:
    replace_file(catalog, catalog_bytes(gateway.catalog))
    settings = Settings(
        base_url=gateway.base_url,
        model=args.model or preferred_model(gateway.catalog, config_path(os.environ)),
        catalog=str(catalog),
        with_key=True,
    )
    return [program, *settings.options(), *args.foreign]


def _environment(gateway: Gateway) -> dict[str, str]:
    """Ours, with the key; and no proxy between Codex and this machine."""
    found = {**os.environ, KEY_VARIABLE: gateway.key}
    if any(name.lower() in ("http_proxy", "all_proxy") for name in found):
        direct = found.get("NO_PROXY") or found.get("no_proxy") or ""
        host = urlsplit(gateway.base_url).hostname or ""
        found["NO_PROXY"] = found["no_proxy"] = ",".join(filter(None, (direct, host)))
    return found


def _become(program: str, command: list[str], gateway: Gateway) -> NoReturn:
    """From here on this process is Codex."""
    sys.stdout.flush()
    os.execve(program, command, _environment(gateway))


class _Switchboard:
    """Who gets which signal, as long as a gateway has to be stopped when all is over.

    Ctrl-C reaches Codex by itself, and means nothing here while Codex runs or just has; whoever
    else wants us to end wants Codex to end.
    """

    def __init__(self) -> None:
        self._codex: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *problem: object) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run Codex to its end. The status is as shells tell it, also after a signal."""
        self._codex = subprocess.Popen(command, env=environment)
        code = self._codex.wait()
        return code if code >= 0 else 128 - code

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._codex is None:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        if number not in _OF_THE_KEYBOARD:
            self._codex.send_signal(number)


_OF_THE_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_SIGNALS = (*_OF_THE_KEYBOARD, signal.SIGTERM, signal.SIGHUP)
