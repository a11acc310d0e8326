"""One exchange: which failures of the gateway are logged, and how."""

from __future__ import annotations

from typing import Any

from antiphon.engine.services import Caller
from antiphon.errors import StoreError
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPRequest
from tests.support.applications import OpenApplication, open_application


def make_exchange(opened: OpenApplication, request_id: str, **received: Any) -> Exchange:
    process = opened.application.process
    http = HTTPRequest.with_body("POST", "/v1/responses", {})
    return Exchange(process, process.setup, http, Caller("local", request_id), **received)


async def test_a_known_error_is_logged_with_code_and_reason_and_a_bug_with_its_traceback() -> None:
    async with open_application() as opened:
        error = StoreError("turns.db: disk full")
        make_exchange(opened, "req_1").report_failure(error)
        document = {"input": "what a client sent"}
        exchange = make_exchange(opened, "req_2", document=document)
        exchange.report_failure(KeyError("it is: what a client sent"))
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
