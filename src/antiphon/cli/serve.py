"""`antiphon serve`: run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

import msgspec
import uvloop
from rich.console import Console

from antiphon.cli.settings import load_settings
from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.server.journal import open_journal
from antiphon.server.serve import Gateway, serve


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="run the gateway",
        description="Run the gateway. Without a configuration file, providers are found by the keys"
        " in the environment, and the built-in echo provider is always there.",
    )
    parser.add_argument("--config", metavar="FILE", help="antiphon.toml to use")
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = _overridden(load_settings(args.config), args)
    emit = open_journal(config.log)
    loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(serve(config, os.environ, emit, _announce(config)))
    return 0


def _overridden(config: Config, args: argparse.Namespace) -> Config:
    given = {
        name: getattr(args, name) for name in ("host", "port") if getattr(args, name) is not None
    }
    server = msgspec.structs.replace(config.server, **given)
    return msgspec.structs.replace(config, server=server)


def _announce(config: Config) -> Any:
    def announce(gateway: Gateway, engine: Engine) -> None:
        console = Console(highlight=False, soft_wrap=True)
        base = f"http://{config.server.host}:{gateway.port}/v1"
        console.print(f"[bold green]antiphon[/] listens on [bold]{base}[/]")
        names = engine.router.names()
        shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
        console.print(f"models: {shown}")
        console.print(
            f"try:    curl {base}/responses -H 'content-type: application/json'"
            f' -d \'{{"model": "{names[0]}", "input": "Hello there"}}\'',
            markup=False,
        )

    return announce
