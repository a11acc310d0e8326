"""The gateway that Codex is to talk to: one that runs already, or one of our own for as long."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from antiphon.cli.codex.config import KEY_VARIABLE
from antiphon.cli.load_config import base_url, find_settings
from antiphon.config import Config
from antiphon.errors import GatewayError

_PATIENCE_S = 5.0
_LAST_WORDS_S = 10.0
_MOST_BYTES = 64 * 1024 * 1024


class _NoRedirect(HTTPRedirectHandler):
    """A key is for the gateway, and not for wherever somebody else points to."""

    def redirect_request(self, *about: object) -> None:
        return None


_HTTP = build_opener(ProxyHandler({}), _NoRedirect)  # on this machine, so without any proxy


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway that answers, and what it has to say about its models."""

    base_url: str
    key: str
    catalog: Mapping[str, Any]


def find_gateway(config: Config) -> Gateway | None:
    """The gateway that runs where the configuration says, if it is one of ours."""
    server = config.server
    if not server.port:
        return None  # it would be anywhere
    address = base_url(server.host, server.port)
    health = _get(address.removesuffix("/v1") + "/health")
    is_well = isinstance(health, dict) and health.get("ready") is True
    return _introduced(address, _key(config)) if is_well else None


@contextmanager
def started_gateway(config: Config, explicit: str | None) -> Iterator[Gateway]:
    """A gateway on a free port, out of reach of the keyboard, until the block ends."""
    source = find_settings(explicit, here=False)
    options = ["--config", str(source)] if source else []
    # `-P`: what lies about in the directory of a project is nothing to be imported.
    command = [sys.executable, "-P", "-m", "antiphon.cli.main", "serve", *options]
    command += ["--host", "127.0.0.1", "--port", "0"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for Codex
        )
        try:
            gateway = _introduced(_announced(process, errors), _key(config))
            if gateway is None:
                raise GatewayError("the gateway was started, but does not list its models")
            yield gateway
        finally:
            _stop(process)


def _announced(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """The address that a gateway tells once it listens."""
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    if found := re.search(r"http://\S+", line):
        return found[0]
    process.wait()
    errors.seek(0)
    problem = errors.read().decode(errors="replace").strip().removeprefix("antiphon: ")
    raise GatewayError(problem or "the gateway could not be started")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _key(config: Config) -> str:
    """A key that the gateway takes. Where it wants none, any will do, but Codex must have one."""
    known = next(iter(config.server.api_keys.values()), "")
    return known or os.environ.get(KEY_VARIABLE) or "none"


def _introduced(address: str, key: str) -> Gateway | None:
    """The gateway, once it has listed its models in the way that only ours do."""
    document = _get(f"{address}/models", key)
    match document:
        case {"models": [_, *_], "antiphon": {"default_model": str()}}:
            return Gateway(base_url=address, key=key, catalog=document)
    return None


def _get(url: str, key: str = "") -> Any:
    """A JSON document; None if nobody answers, or something else."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with _HTTP.open(Request(url, headers=headers), timeout=_PATIENCE_S) as answer:
            return msgspec.json.decode(answer.read(_MOST_BYTES))
    except (OSError, HTTPError, ValueError):  # among them what is not JSON, and not HTTP
        return None


def catalog_bytes(catalog: Mapping[str, Any]) -> bytes:
    """What of a model list is for Codex, as people can read it."""
    document = msgspec.json.encode({"models": catalog["models"]})
    return msgspec.json.format(document, indent=2) + b"\n"
