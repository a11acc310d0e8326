"""`antiphon usage`: requests, tokens and cost of clients, models and providers."""

from __future__ import annotations

import argparse
import asyncio
import csv
import sys
import time
from collections.abc import Sequence
from typing import Any, cast

from antiphon.cli.load_config import add_config_option, load_config_or_default, resolve_store_url
from antiphon.cli.terminal import is_terminal, make_console, write_json_lines
from antiphon.cli.times import TIME_HELP, parse_time
from antiphon.cli.usage_view import make_usage_table
from antiphon.errors import UsageNotFound
from antiphon.observe.usage import (
    DEFAULT_BY,
    USAGE_COLUMNS,
    UsageColumn,
    UsageRow,
    summarize_usage,
)
from antiphon.stages.printable import printable_fields
from antiphon.store.url import is_shared, sqlite_path
from antiphon.store.usage.sqlite import read_usage_file
from antiphon.store.usage.usage_table import HOUR_S

COLUMNS = (
    *("client", "model", "provider", "requests", "failures", "input_tokens", "cached_tokens"),
    *("output_tokens", "reasoning_tokens", "cost"),
)
"""The columns of JSON and CSV; `day` and `hour` come first if rows are grouped by them."""

_EPILOG = """\
examples:
  antiphon usage                          the last seven days by client, model and provider
  antiphon usage --since 24h --by model   one row per model
  antiphon usage --since 30d --by day     one row per day
  antiphon usage --csv > usage.csv        for a spreadsheet
  antiphon usage | jq -s 'map(.cost) | add'
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show requests, failures, tokens and cost (US dollars), also while the gateway is\n"
        "running. A table on a terminal, JSON lines in a pipe. A cost is empty, or null, where\n"
        "the price of a model is unknown: set it in [prices]."
    )
    parser.epilog = _EPILOG
    parser.add_argument(
        "--since", type=parse_time, default="7d", metavar="TIME", help=f"{TIME_HELP}; default: 7d"
    )
    parser.add_argument(
        "--by",
        type=_parse_columns,
        default=DEFAULT_BY,
        metavar="COLUMNS",
        help=f"group by some of {', '.join(USAGE_COLUMNS)}; default: {','.join(DEFAULT_BY)}",
    )
    parser.add_argument("--csv", action="store_true", help="write CSV")
    add_config_option(parser)
    parser.set_defaults(run=run)


def _parse_columns(text: str) -> tuple[UsageColumn, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in USAGE_COLUMNS:
            known = ", ".join(USAGE_COLUMNS)
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {known}")
    return cast("tuple[UsageColumn, ...]", names)


def run(args: argparse.Namespace) -> int:
    rows = _read_rows(args)
    times = [name for name in ("day", "hour") if name in args.by]
    columns = (*times, *COLUMNS)
    if args.csv:
        _write_csv(rows, columns)
    elif not is_terminal():
        write_json_lines(_select(row, columns) for row in rows)
    elif rows:
        make_console().print(make_usage_table([printable_fields(row) for row in rows], args.by))
    else:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(args.since))
        make_console().print(f"No requests since {since}. An earlier time: --since 30d")
    return 0


def _read_rows(args: argparse.Namespace) -> list[UsageRow]:
    config = load_config_or_default(args.config, needs=("store",))
    url = resolve_store_url(config)
    path = sqlite_path(url)
    if is_shared(url):
        from antiphon.store.postgres.usage import read_usage_database

        reading = read_usage_database(url, int(args.since) // HOUR_S, int(time.time()) // HOUR_S)
        return summarize_usage(asyncio.run(reading), args.by)
    if path is None:
        raise UsageNotFound(
            f"the usage of {url} cannot be read from outside of the gateway: its page shows it."
        )
    if not path.is_file():
        raise UsageNotFound(f"no store at {path}; `antiphon serve` creates it.")
    found = read_usage_file(path, int(args.since) // HOUR_S, int(time.time()) // HOUR_S)
    return summarize_usage(found, args.by)


def _select(row: UsageRow, columns: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in columns}


def _write_csv(rows: Sequence[UsageRow], columns: Sequence[str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = _select(row, columns)
        writer.writerow([_format_value(values[name]) for name in columns])


def _format_value(value: Any) -> Any:
    """Format a cost without an exponent, and a text so that no spreadsheet runs it as a formula."""
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value
