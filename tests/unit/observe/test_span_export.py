"""Export of spans: switched on by an endpoint, and its problems are in the log."""

from __future__ import annotations

import logging
import sys

import pytest

from antiphon.config import Config, OtelConfig
from antiphon.engine.accounting import Accounting
from antiphon.engine.runtime import Runtime
from antiphon.errors import ConfigError
from antiphon.observe.span_export import LogForwarder, make_context_factory, start_spans
from antiphon.observe.trace_context import take_over
from antiphon.stages.log import Entry
from tests.support.otlp_receiver import otlp_receiver
from tests.support.run_reports import run_report


def test_without_an_endpoint_there_are_no_spans() -> None:
    assert start_spans(Config(), {}, Accounting(), print) is None
    assert make_context_factory(Config(), Runtime()) is None


def test_without_the_sdk_an_endpoint_is_a_mistake_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    config = Config(otel=OtelConfig(endpoint="http://localhost:4318"))
    with pytest.raises(ConfigError, match="install the packages opentelemetry-sdk and"):
        start_spans(config, {}, Accounting(), print)


async def test_a_receiver_that_refuses_spans_is_in_the_log_and_stops_nothing() -> None:
    log: list[Entry] = []
    with otlp_receiver(status=400) as receiver:
        config = Config(otel=OtelConfig(endpoint=receiver.url))
        export = start_spans(config, {}, Accounting(), log.append)
        assert export is not None
        context = take_over(("", ""), Runtime().new_nonce)
        export.observe([run_report(context=context)])
        await export.close()
    assert {entry.event for entry in log} == {"spans.export"}
    assert not logging.getLogger("opentelemetry").handlers


def test_reports_of_the_sdk_become_log_entries() -> None:
    log: list[Entry] = []
    record = logging.LogRecord("opentelemetry", logging.ERROR, "", 0, "failed: %s", ("no",), None)
    LogForwarder(log.append).handle(record)
    assert log == [Entry("spans.export", "warning", {"reason": "failed: no"})]
