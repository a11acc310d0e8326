"""Metrics of a running engine: scrapes are up to date, also if nothing was written yet."""

from __future__ import annotations

from antiphon.observe.engine_metrics import EngineMetrics
from tests.support.applications import open_application
from tests.support.run_reports import run_report


async def test_a_scrape_counts_what_has_ended_just_now() -> None:
    async with open_application() as opened:
        accounting = opened.engine.services.accounting
        metrics = EngineMetrics(lambda: opened.engine)
        metrics.start()
        accounting.record(run_report())
        text = (await metrics.scrape()).decode()
        again = (await metrics.scrape()).decode()
        metrics.close()
    sample = 'antiphon_events_total{model="m",provider="up"} 9.0'
    assert sample in text
    assert sample in again
    assert 'antiphon_queued_rows{queue="usage"} 1.0' in text
    assert 'antiphon_queued_rows{queue="usage"} 0.0' in again


async def test_a_rejected_request_is_counted_by_its_code() -> None:
    async with open_application() as opened:
        metrics = EngineMetrics(lambda: opened.engine)
        metrics.start()
        await opened.request("GET", "/v1/nothing")
        text = (await metrics.scrape()).decode()
        metrics.close()
    assert 'antiphon_rejected_requests_total{code="not_found"} 1.0' in text
