"""What a command runs with: a configuration file if there is one, else the environment alone."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from antiphon.config import Config, data_directory, find_config, load_config


def add_config_option(parser: argparse.ArgumentParser, *, here: bool = True) -> None:
    nearby = " ./antiphon.toml," if here else ""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=f"the configuration to use; by default $ANTIPHON_CONFIG,{nearby} or"
        " antiphon/antiphon.toml in your configuration directory, whichever is first",
    )


def find_settings(explicit: str | None, *, here: bool = True) -> Path | None:
    """`here` is whether the file may be in the current directory: in a project of somebody else's,
    it could send any key of the environment anywhere."""
    return find_config(explicit, os.environ, Path.cwd() if here else None)


def load_settings(explicit: str | None, *, here: bool = True) -> Config:
    path = find_settings(explicit, here=here)
    return Config() if path is None else load_config(path, os.environ)


def store_url(config: Config) -> str:
    """Where turns are kept, said or not."""
    return config.store.url or f"sqlite:///{data_directory(os.environ) / 'turns.db'}"


def trace_path(config: Config) -> Path:
    """Where the trace is, said or not."""
    return Path(config.trace.path or data_directory(os.environ) / "trace.db")


def base_url(host: str, port: int) -> str:
    """The address of a gateway that listens there, as this machine can ask for it."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}/v1"
