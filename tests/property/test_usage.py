"""Usage equals the sum of the requests: a thousand of them, with fallbacks and failures."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    Config,
    PriceConfig,
    ProviderConfig,
    ServerConfig,
    StoreConfig,
    TraceConfig,
)
from antiphon.observe.usage import UsageRow, query_usage
from antiphon.server.application import Application
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest
from antiphon.server.wiring import open_engine, open_setup
from antiphon.store.trace.reader import list_requests

REQUESTS = 1000
PARALLEL = 25
CLIENTS = {"alice": "key-a", "bob": "key-b", "carol": "key-c"}
# A name that clients use → the provider and the model that answer, and whether they fail.
MODELS: Mapping[str, tuple[str, str, bool]] = {
    "one/echo": ("one", "echo", False),
    "one/reasoner": ("one", "reasoner", False),
    "two/echo": ("two", "echo", False),
    "free/echo": ("free", "echo", False),
    "safe": ("two", "echo", False),  # its first provider always fails
    "two/error-midway": ("two", "error-midway", True),
    "one/cut": ("one", "cut", True),
    "two/error-400": ("two", "error-400", True),
}
PRICES = {
    "one/*": PriceConfig(input=1.0, output=3.0),
    "two/*": PriceConfig(input=0.25, output=2.0, cached_input=0.1),
    "failing/*": PriceConfig(input=1000.0, output=1000.0),
}


def configuration(path: Path) -> Config:
    names = ("one", "two", "free", "failing")
    address = "echo://elsewhere"  # another address: no listed price
    return Config(
        server=ServerConfig(api_keys=CLIENTS),
        providers={name: ProviderConfig(kind="echo", base_url=address) for name in names},
        models={"safe": "failing/error-500"},
        fallbacks={"safe": ["two/echo"]},
        prices=PRICES,
        attempts=AttemptConfig(
            max_attempts=4, backoff_s=0, max_backoff_s=0, breaker_threshold=10_000
        ),
        store=StoreConfig(url=f"sqlite:///{path / 'turns.db'}"),
        trace=TraceConfig(path=str(path / "trace.db")),
        capsule=CapsuleConfig(keys=["a key that only tests use"]),
    )


class Sent(msgspec.Struct, frozen=True):
    client: str
    model: str
    usage: dict[str, Any] | None


async def send(application: Application, rng: random.Random, places: asyncio.Semaphore) -> Sent:
    client, model = rng.choice([*CLIENTS]), rng.choice([*MODELS])
    words, is_streamed = "word " * rng.randint(1, 5), rng.random() < 0.5
    body = json.dumps({"model": model, "input": words, "stream": is_streamed}).encode()
    headers = {
        "authorization": f"Bearer {CLIENTS[client]}",
        "content-type": "application/json",
        "host": "localhost",
    }
    async with places:
        http = HTTPRequest.with_body("POST", "/v1/responses", headers, body)
        response = await application.handle(http)
        if isinstance(response.body, bytes):
            return Sent(client, model, json.loads(response.body).get("usage"))
        text = b"".join([piece async for piece in response.body]).decode()
    [ending] = [
        json.loads(line.removeprefix("data: "))
        for line in text.splitlines()
        if line.startswith('data: {"type":"response.')
        and line.split('"')[3] in ("response.completed", "response.failed")
    ]
    return Sent(client, model, ending["response"]["usage"])


def total(rows: list[UsageRow], name: str) -> float:
    return float(sum(getattr(row, name) for row in rows))


@pytest.mark.parametrize("seed", [1])
async def test_usage_is_the_sum_of_a_thousand_random_requests(tmp_path: Path, seed: int) -> None:
    rng, config = random.Random(seed), configuration(tmp_path)
    async with open_setup(config, {}, lambda entry: None) as setup:
        application = Application(GatewayProcess(setup))
        places = asyncio.Semaphore(PARALLEL)
        sent = await asyncio.gather(*(send(application, rng, places) for _ in range(REQUESTS)))
    async with open_engine(config, {}, lambda entry: None) as engine:
        rows = await query_usage(engine.services.store, since=0, until=1 << 40)
    expected = Counter((each.client, *MODELS[each.model]) for each in sent)
    requests = {
        (row.client, row.provider, row.model, row.failures > 0): row.requests for row in rows
    }
    assert requests == expected
    assert total(rows, "failures") == sum(MODELS[each.model][2] for each in sent)
    check_tokens(rows, sent)
    check_traces(rows, tmp_path / "trace.db")


def check_tokens(rows: list[UsageRow], sent: list[Sent]) -> None:
    """Tokens and cost are those that the clients were told, where they were told any."""
    for client in CLIENTS:
        for name in ("one/echo", "two/echo", "one/reasoner"):
            provider, model, _ = MODELS[name]
            names = [each for each, target in MODELS.items() if target == MODELS[name]]
            usages = [u.usage for u in sent if u.client == client and u.model in names]
            assert all(usages)
            [row] = [
                row
                for row in rows
                if (row.client, row.provider, row.model) == (client, provider, model)
            ]
            input_tokens = sum(usage["input_tokens"] for usage in usages if usage)
            output_tokens = sum(usage["output_tokens"] for usage in usages if usage)
            assert (row.input_tokens, row.output_tokens) == (input_tokens, output_tokens)
            price = PRICES[f"{provider}/*"]
            assert price.input is not None
            assert price.output is not None
            cost = (input_tokens * price.input + output_tokens * price.output) / 1e6
            assert row.cost == pytest.approx(cost)


def check_traces(rows: list[UsageRow], path: Path) -> None:
    """All sums are those of the rows in the trace."""
    traced = list_requests(path, REQUESTS + 1)
    assert len(traced) == REQUESTS
    usages = [each.usage for each in traced if each.usage is not None]
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
        assert total(rows, name) == sum(getattr(usage, name) for usage in usages)
    known = sum(usage.cost for usage in usages if usage.cost is not None)
    assert total(rows, "known_cost") == pytest.approx(known)
    unknown = [row for row in rows if row.cost is None]
    assert {row.provider for row in unknown} == {"free"}
    assert total(unknown, "unpriced_requests") == sum(usage.cost is None for usage in usages)
