"""POST /admin/reload: read the configuration file again. For this machine only."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from antiphon.errors import ConfigError, InvalidRequest
from antiphon.server.admin_access import is_local
from antiphon.server.endpoints.context import Context, Reload, Service
from antiphon.server.endpoints.responses import read_document
from antiphon.server.errors import error_response
from antiphon.server.http import HTTPResponse, json_response

PATH = "/admin/reload"


async def reload(context: Context) -> HTTPResponse:
    """Reload, for whoever can read the file: `sha256` in the body must be the digest of it."""
    if not is_local(context.http):
        raise InvalidRequest(
            "The configuration can be reloaded only from the machine of the gateway.",
            code="forbidden",
            status=403,
        )
    document = await read_document(context)
    reload_file, name = require_reload(context.service)
    _check_digest(document.get("sha256"), name)
    try:
        return json_response(await reload_file())
    except ConfigError as error:
        return error_response(400, error.message, code="invalid_configuration")


def require_reload(service: Service) -> tuple[Reload, str]:
    """Return how to reload, and the name of the file; raises `InvalidRequest` if there is none."""
    source = service.configuration.source
    if service.state.reload is None or source is None or not source.name:
        raise InvalidRequest(
            "This gateway runs without a configuration file, so that there is nothing to reload.",
            code="no_configuration_file",
            status=409,
        )
    return service.state.reload, source.name


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
