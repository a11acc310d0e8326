"""`antiphon models`: list the available models with their capabilities."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from antiphon.cli.load_config import (
    add_config_option,
    load_config_or_default,
    with_local_servers,
)
from antiphon.cli.terminal import (
    is_terminal,
    make_console,
    make_table,
    print_error,
    write_json_lines,
)
from antiphon.core.plan.effort import EFFORTS
from antiphon.engine.routing import Router, make_router
from antiphon.providers.registry import build_providers

_EPILOG = """\
examples:
  antiphon models                                   a table
  antiphon models --all                             also the built-in test models
  antiphon models | jq -r .name                     only the names
  antiphon models | jq 'select(.tools)'             models that can call tools
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the models that clients can request: aliases first, then the models of each\n"
        "provider, also those that only the provider's own list names. A table on a terminal,\n"
        "JSON lines in a pipe."
    )
    parser.epilog = _EPILOG
    add_config_option(parser)
    parser.add_argument(
        "--offline", action="store_true", help="do not ask the providers for their lists"
    )
    parser.add_argument(
        "--all", action="store_true", help="also the built-in test models, which need no provider"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = load_config_or_default(
        args.config, needs=("default_provider", "models", "fallbacks", "discovery")
    )
    if not args.offline:
        config = with_local_servers(config)
    router = make_router(config, build_providers(config, os.environ))
    asks = config.discovery.enabled and not args.offline
    discovered = _discover_names(router) if asks else []
    names = router.listed_names(discovered)
    if args.all:
        names = [*dict.fromkeys([*names, *router.names()])]
    models = [_describe_model(router, name) for name in names]
    if is_terminal():
        _print_table(models)
    else:
        write_json_lines(models)
    return 0


def _discover_names(router: Router) -> list[str]:
    """Ask the providers for their own lists; one that does not answer is reported."""
    from antiphon.cli.discover import discover_models  # slow: only if the network is used

    found, failures = discover_models(router.providers.values())
    for provider, reason in failures.items():
        print_error(f"the models of {provider} could not be listed: {reason}")
    return [f"{provider}/{model}" for provider, models in found.items() for model in models]


def _describe_model(router: Router, name: str) -> dict[str, Any]:
    target = router.resolve(name)
    capabilities = target.provider.capabilities(target.model)
    return {
        "name": name,
        "provider": target.provider.name,
        "model": target.model,
        "context_window": capabilities.context_window,
        "max_output_tokens": capabilities.max_output_tokens,
        "inputs": sorted(capabilities.inputs, key=lambda kind: (kind != "text", kind)),
        "efforts": [effort for effort in EFFORTS if effort in capabilities.efforts],
        "tools": capabilities.tools,
    }


def _print_table(models: list[dict[str, Any]]) -> None:
    columns = ("name", "served by", "context", "inputs", "efforts", "tools")
    optional = ("served by", "context", "efforts", "inputs", "tools")
    table = make_table(*columns, right=["context"], optional=optional)
    for model in models:
        window = model["context_window"]
        table.add_row(
            Text(model["name"], style="bold"),
            _format_target(model),
            f"{window:,}" if window else "?",
            " ".join(model["inputs"]),
            _format_efforts(model["efforts"]),
            "yes" if model["tools"] else "no",
        )
    make_console().print(table)


def _format_target(model: Mapping[str, Any]) -> str:
    """Return the provider's name; for an alias, `provider/model`."""
    target = f"{model['provider']}/{model['model']}"
    return str(model["provider"]) if model["name"] == target else target


def _format_efforts(efforts: list[str]) -> str:
    """Join efforts; a range without gaps is shortened to `none … max`."""
    if len(efforts) < 3:
        return " ".join(efforts) or "-"
    first, last = EFFORTS.index(efforts[0]), EFFORTS.index(efforts[-1])
    has_gaps = last - first + 1 != len(efforts)
    return " ".join(efforts) if has_gaps else f"{efforts[0]} … {efforts[-1]}"
