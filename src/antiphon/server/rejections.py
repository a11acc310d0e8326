"""Trace rows of requests that were rejected before a run began, under the id their client got."""

from __future__ import annotations

import msgspec

from antiphon.engine.fault_report import clean_text
from antiphon.engine.services import Caller, Services
from antiphon.server.endpoints.context import Received
from antiphon.server.http import HTTPResponse
from antiphon.store.trace.rows import TraceError, TraceFinish, TraceRequest


def record_rejection(
    services: Services, caller: Caller, received: Received, response: HTTPResponse
) -> None:
    """Record a request and the error it was answered with, without what that quotes of it."""
    record, error, request_id = services.tracer.record, _read_error(response), caller.request_id
    texts = received.texts()
    row = TraceError(
        request_id=request_id,
        code=error.get("code") or error.get("type") or str(response.status),
        message=clean_text(error.get("message") or "", services.redactor, texts),
        param=clean_text(error.get("param") or "", services.redactor, texts) or None,
    )
    record(
        TraceRequest(
            request_id=request_id,
            received_at_ms=services.runtime.now_ms(),
            client=received.client or None,
            software=caller.profile.software,
            model=received.model,
            stream=(received.document or {}).get("stream") is True,
        )
    )
    record(row)
    if services.accounting.on_rejected is not None:
        services.accounting.on_rejected(row.code)
    record(
        TraceFinish(
            request_id=request_id, status="rejected", http_status=response.status, duration_ms=0
        )
    )


def _read_error(response: HTTPResponse) -> dict[str, str | None]:
    """Read the error of a response in the shape of the API."""
    if not isinstance(response.body, bytes):
        return {}
    error: dict[str, str | None] = msgspec.json.decode(response.body)["error"]
    return error
