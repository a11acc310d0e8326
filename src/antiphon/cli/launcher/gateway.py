"""The gateway that an agent uses: one that is already running, or one started for this session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from antiphon.cli.load_config import find_config_path, load_config_or_default, make_base_url
from antiphon.config import Config
from antiphon.errors import GatewayError

KEY_VARIABLE = "ANTIPHON_API_KEY"
"""The environment variable with the user's key of the gateway."""
_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 10.0
_UNAUTHORIZED = 401
_REJECTED = object()
"""In place of a document that needs another key."""
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the API key must not be sent to another server."""

    def redirect_request(self, *arguments: object) -> None:
        return None


_HTTP = build_opener(ProxyHandler({}), _NoRedirect)  # no proxy: the gateway runs on this machine


class RunningGateway(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway that accepts requests, with its model list (`GET /v1/models`)."""

    base_url: str
    key: str
    catalog: Mapping[str, Any]


def find_gateway(config: Config) -> RunningGateway | None:
    """Find a running gateway at the address of the configuration."""
    server = config.server
    if not server.port:
        return None  # port 0: a running gateway could have any port
    url = make_base_url(server.host, server.port)
    return _read_models(url, _choose_key(config)) if is_running(url) else None


def is_running(base_url: str) -> bool:
    """Whether a gateway at this URL accepts requests."""
    health = _get_json(base_url.removesuffix("/v1") + "/health")
    return isinstance(health, dict) and health.get("ready") is True


def describe_gateway() -> str:
    """Say whether a gateway runs at the configured address."""
    server = load_config_or_default(None, needs=()).server
    url = make_base_url(server.host, server.port)
    if is_running(url):
        return f"A gateway runs at {url}; its page is {url.removesuffix('/v1')}/ui."
    return f"No gateway runs at {url}. Start one: antiphon serve"


@contextmanager
def start_gateway(config: Config, explicit: str | None) -> Iterator[RunningGateway]:
    """Start a gateway on a free port, in a session of its own; stop it when the block ends."""
    path = find_config_path(explicit, search_cwd=False)
    # Without a file, `serve` would search the current directory, which is a user's project.
    options = ["--config", str(path)] if path else ["--no-config"]
    # `-P`: modules in the current directory, which is a user's project, must not be imported.
    command = [sys.executable, "-P", "-m", "antiphon.cli.main", "serve", *options]
    command += ["--host", "127.0.0.1", "--port", "0"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches the agent only
        )
        try:
            url = _read_announced_url(process, errors)
            gateway = _read_models(url, _choose_key(config))
            if gateway is None:
                raise GatewayError(
                    f"the gateway was started at {url}, but GET {url}/models lists no models."
                    " `antiphon check` shows whether the configuration is valid."
                )
            yield gateway
        finally:
            _stop(process)


def _read_announced_url(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """Read the URL that `antiphon serve` prints once it accepts connections."""
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    if found := re.search(r"http://\S+", line):
        return found[0]
    process.wait()
    errors.seek(0)
    message = errors.read().decode(errors="replace").strip().removeprefix("antiphon: ")
    raise GatewayError(
        message or "the gateway could not be started: run `antiphon serve` to see why."
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _choose_key(config: Config) -> str:
    """Choose an API key for the gateway: the user's own, whose usage and limits are meant, or else
    the first one. Agents always need one, even if the gateway does not."""
    configured = next(iter(config.server.api_keys.values()), "")
    return os.environ.get(KEY_VARIABLE) or configured or "none"


def _read_models(url: str, key: str) -> RunningGateway | None:
    """Read the model list; None if it is not that of an Antiphon gateway. Raises `GatewayError` if
    the user's own key is rejected: that of another client is no replacement."""
    document = _get_json(f"{url}/models", key)
    if document is _REJECTED and key == os.environ.get(KEY_VARIABLE):
        raise GatewayError(
            f"the gateway at {url} rejects the key in {KEY_VARIABLE}. Set it to your key of this"
            " gateway, or unset it."
        )
    match document:
        case {"models": [_, *_], "antiphon": {"default_model": str()}}:
            return RunningGateway(base_url=url, key=key, catalog=document)
    return None


def _get_json(url: str, key: str = "") -> Any:
    """Read a JSON document; None if the request fails or the response is not JSON, `_REJECTED` if
    it needs another key."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with _HTTP.open(Request(url, headers=headers), timeout=_TIMEOUT_S) as response:
            return msgspec.json.decode(response.read(_MAX_RESPONSE_BYTES))
    except HTTPError as error:
        return _REJECTED if error.code == _UNAUTHORIZED else None
    except (OSError, HTTPException, ValueError, RecursionError):  # it is not HTTP, or not JSON
        return None


def describe_use(gateway: RunningGateway, since_ms: int) -> str | None:
    """Describe the requests since a time in one line, with the address of their session on the
    page; None if there were none, or if the page needs its admin key."""
    page = gateway.base_url.removesuffix("/v1") + "/ui"
    found = _get_json(f"{page}/api/sessions")
    rows = found.get("rows", ()) if isinstance(found, dict) else ()
    used = [row for row in rows if row["began_at_ms"] >= since_ms]
    if not used:
        return None
    requests = sum(row["requests"] for row in used)
    tokens = sum(row["input_tokens"] + row["output_tokens"] for row in used)
    cost = _describe_cost(used)
    names = "request" if requests == 1 else "requests"
    path = f"sessions/{quote(used[0]['session'], safe='')}" if len(used) == 1 else "sessions"
    return f"{requests:,} {names}, {tokens:,} tokens, {cost} · {page}/{path}"


def _describe_cost(rows: Sequence[Mapping[str, Any]]) -> str:
    known = sum(row["cost"] for row in rows)
    if not any(row["unpriced"] for row in rows):
        return f"${known:.4f}"
    return f"at least ${known:.4f}" if known else "cost unknown (no price is set)"


def read_catalog(config: Config) -> Mapping[str, Any]:
    """Read the model list of the running gateway, or make the one it would have."""
    if gateway := find_gateway(config):
        return gateway.catalog
    from antiphon.engine.routing import make_router  # slow: only if no gateway is running
    from antiphon.providers.registry import build_providers
    from antiphon.server.model_catalog import model_list

    router = make_router(config, build_providers(config, os.environ))
    return model_list(router, describes_images=bool(config.vision.model))
