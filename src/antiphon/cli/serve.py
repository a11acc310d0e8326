"""`antiphon serve`: run the gateway, and say how to reach it."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from antiphon import __version__
from antiphon.cli.load_config import add_config_option, base_url, find_settings, load_settings
from antiphon.cli.terminal import complain, is_terminal, make_console
from antiphon.config import Config, ServerConfig
from antiphon.engine.engine import Engine
from antiphon.errors import ConfigError
from antiphon.server.log_output import open_log
from antiphon.server.serve import GatewayServer, serve

_SHOWN_MODELS = 6

_EPILOG = """\
examples:
  antiphon serve                         on 127.0.0.1:8484
  antiphon serve --port 9000             on another port
  antiphon serve --config team.toml      with another configuration
  DEEPSEEK_API_KEY=… antiphon serve      without a file: keys name their providers
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the gateway until Ctrl-C or SIGTERM. Without a configuration file, providers are\n"
        "found by the keys in the environment. The built-in echo models need neither key nor\n"
        "network."
    )
    parser.epilog = _EPILOG
    add_config_option(parser)
    parser.add_argument("--host", help="address to listen on, instead of [server] host")
    parser.add_argument(
        "--port", type=int, help="port to listen on, instead of [server] port; 0 takes a free one"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = _overridden(load_settings(args.config), args)
    emit = open_log(config.log)
    announce = _announcer(config.server, find_settings(args.config))
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(config, os.environ, emit, announce))
    except OSError as error:
        complain(_binding_problem(error, config.server))
        return 1
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows has none; the standard loop does the same, a little slower
        return None
    return uvloop.new_event_loop


def _overridden(config: Config, args: argparse.Namespace) -> Config:
    """The configuration, with what the command line says instead."""
    given = {name: value for name in ("host", "port") if (value := getattr(args, name)) is not None}
    if not 0 <= given.get("port", 0) <= 65_535:
        raise ConfigError(f"--port {args.port}: a port is a number from 0 to 65535")
    server = msgspec.structs.replace(config.server, **given)
    return msgspec.structs.replace(config, server=server)


def _binding_problem(error: OSError, server: ServerConfig) -> str:
    """Why the port could not be had, and what to do."""
    place = f"port {server.port} on {server.host}"
    if error.errno == errno.EADDRINUSE:
        return f"{place} is in use: stop what is running there, or choose another with --port."
    if error.errno == errno.EACCES:
        return f"{place} is not allowed for you: choose one above 1023 with --port."
    return f"cannot listen on {place}: {error.strerror or error}"


# What is said once it runs


def _announcer(
    server: ServerConfig, source: Path | None
) -> Callable[[GatewayServer, Engine], None]:
    def announce(gateway: GatewayServer, engine: Engine) -> None:
        address = base_url(server.host, gateway.port)
        names = engine.router.names()
        curl = _curl(address, names[0], with_key=bool(server.api_keys))
        if is_terminal():
            _show_banner(address, _facts(names, server, source), curl)
        else:
            print(f"antiphon {__version__} listens on {address}", flush=True)

    return announce


def _show_banner(address: str, facts: Sequence[tuple[str, str]], curl: str) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("base URL", style="dim"), Text(address, style="bold green"))
    for name, value in facts:
        grid.add_row(Text(name, style="dim"), Text(value))
    title = Text.assemble(("antiphon", "bold"), f" {__version__}")
    console = make_console()
    console.print(Panel(grid, title=title, title_align="left", border_style="green", expand=False))
    console.print(Text.assemble(("Try it:  ", "dim"), curl), soft_wrap=True)
    console.print(Text("Ctrl-C stops it.", style="dim"))


def _facts(
    names: Sequence[str], server: ServerConfig, source: Path | None
) -> list[tuple[str, str]]:
    shown = ", ".join(names[:_SHOWN_MODELS])
    more = len(names) - _SHOWN_MODELS
    clients = "this machine only, no key needed"
    if server.api_keys:
        clients = f"with a key: {', '.join(server.api_keys)}"
    return [
        ("models", f"{shown} and {more} more (antiphon models)" if more > 0 else shown),
        ("clients", clients),
        ("settings", str(source) if source else "none; providers by the keys in the environment"),
    ]


def _curl(address: str, model: str, *, with_key: bool) -> str:
    body = msgspec.json.encode({"model": model, "input": "Hello there"}).decode()
    key = " -H 'authorization: Bearer YOUR-KEY'" if with_key else ""
    return f"curl {address}/responses -H 'content-type: application/json'{key} -d '{body}'"
