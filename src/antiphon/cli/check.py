"""`antiphon check`: is the configuration right, and with `--live`, is everybody there?"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from antiphon.cli.load_config import (
    add_config_option,
    find_settings,
    load_settings,
    store_url,
    trace_path,
)
from antiphon.cli.probe import Probe, probe_all
from antiphon.cli.terminal import complain, is_terminal, make_console, make_table, write_lines
from antiphon.config import Config
from antiphon.engine.image_description import check_vision_model
from antiphon.engine.routing import make_router
from antiphon.errors import AntiphonError
from antiphon.providers.registry import Provider, build_providers
from antiphon.server.auth import reject_open_bind
from antiphon.server.clients import make_profile_resolver
from antiphon.store.url import open_store

_EPILOG = """\
examples:
  antiphon check                        are all keys and names in the file good?
  antiphon check --live                 and do the providers answer?
  antiphon check --live | jq 'select(.ok == false)'

Exit status: 0 all is well, 1 something is wrong.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read and validate the configuration and show what it comes to. With --live, each\n"
        "provider is asked for a few tokens. Tables on a terminal, JSON lines in a pipe."
    )
    parser.epilog = _EPILOG
    add_config_option(parser)
    parser.add_argument(
        "--live", action="store_true", help="ask each provider for a few tokens (they may cost)"
    )
    parser.set_defaults(run=run)


class Findings(Struct, frozen=True):
    """What a configuration comes to."""

    source: Path | None
    config: Config
    providers: Sequence[Provider]


def run(args: argparse.Namespace) -> int:
    try:
        found = _examine(args.config)
    except AntiphonError as error:
        complain(error.message)
        return 1
    probes = _probed(found) if args.live else []
    if is_terminal():
        _show(found, probes)
    else:
        write_lines(_documents(found, probes))
    return 1 if any(probe.ok is False for probe in probes) else 0


def _examine(explicit: str | None) -> Findings:
    """All that `serve` would refuse is refused here, and no file is touched."""
    config = load_settings(explicit)
    providers = build_providers(config, os.environ)
    check_vision_model(config, make_router(config, providers))
    make_profile_resolver(config)
    reject_open_bind(config.server.host, config.server.api_keys)
    open_store(store_url(config), now=lambda: 0)
    return Findings(find_settings(explicit), config, list(providers.values()))


def _probed(found: Findings) -> list[Probe]:
    asking = probe_all(found.config, os.environ, found.providers)
    if not is_terminal():
        return asyncio.run(asking)
    with make_console(stderr=True).status(f"asking {len(found.providers)} providers …"):
        return asyncio.run(asking)


# In a pipe


def _documents(found: Findings, probes: Sequence[Probe]) -> Iterable[dict[str, Any]]:
    config = found.config
    yield {"check": "config", "ok": True, "file": str(found.source) if found.source else None}
    for provider in found.providers:
        yield {"check": "provider", **_provider_facts(provider)}
    for alias, target in config.models.items():
        yield {"check": "alias", "name": alias, "target": target}
    for name, value in _settings(config):
        yield {"check": name, "value": value}
    for probe in probes:
        yield {"check": "live", **msgspec.to_builtins(probe)}


def _provider_facts(provider: Provider) -> dict[str, Any]:
    """How many keys, never which."""
    return {
        "name": provider.name,
        "kind": provider.spec.name,
        "base_url": None if provider.spec.in_process else provider.base_url,
        "keys": len(provider.api_keys),
        "models": len(provider.models()),
    }


def _settings(config: Config) -> list[tuple[str, str]]:
    server, trace, log = config.server, config.trace, config.log
    clients = ", ".join(server.api_keys) or "this machine only"
    payloads = "with payloads" if trace.payloads else "without payloads"
    return [
        ("server", f"{server.host} port {server.port}, clients: {clients}"),
        ("store", store_url(config)),
        ("trace", f"{trace_path(config)}, {payloads}" if trace.enabled else "off"),
        ("log", f"{log.level}, {log.format}"),
    ]


# On a terminal


def _show(found: Findings, probes: Sequence[Probe]) -> None:
    console = make_console()
    source = found.source or "no configuration file; providers by the keys in the environment"
    console.print(Text.assemble(("✓ ", "bold green"), str(source)), soft_wrap=True)
    _show_providers(console, found)
    if found.config.models:
        aliases = make_table("asked for", "served by")
        for alias, target in found.config.models.items():
            aliases.add_row(Text(alias, style="bold"), target)
        console.print(aliases)
    for name, value in _settings(found.config):
        console.print(Text.assemble((f" {name:<8}", "dim"), value), soft_wrap=True)
    if probes:
        _show_probes(console, probes)


def _show_providers(console: Console, found: Findings) -> None:
    table = make_table("provider", "kind", "address", "keys", "models", right=["keys", "models"])
    default = found.config.default_provider or found.providers[0].name
    for provider in found.providers:
        facts = _provider_facts(provider)
        mark = (" default", "green") if provider.name == default else ""
        table.add_row(
            Text.assemble((provider.name, "bold"), mark),
            facts["kind"],
            facts["base_url"] or "in this process",
            str(facts["keys"] or "-"),
            str(facts["models"] or "any"),
        )
    console.print(table)


def _show_probes(console: Console, probes: Sequence[Probe]) -> None:
    table = make_table("provider", "model", "answer", "latency", "what it means", right=["latency"])
    for probe in probes:
        table.add_row(
            Text(probe.provider, style="bold"),
            probe.model or "-",
            _verdict(probe),
            "-" if probe.latency_ms is None else f"{probe.latency_ms:,} ms",
            Text("\n").join(filter(None, (Text(probe.message), Text(probe.reason, style="dim")))),
        )
    console.print(table)


def _verdict(probe: Probe) -> Text:
    if probe.ok is None:
        return Text("not asked", style="yellow")
    return Text("ok", style="bold green") if probe.ok else Text(probe.fault, style="bold red")
