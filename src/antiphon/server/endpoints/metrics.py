"""GET /metrics: the series of the gateway for Prometheus, for operators only."""

from __future__ import annotations

from antiphon.errors import InvalidRequest
from antiphon.server.admin_access import check_admin
from antiphon.server.endpoints.context import Context
from antiphon.server.http import HTTPResponse

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def scrape(context: Context) -> HTTPResponse:
    """Return all series in the text format of Prometheus."""
    check_admin(context.http, context.service.config.admin_key)
    metrics = context.service.state.metrics
    if metrics is None:
        raise InvalidRequest(
            "Metrics are switched off: set `enabled = true` in [metrics].",
            code="not_found",
            status=404,
        )
    return HTTPResponse(200, {"content-type": CONTENT_TYPE}, await metrics.scrape())
