"""GET /metrics of the real gateway: the figures of its requests."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from antiphon.config import PriceConfig
from tests.support.failing_providers import ScriptQueue, error
from tests.support.gateways import running, settings
from tests.support.prometheus_tools import scrape_sums
from tests.support.upstream import HELLO_WORLD, send_frames, upstream

BODY = {"model": "up/m", "input": "Hi", "store": True}


async def test_metrics_equal_what_clients_have_seen(tmp_path: Path) -> None:
    scripts = ScriptQueue(send_frames(HELLO_WORLD), send_frames(HELLO_WORLD), error(500))
    async with upstream(scripts) as provider:
        config = settings(tmp_path, provider.url)
        prices = {"up/*": PriceConfig(input=1.0, output=1.0)}
        async with running(structs.replace(config, prices=prices)) as gateway:
            events = await gateway.stream(BODY)
            _, _, whole = await gateway.post(BODY)
            assert (await gateway.post(BODY))[0] == 503
            assert (await gateway.post({**BODY, "temperature": "hot"}))[0] == 400
            found = await scrape_sums(gateway.client, gateway.base_url.removesuffix("/v1"))
    usage = [events[-1]["response"]["usage"], whole["usage"]]
    tokens = sum(each["total_tokens"] for each in usage)
    assert found["antiphon_requests_total"] == 3
    assert found["antiphon_rejected_requests_total"] == 1
    assert found["antiphon_attempts_total"] == 3
    assert found["antiphon_tokens_total"] == tokens
    assert round(found["antiphon_cost_dollars_total"] * 1e6) == tokens
    assert found["antiphon_first_event_seconds_count"] == 2
    assert found["antiphon_request_seconds_count"] == 3
    assert found["antiphon_store_seconds_count"] == 2
    assert found["antiphon_events_total"] >= len(events)
    assert found["antiphon_running_streams"] == 0
