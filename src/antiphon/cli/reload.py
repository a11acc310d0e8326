"""`antiphon reload`: have the running gateway read its configuration file again."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.cli.load_config import (
    add_config_option,
    find_config_path,
    make_base_url,
)
from antiphon.cli.terminal import print_error, print_result
from antiphon.config import Config, load_config
from antiphon.errors import ConfigError

_TIMEOUT_S = 30.0
_EPILOG = """\
examples:
  antiphon reload                        reload the gateway of ./antiphon.toml
  antiphon reload --config team.toml     reload the gateway of another file
  antiphon reload --port 9000            a gateway that was started with --port 9000
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Apply a changed configuration file to the gateway that runs with it on this machine.\n"
        "New requests use the new providers, models, keys, limits and prices; running ones go\n"
        "on as they began. A file with a mistake changes nothing, and the exit status is not 0.\n"
        "SIGHUP does the same."
    )
    parser.epilog = _EPILOG
    add_config_option(parser)
    parser.add_argument("--port", type=int, help="port of the gateway; overrides [server] port")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    path = find_config_path(args.config)
    if path is None:
        raise ConfigError(
            "there is no configuration file to apply: name that of the gateway with --config FILE."
            " If the gateway runs without a file, restart it: it then reads its environment again."
        )
    config = load_config(path, os.environ, needs=())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    reply = _post(_address(config, args.port), {"sha256": digest})
    if "error" in reply:
        for line in str(reply["error"]["message"]).splitlines():
            print_error(line)
        return 1
    _print_result(**reply)
    return 0


def _print_result(file: str, needs_restart: Sequence[str], replaces_workers: bool) -> None:
    text = f"reloaded {file}"
    if replaces_workers:
        text = f"{file} is valid; the workers are replaced one by one"
    elif needs_restart:
        text += f"\nchanged, but in effect only after a restart: {', '.join(needs_restart)}"
    print_result(text, file=file, needs_restart=needs_restart, replaces_workers=replaces_workers)


def _address(config: Config, port: int | None) -> str:
    server = config.server
    base_url = make_base_url(server.host, server.port if port is None else port)
    return f"{base_url.removesuffix('/v1')}/admin/reload"


def _post(url: str, document: dict[str, Any]) -> Any:
    """Send a JSON document to the gateway, never by way of a proxy; return its reply."""
    request = urllib.request.Request(
        url, json.dumps(document).encode(), {"content-type": "application/json"}, method="POST"
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as response:
            return msgspec.json.decode(response.read())
    except urllib.error.HTTPError as error:
        return _read_error(error, url)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"no gateway responds at {url}: {reason}. Start it with `antiphon serve`, or name its"
            " port with --port."
        ) from error


def _read_error(error: urllib.error.HTTPError, url: str) -> Any:
    try:
        reply = msgspec.json.decode(error.read())
        return {"error": {"message": reply["error"]["message"]}}
    except (msgspec.DecodeError, KeyError, TypeError):
        return {
            "error": {"message": f"{url} is not a gateway: it responded with status {error.code}."}
        }
