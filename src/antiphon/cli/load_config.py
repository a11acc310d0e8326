"""Configuration of a command: `antiphon.toml` if there is one, else the defaults."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from pathlib import Path

from antiphon.config import Config, data_directory, find_config, load_config


def add_config_option(
    parser: argparse.ArgumentParser, *, search_cwd: bool = True, with_no_config: bool = False
) -> None:
    """Add `--config FILE` and, for commands that may run without a file, `--no-config`."""
    in_cwd = ", ./antiphon.toml" if search_cwd else ""
    options = parser.add_mutually_exclusive_group()
    options.add_argument(
        "--config",
        metavar="FILE",
        help=f"the configuration file; default: the first of $ANTIPHON_CONFIG{in_cwd} and"
        " ~/.config/antiphon/antiphon.toml",
    )
    if with_no_config:
        options.add_argument(
            "--no-config",
            action="store_true",
            help="read no configuration file; API keys in the environment enable their providers",
        )


def find_config_path(explicit: str | None, *, search_cwd: bool = True) -> Path | None:
    """Find the configuration file; `explicit` is the value of `--config`.

    `search_cwd` is False where commands run in directories of other people's projects: an
    `antiphon.toml` there could send any key of the environment to any address.
    """
    return find_config(explicit, os.environ, Path.cwd() if search_cwd else None)


def load_config_or_default(
    explicit: str | None, *, search_cwd: bool = True, needs: Collection[str] | None = None
) -> Config:
    """Load the configuration. `needs` names the tables whose environment variables the command
    needs (None: all); in others a variable that is not set does not matter."""
    path = find_config_path(explicit, search_cwd=search_cwd)
    return Config() if path is None else load_config(path, os.environ, needs=needs)


def with_local_servers(config: Config) -> Config:
    """Add the model servers that run on this machine; see `add_local_servers`."""
    import asyncio  # slow, like the module below: only where the network is used

    from antiphon.engine.discovery.local_servers import add_local_servers, is_searched

    if not is_searched(config, os.environ):
        return config
    return asyncio.run(add_local_servers(config, os.environ))


def resolve_store_url(config: Config) -> str:
    """Return `[store] url`, or the default: `turns.db` in the data directory."""
    return config.store.url or f"sqlite:///{data_directory(os.environ) / 'turns.db'}"


def resolve_trace_path(config: Config) -> Path:
    """Return `[trace] path`, or the default: `trace.db` in the data directory."""
    return Path(config.trace.path or data_directory(os.environ) / "trace.db")


def make_base_url(host: str, port: int) -> str:
    """Make the URL at which this machine reaches a gateway that listens on `host`.

    A wildcard address is replaced by the loopback address of the same family.
    """
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}/v1"
