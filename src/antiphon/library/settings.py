"""Settings of the library: a configuration that writes no file unless it says so."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from antiphon.config import Config, load_config
from antiphon.stages.log import Entry

ConfigLike: TypeAlias = Config | str | os.PathLike[str] | None
"""A configuration, the path of an `antiphon.toml`, or None: providers from the environment."""

_log = logging.getLogger("antiphon")
_log.addHandler(logging.NullHandler())


def resolve_config(source: ConfigLike, environment: Mapping[str, str] | None = None) -> Config:
    """Return the configuration with everything kept in memory that it does not place elsewhere."""
    config = _read(source, os.environ if environment is None else environment)
    if not config.store.url:
        config = replace(config, store=replace(config.store, url="memory://"))
    if not config.trace.path:
        config = replace(config, trace=replace(config.trace, enabled=False))
    if not config.capsule.keys:
        config = replace(config, capsule=replace(config.capsule, keys=[os.urandom(32).hex()]))
    return config


def _read(source: ConfigLike, environment: Mapping[str, str]) -> Config:
    if source is None:
        return Config()
    return source if isinstance(source, Config) else load_config(Path(source), environment)


def write_log(entry: Entry) -> None:
    """Pass an entry to the logger `antiphon` of the standard library."""
    level = logging.getLevelNamesMapping()[entry.level.upper()]
    if _log.isEnabledFor(level):
        facts = " ".join(f"{name}={value}" for name, value in entry.facts.items())
        _log.log(level, "%s %s", entry.event, facts, extra={"facts": dict(entry.facts)})
