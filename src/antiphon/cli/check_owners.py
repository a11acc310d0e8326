"""What `antiphon check` says of the gateway's own files: the capsule key, and owners of turns."""

from __future__ import annotations

import time
from collections.abc import Mapping

from antiphon.cli.load_config import resolve_store_url
from antiphon.config import Config, data_directory
from antiphon.server.capsule_key import FILE_NAME, read_key
from antiphon.store.url import sqlite_path
from antiphon.store.without_owner import TurnsWithoutOwner, count_turns_without_owner

_DAY_S = 24 * 3600


def check_files(config: Config, environment: Mapping[str, str]) -> None:
    """Raise what `antiphon serve` would raise about files that exist already."""
    key = data_directory(environment) / FILE_NAME
    if not config.capsule.keys and key.exists():
        read_key(key)
    _count(config, 0)


def describe_owners(config: Config) -> str:
    """Describe who finds stored responses, and which of them have no owner."""
    if not config.server.api_keys:
        return "one, because there are no client keys"
    found = _count(config, int(time.time()))
    days = -(-config.capsule.ttl_s // _DAY_S)
    return (
        "each client key finds only its own responses and reasoning state"
        f"{_describe_turns(found)}; reasoning state that an earlier version sealed can be used by"
        f" every key for {days} days from then"
    )


def _describe_turns(found: TurnsWithoutOwner) -> str:
    if not found.count:
        return ""
    one = found.count == 1
    responses = "1 response has" if one else f"{found.count:,} responses have"
    until = "" if found.expire_at is None else f" until {_format_day(found.expire_at)}"
    return (
        f"; {responses} no owner (stored by an earlier version) and can be continued by every"
        f" key{until}"
    )


def _format_day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _count(config: Config, now: int) -> TurnsWithoutOwner:
    path = sqlite_path(resolve_store_url(config))
    return TurnsWithoutOwner() if path is None else count_turns_without_owner(path, now)
