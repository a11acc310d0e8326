"""An agent as a process: found, started with a gateway, and ended with its exit status."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from antiphon.cli.launcher.gateway import (
    RunningGateway,
    describe_use,
    find_gateway,
    start_gateway,
)
from antiphon.cli.load_config import find_config_path
from antiphon.cli.provider_sources import describe_providers, find_real_providers
from antiphon.cli.terminal import print_error
from antiphon.config import Config, data_directory
from antiphon.errors import ProgramNotFound
from antiphon.providers import echo
from antiphon.providers.registry import inspect_providers

_TRACE_S = 0.6  # the trace of the last request is written within half a second


class Program(NamedTuple):
    """An agent that is installed as a command."""

    title: str
    command: str
    variable: str
    """The environment variable that names another program to start."""
    installation: str
    """How to install it."""

    def find(self, environment: Mapping[str, str]) -> str:
        """Return the path of the program; raises `ProgramNotFound`."""
        configured = environment.get(self.variable)
        found = shutil.which(configured or self.command)
        if found:
            return found
        if configured:
            raise ProgramNotFound(
                f"${self.variable} is {configured!r}, which is not an executable program: correct"
                f" it, or unset it to use `{self.command}` from the PATH."
            )
        raise ProgramNotFound(
            f"{self.command} is not installed. Install it with {self.installation}, or set"
            f" ${self.variable} if it is not on the PATH."
        )


class Launch(NamedTuple):
    """How an agent is started: its command line, and its environment."""

    command: Sequence[str]
    environment: Mapping[str, str]


Prepare = Callable[[RunningGateway, Path], Launch]
"""Prepares an agent for a gateway; may write files for it into the directory."""


def run_program(config: Config, explicit: str | None, prepare: Prepare, model: str = "") -> int:
    """Run an agent with the gateway at the configured address, or with one that is started on a
    free port and stopped when the agent exits. `explicit` is the configuration file, if it was
    named, `model` the model."""
    _report_ignored_file(explicit)
    gateway = find_gateway(config)
    if gateway is not None and _has_provider(gateway, config, model):
        command, environment = prepare(gateway, data_directory(os.environ))
        sys.stdout.flush()
        if not sys.stderr.isatty():  # the gateway runs anyway: nothing is left to stop or to say
            os.execve(command[0], [*command], environment)
        with _SignalForwarder() as forwarder:
            return _run_and_describe(forwarder, gateway, command, environment)
    with (
        _SignalForwarder() as forwarder,
        start_gateway(config, explicit) as gateway,
        tempfile.TemporaryDirectory(prefix="antiphon-") as directory,
    ):
        command, environment = prepare(gateway, Path(directory))
        return _run_and_describe(forwarder, gateway, command, environment)


def _run_and_describe(
    forwarder: _SignalForwarder,
    gateway: RunningGateway,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> int:
    """Run an agent; on a terminal, say in one line what it has used."""
    began_ms = time.time_ns() // 1_000_000
    code = forwarder.run(command, environment)
    if sys.stderr.isatty():
        time.sleep(_TRACE_S)
        if line := describe_use(gateway, began_ms):
            sys.stderr.write(f"antiphon: {line}\n")
    return code


def _report_ignored_file(explicit: str | None) -> None:
    """Say that the file of this directory, which other commands read, is not read here."""
    if find_config_path(explicit) != find_config_path(explicit, search_cwd=False):
        print_error(
            "ignoring ./antiphon.toml: a project of others could send your keys anywhere. Use"
            " --config antiphon.toml to trust it."
        )


def _has_provider(gateway: RunningGateway, config: Config, model: str) -> bool:
    """Whether a running gateway has the provider that is needed; if not, say so."""
    missing = _find_missing_provider(gateway.catalog, config, model)
    if missing:
        print_error(
            f"the gateway at {gateway.base_url} does not have {missing}: starting another one for"
            " this session. To update the first one, restart it in this shell."
        )
    return not missing


def _find_missing_provider(catalog: Mapping[str, Any], config: Config, model: str) -> str:
    """Describe the provider that is needed and that a gateway does not have, as far as this shell
    knows it; empty: none. The keys of a gateway are those of the shell it was started in."""
    there = {entry["owned_by"] for entry in catalog["data"]} - {echo.SPEC.name}
    providers, _ = inspect_providers(config, os.environ)
    here = {each.name: each for each in find_real_providers(providers.values())}
    wanted = model.partition("/")[0] if "/" in model else ""
    lacking = [wanted] if wanted in here and wanted not in there else []
    if not wanted and not there:
        lacking = [*here][:1]
    return "".join(describe_providers([here[name] for name in lacking], config, os.environ))


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate our own arguments, which come first, from those that are passed on to the agent.

    Agents have options of the same names: a `--config` whose value contains `key=value` is Codex's.
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


def warn_without_provider(gateway: RunningGateway, title: str) -> None:
    """Say so if the gateway has nothing but the built-in test models."""
    if all(entry["owned_by"] == echo.SPEC.name for entry in gateway.catalog["data"]):
        print_error(
            f"no provider is configured: {title} runs with the built-in echo model, which only"
            " repeats its input. Set an API key such as DEEPSEEK_API_KEY, or run `antiphon init`,"
            " and restart the gateway."
        )


def warn_before_setup(catalog: Mapping[str, Any], config: Config, model: str, title: str) -> None:
    """Say so if an agent would be set up with the built-in test model, or with a gateway that lacks
    a provider of this shell. `model` is the one that was named."""
    missing = _find_missing_provider(catalog, config, model)
    if missing and find_gateway(config) is not None:
        print_error(
            f"the running gateway does not have {missing}. Restart it in this shell, and run this"
            " command again."
        )
    elif missing and not model:
        print_error(
            f"no gateway is running, so the models of {missing} are not known, and {title} would"
            " use the built-in echo model, which only repeats its input. Start the gateway with"
            " `antiphon serve` and run this command again, or name a model with --model."
        )
    elif not missing and all(entry["owned_by"] == echo.SPEC.name for entry in catalog["data"]):
        print_error(
            f"no provider is configured: {title} would use the built-in echo model, which only"
            " repeats its input. Set an API key such as DEEPSEEK_API_KEY, restart the gateway, and"
            " run this command again."
        )


def make_environment(gateway: RunningGateway, more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with more variables, and without a proxy to the gateway."""
    variables = {**os.environ, **more}
    if any(name.lower() in ("http_proxy", "all_proxy") for name in variables):
        variables |= make_proxy_exceptions(gateway)
    return variables


def make_proxy_exceptions(gateway: RunningGateway) -> dict[str, str]:
    """Return the variables that exclude the gateway, and what the user excludes, from a proxy."""
    excluded = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    host = urlsplit(gateway.base_url).hostname or ""
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(filter(None, (excluded, host))))


class _SignalForwarder:
    """Runs the agent as a child process and forwards signals to it, so that the gateway is stopped.

    The terminal sends Ctrl-C to the agent by itself, so SIGINT and SIGQUIT are ignored here while
    it runs and after it has ended; SIGTERM and SIGHUP are forwarded. Before it is started, every
    signal ends this process.
    """

    def __init__(self) -> None:
        self._agent: subprocess.Popen[bytes] | None = None
        self._is_starting = False
        self._pending: list[int] = []
        """Signals that arrived while the agent was being started; it may run already."""
        self._previous: dict[int, Any] = {}
        """The actions of the signals before this context, by number."""

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, action in self._previous.items():
            signal.signal(number, action)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the agent and return its exit status; 128 + N if signal N ended it, as shells do."""
        self._is_starting = True
        self._agent = subprocess.Popen(command, env=environment)
        for number in self._pending:
            self._agent.send_signal(number)
        code = self._agent.wait()
        return code if code >= 0 else 128 - code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_starting:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        if number in _TERMINAL_SIGNALS:
            return
        if self._agent is None:
            self._pending.append(number)
        else:
            self._agent.send_signal(number)


_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
_SIGNALS = (*_TERMINAL_SIGNALS, signal.SIGTERM, signal.SIGHUP)
