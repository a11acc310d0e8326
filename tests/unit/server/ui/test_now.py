"""The Now view: running requests of this process, the last hour, times to the first output."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from antiphon.observe.recorder import UsageRecorder
from antiphon.server.ui.now import MINUTES, percentiles
from antiphon.store.trace.reader import TraceFilter, list_requests
from antiphon.store.trace.rows import TraceAttempt, TraceRow
from tests.support.applications import echo_config, open_application
from tests.support.pages.api import ask_json, traced_application
from tests.support.traces import finish, request


async def test_without_a_trace_only_the_state_of_the_process_is_known() -> None:
    async with open_application(echo_config(api_keys={"alice": "sk-alice"})) as opened:
        now = await ask_json(opened, "now")
    assert (now["traced"], now["running"], now["streams"], now["minutes"]) == (False, 0, [], [])
    assert (now["needs_client_key"], now["default_model"]) == (True, "echo/echo")
    assert [provider["name"] for provider in now["providers"]] == ["echo"]


async def test_the_last_hour_has_every_minute(tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    rows: list[TraceRow] = [
        request("q3", received_at_ms=now_ms - 7_200_000),
        request("q2", received_at_ms=now_ms - 600_000),
        request("q1", received_at_ms=now_ms),
        TraceAttempt(request_id="q1", number=1, provider="p", model="m"),
        finish("q1", "failed"),
    ]
    async with traced_application(tmp_path, *rows) as opened:
        now = await ask_json(opened, "now")
    minutes = now["minutes"]
    assert len(minutes) == MINUTES
    assert [sum(column) for column in zip(*minutes, strict=True)] == [2, 1, 0]
    assert now["streams"] == []  # of an earlier process
    assert now["first_output_ms"] is not None


async def test_now_usage_and_trace_count_the_same_requests_and_failures(tmp_path: Path) -> None:
    """A request that was rejected reached no provider: it is neither a request nor a failure."""
    async with traced_application(tmp_path) as opened:
        services = opened.engine.services
        usage = UsageRecorder(services.store.usage, services.accounting, opened.log.append)
        usage.start()
        await opened.create()
        await opened.create(model="echo/error-503")
        for _ in range(3):
            await opened.create(temperature="warm")
        await usage.close()
        [row] = (await ask_json(opened, "usage", "by=client"))["rows"]
    async with traced_application(tmp_path) as opened:  # the first one has written its trace
        now = await ask_json(opened, "now")
        failures = await ask_json(opened, "requests", "status=failed")
    assert [sum(column) for column in zip(*now["minutes"], strict=True)] == [2, 1, 3]
    assert (row["requests"], row["failures"]) == (2, 1)
    assert [each["model"] for each in failures["rows"]] == ["echo/error-503"]
    path = tmp_path / "trace.db"
    [failed] = list_requests(path, where=TraceFilter(failed=True))
    assert failed.request.model == "echo/error-503"
    assert len(list_requests(path, where=TraceFilter(status="rejected"))) == 3


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([7], {"p50": 7, "p95": 7}),
        ([*range(1, 101)], {"p50": 50, "p95": 95}),
    ],
)
def test_percentiles_are_values_that_occurred(
    values: list[int], expected: dict[str, int] | None
) -> None:
    assert percentiles(values[::-1]) == expected
