"""`antiphon serve`: run the gateway and announce its address."""

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
from antiphon.cli.load_config import (
    add_config_option,
    find_config_path,
    load_config_or_default,
    make_base_url,
)
from antiphon.cli.serve_workers import Announce, make_loop_factory, serve_workers
from antiphon.cli.terminal import is_terminal, make_console, print_error
from antiphon.config import Config, ServerConfig
from antiphon.engine.engine import Engine
from antiphon.errors import ConfigError
from antiphon.server.log_output import open_log
from antiphon.server.serve import GatewayServer, serve

_SHOWN_MODELS = 6

_EPILOG = """\
examples:
  antiphon serve                         listen on 127.0.0.1:8484
  antiphon serve --port 9000             listen on another port
  antiphon serve --config team.toml      use another configuration file
  antiphon serve --workers 4             use four processes
  DEEPSEEK_API_KEY=… antiphon serve      no file: API keys enable their providers
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the gateway until Ctrl-C or SIGTERM. Without a configuration file, the API\n"
        "keys in the environment enable their providers. The built-in echo models need neither\n"
        "a key nor a network."
    )
    parser.epilog = _EPILOG
    add_config_option(parser, with_no_config=True)
    parser.add_argument("--host", help="address to listen on; overrides [server] host")
    parser.add_argument(
        "--port", type=int, help="port to listen on; overrides [server] port; 0 is any free port"
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes that serve the port; SIGHUP reads the configuration again and replaces"
        " them one by one",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    def load() -> Config:
        config = Config() if args.no_config else load_config_or_default(args.config)
        return _apply_options(config, args)

    config = load()
    emit = open_log(config.log)
    path = None if args.no_config else find_config_path(args.config)
    announce = _make_announcer(config.server, path)
    try:
        if args.workers is not None:
            return serve_workers(config, args.workers, load, emit, announce)
        with asyncio.Runner(loop_factory=make_loop_factory()) as runner:
            runner.run(serve(config, os.environ, emit, _announce_gateway(announce), load))
    except OSError as error:
        print_error(_explain_bind_error(error, config.server))
        return 1
    return 0


def _apply_options(config: Config, args: argparse.Namespace) -> Config:
    """Override `[server] host` and `port` by the command line."""
    options = {
        name: value for name in ("host", "port") if (value := getattr(args, name)) is not None
    }
    if not 0 <= options.get("port", 0) <= 65_535:
        raise ConfigError(f"--port {args.port}: must be a number from 0 to 65535")
    server = msgspec.structs.replace(config.server, **options)
    return msgspec.structs.replace(config, server=server)


def _explain_bind_error(error: OSError, server: ServerConfig) -> str:
    """Explain why the address could not be bound, and what to do."""
    address = f"port {server.port} on {server.host}"
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use: stop the process that uses it, or choose another with --port."
    if error.errno == errno.EACCES:
        return f"{address} needs more privileges: choose a port above 1023 with --port."
    return f"cannot listen on {address}: {error.strerror or error}"


# The announcement, printed once the gateway accepts connections


def _announce_gateway(announce: Announce) -> Callable[[GatewayServer, Engine], None]:
    return lambda gateway, engine: announce(gateway.port, engine.router.names())


def _make_announcer(server: ServerConfig, path: Path | None) -> Announce:
    def announce(port: int, names: Sequence[str]) -> None:
        address = make_base_url(server.host, port)
        curl = _make_curl_example(address, names[0], with_key=bool(server.api_keys))
        if is_terminal():
            _print_banner(address, _describe_gateway(names, server, path), curl)
        else:
            print(f"antiphon {__version__} listens on {address}", flush=True)

    return announce


def _print_banner(address: str, rows: Sequence[tuple[str, str]], curl: str) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("base URL", style="dim"), Text(address, style="bold green"))
    grid.add_row(Text("page", style="dim"), Text(f"{address.removesuffix('/v1')}/ui"))
    for name, value in rows:
        grid.add_row(Text(name, style="dim"), Text(value))
    title = Text.assemble(("antiphon", "bold"), f" {__version__}")
    console = make_console()
    console.print(Panel(grid, title=title, title_align="left", border_style="green", expand=False))
    console.print(Text.assemble(("try it:  ", "dim"), curl), soft_wrap=True)
    console.print(Text("Press Ctrl-C to stop.", style="dim"))


def _describe_gateway(
    names: Sequence[str], server: ServerConfig, path: Path | None
) -> list[tuple[str, str]]:
    shown = ", ".join(names[:_SHOWN_MODELS])
    more = len(names) - _SHOWN_MODELS
    clients = "this machine only, no API key required"
    if server.api_keys:
        clients = f"with an API key: {', '.join(server.api_keys)}"
    return [
        ("models", f"{shown} and {more} more (antiphon models)" if more > 0 else shown),
        ("clients", clients),
        ("config", str(path) if path else "none; API keys in the environment enable providers"),
    ]


def _make_curl_example(address: str, model: str, *, with_key: bool) -> str:
    body = msgspec.json.encode({"model": model, "input": "Hello there"}).decode()
    key = " -H 'authorization: Bearer YOUR-KEY'" if with_key else ""
    return f"curl {address}/responses -H 'content-type: application/json'{key} -d '{body}'"
