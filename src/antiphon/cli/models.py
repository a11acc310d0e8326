"""`antiphon models`: what clients can ask for, and what each model takes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from antiphon.cli.load_config import add_config_option, load_settings
from antiphon.cli.terminal import is_terminal, make_console, make_table, write_lines
from antiphon.core.planning.make_plan import EFFORTS
from antiphon.engine.routing import Router, make_router
from antiphon.providers.registry import build_providers

_EPILOG = """\
examples:
  antiphon models                                   a table
  antiphon models | jq -r .name                     the names alone
  antiphon models | jq 'select(.tools)'             those that can call tools
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the models that clients can ask for: aliases first, then each provider's own.\n"
        "A table on a terminal, JSON lines in a pipe."
    )
    parser.epilog = _EPILOG
    add_config_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = load_settings(args.config)
    router = make_router(config, build_providers(config, os.environ))
    found = [_facts(router, name) for name in router.names()]
    if is_terminal():
        _show(found)
    else:
        write_lines(found)
    return 0


def _facts(router: Router, name: str) -> dict[str, Any]:
    target = router.resolve(name)
    can = target.provider.capabilities(target.model)
    return {
        "name": name,
        "provider": target.provider.name,
        "model": target.model,
        "context_window": can.context_window,
        "max_output_tokens": can.max_output_tokens,
        "inputs": sorted(can.inputs, key=lambda kind: (kind != "text", kind)),
        "efforts": [rung for rung in EFFORTS if rung in can.efforts],
        "tools": can.tools,
    }


def _show(models: list[dict[str, Any]]) -> None:
    table = make_table(
        "name", "served by", "context", "inputs", "efforts", "tools", right=["context"]
    )
    for model in models:
        window = model["context_window"]
        table.add_row(
            Text(model["name"], style="bold"),
            _server(model),
            f"{window:,}" if window else "?",
            " ".join(model["inputs"]),
            _ladder(model["efforts"]),
            "yes" if model["tools"] else "no",
        )
    make_console().print(table)


def _server(model: Mapping[str, Any]) -> str:
    """The provider; for an alias, the model as well."""
    direct = f"{model['provider']}/{model['model']}"
    return str(model["provider"]) if model["name"] == direct else direct


def _ladder(efforts: list[str]) -> str:
    """`none … max` where no rung is missing in between."""
    if len(efforts) < 3:
        return " ".join(efforts) or "-"
    first, last = EFFORTS.index(efforts[0]), EFFORTS.index(efforts[-1])
    return (
        f"{efforts[0]} … {efforts[-1]}" if last - first + 1 == len(efforts) else " ".join(efforts)
    )
