"""Metrics: what an ended request adds to which series."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from antiphon.engine.fault_report import FaultReport
from antiphon.engine.report import ServerCallReport
from antiphon.observe.label_values import MAX_VALUES
from antiphon.observe.metrics import EngineMetrics, Metrics, split_tokens
from tests.support.applications import open_application
from tests.support.run_reports import USAGE, attempt_report, run_report


def read(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """All samples by name and label values; labels are in alphabetical order."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_request_adds_to_every_series() -> None:
    metrics = Metrics()
    metrics.count([run_report(load_ms=2.0, save_ms=4.0)] * 2)
    samples = read(metrics)
    assert samples["antiphon_requests_total", "me", "responses", "m", "up", "completed"] == 2
    assert samples["antiphon_events_total", "m", "up"] == 18
    assert samples["antiphon_cost_dollars_total", "me", "m", "up"] == 5.0
    assert samples["antiphon_attempts_total", "none", "m", "up"] == 2
    assert samples["antiphon_first_event_seconds_sum", "m", "up"] == pytest.approx(0.6)
    assert samples["antiphon_request_seconds_sum", "m", "up"] == 6.0
    assert samples["antiphon_store_seconds_sum", "load"] == pytest.approx(0.004)
    assert samples["antiphon_store_seconds_sum", "save"] == pytest.approx(0.008)


def test_failed_responses_are_counted_by_code() -> None:
    metrics = Metrics()
    failure = FaultReport(code="bridge.response.invalid_output_format")
    metrics.count([run_report(status="failed", failure=failure)] * 2 + [run_report()])
    samples = read(metrics)
    code = "bridge.response.invalid_output_format"
    assert samples["antiphon_failed_responses_total", code, "m", "up"] == 2
    assert [name for name, *_ in samples if name == "antiphon_failed_responses_total"] == [
        "antiphon_failed_responses_total"
    ]


def test_the_kinds_of_tokens_add_up_to_the_total() -> None:
    metrics = Metrics()
    metrics.count([run_report()])
    samples = read(metrics)
    tokens = {key[2]: value for key, value in samples.items() if key[0] == "antiphon_tokens_total"}
    assert tokens == split_tokens([USAGE])
    assert tokens == {
        "input": 40,
        "cached_input": 20,
        "cache_write": 10,
        "output": 20,
        "reasoning": 30,
    }
    assert sum(tokens.values()) == USAGE.total_tokens


def test_an_unknown_cost_is_not_zero() -> None:
    metrics = Metrics()
    metrics.count([run_report(cost=None)])
    samples = read(metrics)
    assert samples["antiphon_unpriced_requests_total", "m", "up"] == 1
    assert ("antiphon_cost_dollars_total", "me", "m", "up") not in samples


def test_requests_of_one_batch_are_counted_by_their_labels() -> None:
    metrics = Metrics()
    failed = run_report(status="failed", usage=None, cost=None, first_event_ms=None)
    other = run_report(client="you", model="n", events=1)
    metrics.count([run_report(), failed, other, run_report()])
    samples = read(metrics)
    assert samples["antiphon_requests_total", "me", "responses", "m", "up", "completed"] == 2
    assert samples["antiphon_requests_total", "me", "responses", "m", "up", "failed"] == 1
    assert samples["antiphon_requests_total", "you", "responses", "n", "up", "completed"] == 1
    assert samples["antiphon_events_total", "m", "up"] == 27
    assert samples["antiphon_tokens_total", "me", "reasoning", "m", "up"] == 60
    assert samples["antiphon_cost_dollars_total", "me", "m", "up"] == 5.0
    assert samples["antiphon_unpriced_requests_total", "m", "up"] == 1
    assert samples["antiphon_first_event_seconds_count", "m", "up"] == 2
    assert samples["antiphon_request_seconds_count", "m", "up"] == 3
    assert samples["antiphon_attempts_total", "none", "m", "up"] == 4


def test_a_request_without_output_has_no_time_to_its_first_event() -> None:
    metrics = Metrics()
    attempts = [attempt_report(fault_type="rate_limit"), attempt_report(provider="other")]
    metrics.count([run_report(first_event_ms=None, usage=None, attempts=attempts)])
    samples = read(metrics)
    assert not any(name[0].startswith("antiphon_first_event") for name in samples)
    assert samples["antiphon_attempts_total", "rate_limit", "m", "up"] == 1
    assert samples["antiphon_attempts_total", "none", "m", "other"] == 1


def test_model_names_and_codes_that_clients_choose_cannot_add_series_without_end() -> None:
    metrics = Metrics()
    names = (f"m{number}" for number in range(MAX_VALUES * 2))
    metrics.count(run_report(model=name, attempts=()) for name in names)
    for number in range(MAX_VALUES * 2):
        metrics.count_rejection(f"code_{number}")
    text = metrics.render().decode()
    for name in ("antiphon_requests_total", "antiphon_rejected_requests_total"):
        assert text.count(f"\n{name}{{") == MAX_VALUES + 1
    assert f'antiphon_rejected_requests_total{{code="other"}} {MAX_VALUES:.1f}' in text


def test_calls_of_mcp_servers_are_counted_with_their_duration() -> None:
    metrics = Metrics()
    listed = ServerCallReport(server="sky", item_id="mcpl_1", duration_ms=500)
    called = ServerCallReport(server="sky", tool="weather", item_id="mcp_1", error="http_error")
    metrics.count([run_report(server_calls=[listed, called, called])])
    samples = read(metrics)
    assert samples["antiphon_mcp_call_seconds_sum", "none", "list", "sky"] == 0.5
    assert samples["antiphon_mcp_call_seconds_count", "http_error", "call", "sky"] == 2


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
