"""Endpoints of operators: /health, /metrics and /admin/reload. They need no client key: each checks
by itself who may use it."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from antiphon.errors import ConfigError, InvalidRequest
from antiphon.server.auth import check_admin, is_local
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPResponse, json_response

RELOAD_PATH = "/admin/reload"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def show_live(exchange: Exchange) -> HTTPResponse:
    """200 as long as the process runs."""
    return json_response({"status": "ok", "ready": exchange.process.is_ready})


async def show_ready(exchange: Exchange) -> HTTPResponse:
    """200 while new requests are accepted and stored, 503 otherwise."""
    process = exchange.process
    if not process.is_ready:
        return json_response({"status": "shutting down"}, status=503)
    if not await process.store_check.is_available():
        unavailable = {"status": "store unavailable", "store": process.store_check.store.name}
        return json_response(unavailable, status=503)
    return json_response({"status": "ok"})


async def scrape(exchange: Exchange) -> HTTPResponse:
    """Return all series in the text format of Prometheus."""
    process = exchange.process
    check_admin(exchange.http, exchange.setup.server.admin_key, process.page.attempts)
    if process.metrics is None:
        raise InvalidRequest(
            "Metrics are switched off: set `enabled = true` in [metrics].",
            code="not_found",
            status=404,
        )
    return HTTPResponse(200, {"content-type": METRICS_TYPE}, await process.metrics.scrape())


async def reload(exchange: Exchange) -> HTTPResponse:
    """Read the configuration file again, for a client on this machine that can read the file:
    `sha256` in the body must be the digest of it."""
    if not is_local(exchange.http):
        raise InvalidRequest(
            "The configuration can be reloaded only from the machine of the gateway.",
            code="forbidden",
            status=403,
        )
    document = await exchange.read_document()
    _check_digest(document.get("sha256"), require_file(exchange.process))
    try:
        return json_response(await exchange.process.reload())
    except ConfigError as error:
        raise InvalidRequest(error.message, code="invalid_configuration") from error


def require_file(process: GatewayProcess) -> str:
    """Return the name of the file to reload; raises `InvalidRequest` if there is none."""
    name = process.file_to_reload
    if name is None:
        raise InvalidRequest(
            "This gateway runs without a configuration file, so that there is nothing to reload.",
            code="no_configuration_file",
            status=409,
        )
    return name


def _check_digest(digest: object, name: str) -> None:
    """Refuse a request for another file than the one of this gateway."""
    with suppress(OSError):
        if digest == hashlib.sha256(Path(name).read_bytes()).hexdigest():
            return
    raise InvalidRequest(
        "The gateway at this address uses another configuration file: `sha256` must be the digest"
        " of the file that it was started with.",
        param="sha256",
        code="other_configuration_file",
        status=403,
    )
