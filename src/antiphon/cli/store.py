"""`antiphon store`: state, migration, copy and pruning of the store of responses."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable

import msgspec

from antiphon.cli.load_config import add_config_option, load_config_or_default, resolve_store_url
from antiphon.cli.terminal import is_terminal, print_result, write_json_lines
from antiphon.store.admin.copy import copy_store, open_admin
from antiphon.store.admin.tables import StoreAdmin, StoreState
from antiphon.store.url import hide_password

_EPILOG = """\
examples:
  antiphon store status                          what the configured store contains
  antiphon store migrate                         update the schema before a new version starts
  antiphon store copy sqlite:////var/lib/antiphon/turns.db postgresql://antiphon@db/antiphon
  antiphon store prune                           delete what has expired
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Work on the store of responses: [store] url of the configuration, or another one.\n"
        "Text on a terminal, JSON in a pipe."
    )
    parser.epilog = _EPILOG
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    status = parts.add_parser("status", help="show what it contains")
    status.description = "Show the version of the schema, and what the store contains."
    _add_options(status, run_status)
    migrate = parts.add_parser("migrate", help="migrate the schema")
    migrate.description = "Migrate the schema of the store to this version of Antiphon."
    _add_options(migrate, run_migrate)
    prune = parts.add_parser("prune", help="delete what has expired")
    prune.description = "Delete the responses, event logs and conversations that have expired."
    _add_options(prune, run_prune)
    _add_copy(parts.add_parser("copy", help="copy everything into an empty store"))


def _add_options(parser: argparse.ArgumentParser, run: Callable[..., int]) -> None:
    parser.add_argument("url", nargs="?", metavar="URL", help="the store; default: [store] url")
    add_config_option(parser)
    parser.set_defaults(run=run)


def _add_copy(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy responses, event logs and conversations from one store into an empty one: all of\n"
        "it, or nothing. Stop the gateways that write to the first one before."
    )
    parser.add_argument("source", metavar="FROM", help="URL of the store to read")
    parser.add_argument("target", metavar="TO", help="URL of an empty store")
    parser.set_defaults(run=run_copy)


def run_status(args: argparse.Namespace) -> int:
    state = asyncio.run(_open(args).read_state())
    if is_terminal():
        print(_describe(state))
    else:
        write_json_lines([msgspec.to_builtins(state)])
    return 0 if state.version == state.newest_version else 1


def run_migrate(args: argparse.Namespace) -> int:
    before, after = asyncio.run(_open(args).migrate())
    text = f"The schema was migrated from version {before} to {after}."
    if before == after:
        text = f"The schema is up to date (version {after})."
    print_result(text, before=before, after=after)
    return 0


def run_prune(args: argparse.Namespace) -> int:
    count = asyncio.run(_open(args).prune(int(time.time())))
    text = f"{count:,} expired responses, event logs and conversations were deleted."
    print_result(text, deleted=count)
    return 0


def run_copy(args: argparse.Namespace) -> int:
    source, target = open_admin(args.source), open_admin(args.target)
    count = asyncio.run(copy_store(source, target))
    text = f"{count:,} rows were copied to {hide_password(args.target)}."
    print_result(text, copied=count)
    return 0


def _open(args: argparse.Namespace) -> StoreAdmin:
    url = args.url
    if url is None:
        url = resolve_store_url(load_config_or_default(args.config, needs=("store",)))
    return open_admin(url)


def _describe(state: StoreState) -> str:
    return (
        f"{state.name}\n"
        f"  schema {state.version}; this version of Antiphon uses {state.newest_version}\n"
        f"  responses: {state.responses:,}, of which {state.running:,} still run\n"
        f"  conversations: {state.conversations:,}"
    )
