"""The shared service: which failures of the gateway are logged, and how."""

from __future__ import annotations

from antiphon.errors import StoreError
from antiphon.server.endpoints.context import Service
from tests.support.applications import echo_config, open_application


async def test_a_known_error_is_logged_with_code_and_reason_and_any_other_by_type() -> None:
    async with open_application() as opened:
        service = Service(opened.engine, echo_config().server)
        service.report_failure(StoreError("turns.db: disk full"), "req_1")
        service.report_failure(KeyError("what a client sent"), "req_2")
    assert [(entry.event, entry.level, entry.facts) for entry in opened.log] == [
        (
            "request.failed",
            "error",
            {"request_id": "req_1", "code": "store.failed", "reason": "turns.db: disk full"},
        ),
        ("request.crashed", "error", {"request_id": "req_2", "error": "KeyError"}),
    ]
