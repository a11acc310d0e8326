"""`antiphon check`: validate the configuration; with `--live`, test providers and MCP servers."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from antiphon.cli.check_mcp import ServerResult, describe_mcp, list_servers, print_servers
from antiphon.cli.load_config import (
    add_config_option,
    find_config_path,
    resolve_store_url,
    resolve_trace_path,
    with_local_servers,
)
from antiphon.cli.probe import ProbeResult, probe_providers
from antiphon.cli.provider_sources import find_real_providers, find_unused_keys
from antiphon.cli.terminal import (
    is_terminal,
    make_console,
    make_table,
    print_error,
    write_json_lines,
)
from antiphon.config import Config, data_directory, inspect_config, suggest
from antiphon.engine.routing import list_targets
from antiphon.errors import AntiphonError
from antiphon.providers.registry import Provider
from antiphon.server.capsule_key import FILE_NAME, check_key
from antiphon.server.config_problems import find_config_problems
from antiphon.stages.printable import printable
from antiphon.store.admin.sqlite_admin import TurnsWithoutOwner, count_turns_without_owner
from antiphon.store.url import hide_password, sqlite_path

_DAY_S = 24 * 3600
_NO_PROVIDER = (
    "no provider: only the built-in echo model, a test. Set an API key such as DEEPSEEK_API_KEY, or"
    " start Ollama"
)
_EPILOG = """\
examples:
  antiphon check                        validate the configuration file
  antiphon check --live                 also test each provider and each MCP server
  antiphon check --live | jq 'select(.ok == false)'

Exit status: 0 if everything is valid, 1 if not, or if a provider or an MCP server failed.
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Validate the configuration and show the resulting providers, aliases and settings.\n"
        "With --live, send a small request to each provider, and list the tools of each MCP\n"
        "server. Tables on a terminal, JSON lines in a pipe."
    )
    parser.epilog = _EPILOG
    add_config_option(parser)
    parser.add_argument(
        "--live",
        action="store_true",
        help="send each provider a request for a few tokens (may be billed), list MCP tools",
    )
    parser.set_defaults(run=run)


class CheckedConfig(Struct, frozen=True):
    """A configuration, the file it comes from, the providers it enables, and its mistakes."""

    path: Path | None
    config: Config
    providers: Sequence[Provider]
    problems: Sequence[str]
    warnings: Sequence[str]
    unused_keys: Mapping[str, str] = {}
    """Variables of the environment with an API key that is not used, and why."""


class LiveResults(Struct, frozen=True):
    """Results of `--live`."""

    providers: Sequence[ProbeResult] = ()
    servers: Sequence[ServerResult] = ()

    @property
    def has_failure(self) -> bool:
        is_down = any(each.ok is False for each in self.providers)
        return is_down or not all(each.ok for each in self.servers)


def run(args: argparse.Namespace) -> int:
    try:
        checked = _check_config(args.config)
    except AntiphonError as error:  # the file cannot be read, or is not TOML
        return _report_problems([error.message])
    if checked.problems:
        return _report_problems(checked.problems)
    live = _test(checked) if args.live else LiveResults()
    if is_terminal():
        _print_report(checked, live)
    else:
        write_json_lines(_make_documents(checked, live))
    return 1 if live.has_failure else 0


def _report_problems(problems: Sequence[str]) -> int:
    for problem in problems:
        print_error(problem)
    return 1


def _check_config(explicit: str | None) -> CheckedConfig:
    """Find whatever `antiphon serve` would reject, all at once, without creating any file."""
    path = find_config_path(explicit)
    config, found = (Config(), []) if path is None else inspect_config(path, os.environ)
    config = with_local_servers(config)
    own = (lambda: check_files(config, os.environ),)
    inspected = find_config_problems(config, found, os.environ, own)
    providers = inspected.providers
    warnings = list(_find_warnings(config, providers))
    unused = dict(find_unused_keys(providers, config, os.environ))
    return CheckedConfig(
        path, config, list(providers.values()), inspected.problems, warnings, unused
    )


def _find_warnings(config: Config, providers: Mapping[str, Provider]) -> Iterator[str]:
    """Find model names that the data of their provider does not know."""
    own = [(("vision", "model"), config.vision.model)]
    own += [(("compaction", "model"), config.compaction.model)]
    targets = [*list_targets(config), *own]
    for path, target in targets:
        prefix, _, model = target.partition("/")
        provider = providers.get(prefix)
        if provider and model not in provider.models() and not provider.spec.knows(model):
            problem = (
                f"the data of {prefix} has no model {model!r}: its capabilities are a guess, and a"
                f" request may fail; {suggest(model, provider.models())}"
            )
            yield config.error_at(path, problem).message


def _test(checked: CheckedConfig) -> LiveResults:
    if not is_terminal():
        return asyncio.run(_test_all(checked))
    count = len(checked.providers)
    noun = "provider" if count == 1 else "providers"
    with make_console(stderr=True).status(f"testing {count} {noun} …"):
        return asyncio.run(_test_all(checked))


async def _test_all(checked: CheckedConfig) -> LiveResults:
    providers = await probe_providers(checked.config, os.environ, checked.providers)
    return LiveResults(providers, await list_servers(checked.config))


# JSON lines


def _make_documents(checked: CheckedConfig, live: LiveResults) -> Iterable[dict[str, Any]]:
    config = checked.config
    yield {"check": "config", "ok": True, "file": str(checked.path) if checked.path else None}
    for warning in checked.warnings:
        yield {"check": "warning", "message": warning}
    for variable, reason in checked.unused_keys.items():
        yield {"check": "unused_key", "variable": variable, "reason": reason}
    for provider in checked.providers:
        yield {"check": "provider", **_describe_provider(provider)}
    for alias, target in config.models.items():
        yield {"check": "alias", "name": alias, "target": target}
    for name, value in _describe_settings(config):
        yield {"check": name.replace(" ", "_"), "value": value}
    for result in live.providers:
        yield {"check": "live", **msgspec.to_builtins(result)}
    for server in live.servers:
        yield {"check": "live_mcp", **msgspec.to_builtins(server)}


def _describe_provider(provider: Provider) -> dict[str, Any]:
    """Describe a provider; API keys are only counted, never shown."""
    return {
        "name": provider.name,
        "kind": provider.spec.name,
        "base_url": None if provider.spec.in_process else hide_password(provider.base_url),
        "keys": len(provider.api_keys),
        "models": len(provider.models()),
    }


def _describe_settings(config: Config) -> list[tuple[str, str]]:
    server = config.server
    trace = config.trace
    log = config.log
    clients = ", ".join(server.api_keys) or "this machine only"
    payloads = "with payloads" if trace.payloads else "without payloads"
    return [
        ("server", f"{server.host} port {server.port}, clients: {clients}"),
        ("store", hide_password(resolve_store_url(config))),
        ("stored responses", describe_owners(config)),
        ("trace", f"{resolve_trace_path(config)}, {payloads}" if trace.enabled else "off"),
        ("log", f"{log.level}, {log.format}"),
        ("mcp", describe_mcp(config)),
    ]


# Tables


def _print_report(checked: CheckedConfig, live: LiveResults) -> None:
    console = make_console()
    source = checked.path or "no configuration file; API keys in the environment enable providers"
    console.print(Text.assemble(("✓ ", "bold green"), str(source)), soft_wrap=True)
    if not find_real_providers(checked.providers):
        console.print(Text.assemble(("! ", "bold yellow"), _NO_PROVIDER), soft_wrap=True)
    for warning in checked.warnings:
        console.print(Text.assemble(("! ", "bold yellow"), warning), soft_wrap=True)
    for variable, reason in checked.unused_keys.items():
        unused = f"{variable} is set but not used: {reason}"
        console.print(Text.assemble(("· ", "bold"), (unused, "dim")), soft_wrap=True)
    _print_providers(console, checked)
    if checked.config.models:
        aliases = make_table("alias", "served by")
        for alias, target in checked.config.models.items():
            aliases.add_row(Text(alias, style="bold"), target)
        console.print(aliases)
    for name, value in _describe_settings(checked.config):
        console.print(Text.assemble((f" {name:<18}", "dim"), value), soft_wrap=True)
    if live.providers:
        _print_results(console, live.providers)
    if live.servers:
        print_servers(console, live.servers)


def _print_providers(console: Console, checked: CheckedConfig) -> None:
    numbers = ["keys", "models"]
    columns = ("provider", "kind", "base URL", *numbers)
    table = make_table(*columns, right=numbers, optional=["base URL", "kind", *numbers])
    default = checked.config.default_provider or checked.providers[0].name
    for provider in checked.providers:
        row = _describe_provider(provider)
        mark = (" default", "green") if provider.name == default else ""
        table.add_row(
            Text.assemble((provider.name, "bold"), mark),
            row["kind"],
            row["base_url"] or "built in",
            str(row["keys"] or "-"),
            str(row["models"] or "any"),
        )
    console.print(table)


def _print_results(console: Console, results: Sequence[ProbeResult]) -> None:
    columns = ("provider", "model", "result", "latency", "message")
    table = make_table(*columns, right=["latency"], optional=["latency"], wrapped=["message"])
    for result in results:
        reason = Text(printable(result.reason), style="dim")
        message = filter(None, (Text(printable(result.message)), reason))
        table.add_row(
            Text(result.provider, style="bold"),
            result.model or "-",
            _format_result(result),
            "-" if result.latency_ms is None else f"{result.latency_ms:,} ms",
            Text("\n").join(message),
        )
    console.print(table)


def _format_result(result: ProbeResult) -> Text:
    if result.ok is None:
        return Text("skipped", style="yellow")
    return Text("ok", style="bold green") if result.ok else Text(result.fault, style="bold red")


# --- files of the gateway -------------------------------------------------------------------------


def check_files(config: Config, environment: Mapping[str, str]) -> None:
    """Raise what `antiphon serve` would raise about its files, without creating any."""
    if not config.capsule.keys:
        check_key(data_directory(environment) / FILE_NAME)
    _count_without_owner(config, 0)


def describe_owners(config: Config) -> str:
    """Describe who finds stored responses, and which of them have no owner."""
    if not config.server.api_keys:
        return "shared, because there are no client keys"
    found = _count_without_owner(config, int(time.time()))
    if not found.count:
        return "separate for each client key"
    days = -(-config.capsule.ttl_s // _DAY_S)
    return (
        f"separate for each client key{_describe_turns(found)}; reasoning state of that version can"
        f" be used by every key for {days} days"
    )


def _describe_turns(found: TurnsWithoutOwner) -> str:
    one = found.count == 1
    responses = "1 response has" if one else f"{found.count:,} responses have"
    until = "" if found.expire_at is None else f" until {_format_day(found.expire_at)}"
    return (
        f"; {responses} no owner (stored by an earlier version) and can be continued by every"
        f" key{until}"
    )


def _format_day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _count_without_owner(config: Config, now: int) -> TurnsWithoutOwner:
    path = sqlite_path(resolve_store_url(config))
    return TurnsWithoutOwner() if path is None else count_turns_without_owner(path, now)
