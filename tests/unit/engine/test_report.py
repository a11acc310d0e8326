"""Reports of runs: which of them count as failures."""

from __future__ import annotations

import pytest

from antiphon.engine.report import RunReport


@pytest.mark.parametrize(
    ("status", "is_failed"),
    [("completed", False), ("incomplete", False), ("cancelled", False), ("failed", True)],
)
def test_only_a_failed_response_is_a_failure(status: str, is_failed: bool) -> None:
    request = RunReport(
        request_id="req_1", received_at_ms=0, client="me", provider="up", model="m", status=status
    )
    assert request.is_failed is is_failed
