"""GET /health, /health/live and /health/ready: probes for load balancers; they need no key."""

from __future__ import annotations

from antiphon.server.endpoints.context import Context
from antiphon.server.http import HTTPResponse, json_response


async def live(context: Context) -> HTTPResponse:
    """200 as long as the process runs."""
    return json_response({"status": "ok", "ready": context.service.state.ready})


async def ready(context: Context) -> HTTPResponse:
    """200 while new requests are accepted and stored, 503 otherwise."""
    service = context.service
    if not service.state.ready:
        return json_response({"status": "shutting down"}, status=503)
    if not await service.store_check.is_available():
        unavailable = {"status": "store unavailable", "store": service.store_check.store.name}
        return json_response(unavailable, status=503)
    return json_response({"status": "ok"})
