"""`antiphon serve`: run the gateway and announce its address."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from antiphon import __version__
from antiphon.cli.launcher.gateway import is_running
from antiphon.cli.load_config import (
    add_config_option,
    find_config_path,
    load_config_or_default,
    make_base_url,
    with_local_servers,
)
from antiphon.cli.provider_sources import describe_providers, find_real_providers
from antiphon.cli.serve_workers import Announce, make_loop_factory, serve_workers
from antiphon.cli.terminal import is_terminal, make_console, print_error, print_result
from antiphon.config import Config, ServerConfig, data_directory
from antiphon.engine.engine import Engine
from antiphon.engine.routing import Router
from antiphon.errors import ConfigError
from antiphon.server.log_output import open_log
from antiphon.server.serve import GatewayServer, serve
from antiphon.server.ui.page_token import read_or_create_token

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

    config = with_local_servers(load())

    def load_again() -> Config:
        return msgspec.structs.replace(load(), local=config.local)

    emit = open_log(config.log)
    path = None if args.no_config else find_config_path(args.config)
    announce = _make_announcer(config, path)
    try:
        if args.workers is not None:
            return serve_workers(config, args.workers, load_again, emit, announce)
        with asyncio.Runner(loop_factory=make_loop_factory()) as runner:
            runner.run(serve(config, os.environ, emit, _announce_gateway(announce), load_again))
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
        url = make_base_url(server.host, server.port)
        if is_running(url):
            return (
                f"a gateway runs already at {url}: use it, stop it, or choose another port with"
                " --port."
            )
        return (
            f"{address} is in use by another program: stop it, or choose another port with --port."
        )
    if error.errno == errno.EACCES:
        return f"{address} needs more privileges: choose a port above 1023 with --port."
    return f"cannot listen on {address}: {error.strerror or error}"


# The announcement, printed once the gateway accepts connections


def _announce_gateway(announce: Announce) -> Callable[[GatewayServer, Engine], None]:
    return lambda gateway, engine: announce(gateway.port, engine.router)


def _make_announcer(config: Config, path: Path | None) -> Announce:
    def announce(port: int, router: Router) -> None:
        address = make_base_url(config.server.host, port)
        if is_terminal():
            page = _make_page_address(address, config)
            _print_banner(address, [("page", page), *_describe_gateway(router, config, path)])
            _print_next_steps(address, router, with_key=bool(config.server.api_keys))
        else:
            print_result(
                f"antiphon {__version__} listens on {address}",
                version=__version__,
                base_url=address,
                page=f"{address.removesuffix('/v1')}/ui",
            )
            sys.stdout.flush()

    return announce


def _make_page_address(address: str, config: Config) -> str:
    """The address of the page, with the token that allows changes there without an admin key."""
    page = f"{address.removesuffix('/v1')}/ui"
    if config.server.admin_key:
        return page
    token = read_or_create_token(data_directory(os.environ), secrets.token_bytes)
    return f"{page}#token={token}" if token else page


def _print_banner(address: str, rows: Sequence[tuple[str, str]]) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("API", style="dim"), Text(address, style="bold green"))
    for name, value in rows:
        grid.add_row(Text(name, style="dim"), Text(value))
    title = Text.assemble(("antiphon", "bold"), f" {__version__}")
    panel = Panel(grid, title=title, title_align="left", border_style="green", expand=False)
    make_console().print(panel)


def _describe_gateway(router: Router, config: Config, path: Path | None) -> list[tuple[str, str]]:
    found = describe_providers(router.providers.values(), config, os.environ)
    clients = "this machine only, no API key required"
    if config.server.api_keys:
        clients = f"with an API key: {', '.join(config.server.api_keys)}"
    return [
        ("config", str(path) if path else "no file; `antiphon init` writes one"),
        ("providers", ", ".join(found) or "none: only the built-in echo model, a test"),
        ("model", router.default_name()),
        ("clients", clients),
    ]


def _print_next_steps(address: str, router: Router, *, with_key: bool) -> None:
    from rich.text import Text

    console = make_console()
    if not find_real_providers(router.providers.values()):
        advice = (
            "Set an API key such as DEEPSEEK_API_KEY, or start Ollama, and start this again. Or"
            " paste a key on the page."
        )
        console.print(Text(advice, style="yellow"), soft_wrap=True)
    steps = [
        ("antiphon codex", "run Codex with these models"),
        ("antiphon claude", "run Claude Code with them"),
        ("antiphon models", "list them"),
        (_make_curl_example(address, router.default_name(), with_key=with_key), ""),
    ]
    for command, purpose in steps:
        line = Text.assemble(("next  ", "dim"), f"{command:<17}", (purpose, "dim"))
        console.print(line, soft_wrap=True)
    console.print(Text("Press Ctrl-C to stop.", style="dim"))


def _make_curl_example(address: str, model: str, *, with_key: bool) -> str:
    body = msgspec.json.encode({"model": model, "input": "Hello there"}).decode()
    key = " -H 'authorization: Bearer YOUR-KEY'" if with_key else ""
    return f"curl {address}/responses -H 'content-type: application/json'{key} -d '{body}'"
