"""The shared service: which failures of the gateway are logged, and how."""

from __future__ import annotations

from antiphon.errors import StoreError
from antiphon.server.endpoints.context import Received
from tests.support.applications import open_application


async def test_a_known_error_is_logged_with_code_and_reason_and_a_bug_with_its_traceback() -> None:
    async with open_application() as opened:
        service = opened.application.service
        service.report_failure(StoreError("turns.db: disk full"), "req_1")
        error = KeyError("it is: what a client sent")
        received = Received(document={"input": "what a client sent"})
        service.report_failure(error, "req_2", received)
    assert [(entry.event, entry.level, entry.facts) for entry in opened.log] == [
        (
            "request.failed",
            "error",
            {"request_id": "req_1", "code": "store.failed", "reason": "turns.db: disk full"},
        ),
        (
            "gateway.bug",
            "error",
            {
                "request_id": "req_2",
                "error": "KeyError",
                "message": "'it is: «request text»'",
                "traceback": [],
            },
        ),
    ]
