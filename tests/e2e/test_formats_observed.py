"""What surrounds a request is the same in every client format: metrics, trace, limits, usage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from antiphon.config import ClientLimitConfig, LimitConfig, PriceConfig
from antiphon.store.trace.reader import list_requests
from tests.support.gateways import Running, running, settings
from tests.support.upstream import HELLO_WORLD, send_frames, upstream

SAID = [{"role": "user", "content": "Hi"}]
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "responses": ("/responses", {"input": "Hi", "store": False}),
    "chat": ("/chat/completions", {"messages": SAID}),
    "messages": ("/messages", {"messages": SAID, "max_tokens": 100}),
}


async def post(gateway: Running, format: str, **more: Any) -> tuple[int, Any, Any]:
    path, body = PATHS[format]
    url = gateway.base_url + path
    async with gateway.client.post(url, json={"model": "up/m", **body, **more}) as response:
        headers = response.headers
        if response.content_type == "text/event-stream":
            return response.status, headers, await response.read()
        return response.status, headers, await response.json()


async def test_metrics_trace_usage_and_cost_know_every_format(tmp_path: Path) -> None:
    async with upstream(send_frames(HELLO_WORLD)) as provider:
        config = settings(tmp_path, provider.url)
        prices = {"up/*": PriceConfig(input=1.0, output=1.0)}
        config = structs.replace(
            config, prices=prices, trace=structs.replace(config.trace, payloads=True)
        )
        async with running(config) as gateway:
            for format in PATHS:
                for stream in (False, True):
                    status, _, _ = await post(gateway, format, stream=stream)
                    assert status == 200
                assert (await post(gateway, format, temperature="hot"))[0] == 400
            url = gateway.base_url.removesuffix("/v1") + "/metrics"
            async with gateway.client.get(url) as scraped:
                text = await scraped.text()
    counted = {
        (sample.name, sample.labels.get("format")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "antiphon_requests_total"
    }
    assert counted == {("antiphon_requests_total", format): 2 for format in PATHS}
    rows = list_requests(Path(config.trace.path))
    formats = [row.request.format for row in rows]
    assert sorted(formats) == sorted([*PATHS] * 3)
    served = [row for row in rows if row.usage is not None]
    assert len(served) == 6
    assert {(row.usage.input_tokens, row.usage.cost) for row in served if row.usage} == {
        (served[0].usage.input_tokens, served[0].usage.cost) if served[0].usage else None
    }


@pytest.mark.parametrize(
    ("format", "kind"), [("responses", None), ("chat", None), ("messages", "billing_error")]
)
async def test_a_limit_is_an_error_of_the_format(
    tmp_path: Path, format: str, kind: str | None
) -> None:
    async with upstream(send_frames(HELLO_WORLD)) as provider:
        limits = LimitConfig(clients={"*": ClientLimitConfig(requests_per_minute=1)})
        config = structs.replace(settings(tmp_path, provider.url), limits=limits)
        async with running(config) as gateway:
            first, _, _ = await post(gateway, format)
            second, headers, body = await post(gateway, format)
    assert (first, second) == (200, 429)
    assert int(headers["retry-after"]) >= 1
    assert "requests" in body["error"]["message"]
    if kind is not None:
        assert body["type"] == "error"
