"""Configuration of the page's API: effective settings with file and line; checking the file and
reloading it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.config import Config, ConfigSource, inspect_config
from antiphon.errors import ConfigError
from antiphon.server.config_problems import find_config_problems
from antiphon.server.endpoints.operator import require_file
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest

HIDDEN = "••••••"
_SECRETS = {"api_keys", "api_key", "admin_key", "keys", "headers", "query"}
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")


async def show_settings(request: PageRequest) -> HTTPResponse:
    config = request.process.setup.config
    return json_response({"file": _file_name(config), "settings": [*list_settings(config)]})


async def check_file(request: PageRequest) -> HTTPResponse:
    """Check the file as it is on the disk now; the configuration in effect does not change."""
    name = _file_name(request.process.setup.config)
    if name is None:
        return json_response({"file": None, "problems": []})
    problems = await asyncio.to_thread(find_problems, Path(name), request.process.page.environment)
    return json_response({"file": name, "problems": problems})


async def reload_file(request: PageRequest) -> HTTPResponse:
    """Use the file as it is on the disk now for new requests; with a mistake in it, nothing has
    changed."""
    name = require_file(request.process)
    try:
        reloaded = await request.process.reload()
    except ConfigError as error:
        return json_response({"file": name, "problems": error.message.splitlines()})
    return json_response({**msgspec.to_builtins(reloaded), "problems": []})


def find_problems(path: Path, environment: Mapping[str, str]) -> list[str]:
    """List the problems of a configuration file. Messages name file, line and key."""
    try:
        config, found = inspect_config(path, environment)
    except ConfigError as error:
        return [error.message]
    return [*find_config_problems(config, found, environment).problems]


def list_settings(config: Config) -> Iterator[dict[str, Any]]:
    """Yield every setting: its path, its value without secrets, and where it comes from."""
    source = config.source or ConfigSource()
    for path, value, default in _flatten(config, Config(), []):
        is_default = value == default
        line = source.find_line(path, exact=True)
        if line is None and not is_default:  # within an inline table
            line = source.find_line(path)
        yield {
            "table": path[:-1],
            "key": path[-1],
            "value": _hide_secrets(path, value),
            "line": line,
            "default": is_default,
        }


def _flatten(value: Any, default: Any, path: list[str]) -> Iterator[tuple[list[str], Any, Any]]:
    """Yield path, value and default of every setting, at any depth."""
    if isinstance(value, Struct):
        usual = default if isinstance(default, Struct) else type(value)()
        for name in value.__struct_fields__:
            if name not in ("source", "chosen_model"):
                yield from _flatten(getattr(value, name), getattr(usual, name), [*path, name])
    elif isinstance(value, dict) and path[-1] not in _SECRETS and value:
        for name, inner in value.items():
            yield from _flatten(inner, None, [*path, name])
    elif value is not None:
        yield path, value, default


def _hide_secrets(path: list[str], value: Any) -> Any:
    if path[-1] in _SECRETS:
        if isinstance(value, dict):
            return dict.fromkeys(value, HIDDEN)
        return [HIDDEN] * len(value) if isinstance(value, list) else HIDDEN if value else ""
    if isinstance(value, str):
        return _PASSWORD.sub(f"{HIDDEN}@", value)
    return msgspec.to_builtins(value)


def _file_name(config: Config) -> str | None:
    return config.source.name or None if config.source else None
