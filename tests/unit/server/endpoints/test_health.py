"""Health probes: liveness, and readiness until shutdown."""

from __future__ import annotations

import pytest

from tests.support.applications import document_of, open_application


@pytest.mark.parametrize("path", ["/health", "/health/live"])
async def test_liveness_reports_whether_new_requests_are_accepted(path: str) -> None:
    async with open_application() as opened:
        before = await opened.request("GET", path)
        opened.application.process.stop_accepting()
        after = await opened.request("GET", path)
    assert (before.status, document_of(before)) == (200, {"status": "ok", "ready": True})
    assert (after.status, document_of(after)) == (200, {"status": "ok", "ready": False})


async def test_readiness_is_a_503_during_shutdown() -> None:
    async with open_application() as opened:
        before = await opened.request("GET", "/health/ready")
        opened.application.process.stop_accepting()
        after = await opened.request("GET", "/health/ready")
    assert (before.status, document_of(before)) == (200, {"status": "ok"})
    assert (after.status, document_of(after)) == (503, {"status": "shutting down"})
