"""Many plausible requests and their usage, the same ones each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec

from antiphon.store.sqlite.file import connect, transaction
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceRow,
    TraceUsage,
)
from antiphon.store.trace.table import SCHEMA, EncodedRow, insert_rows
from antiphon.store.usage.histogram import find_bucket
from antiphon.store.usage.usage_table import COUNTS, HOUR_S, Counts, UsageKey

MODELS = (
    ("smart", "zhipu", "glm-5.3"),
    ("deepseek/deepseek-v4-pro", "deepseek", "deepseek-v4-pro"),
    ("fast", "deepseek", "deepseek-flash"),
)
CLIENTS = ("alice", "build-server", "admin")
HOUR_MS = 3_600_000
PRICES = {"glm-5.3": (900, 3100), "deepseek-v4-pro": (600, 2200), "deepseek-flash": None}
"""Billionths of a dollar for an input and an output token; None: unknown."""


def seed_trace(path: Path, now_ms: int, requests: int) -> None:
    """Write requests of the last two hours, the oldest first, each row at a time of its own."""
    random = Random(14)
    times = sorted(int(now_ms - 2 * HOUR_MS * random.random() ** 1.5) for _ in range(requests))
    records = [
        EncodedRow(at_ms + int(600 * random.random()), row, msgspec.json.encode(row))
        for at_ms in times
        for row in make_request(f"req_{random.getrandbits(128):032x}", at_ms, random)
    ]
    connection = connect(path, SCHEMA, synchronous="NORMAL")
    with closing(connection), transaction(connection):
        insert_rows(connection, records)


def make_usage(now_s: int, days: int) -> dict[UsageKey, Counts]:
    """Counts of every third hour of the last days."""
    random = Random(14)
    last = now_s // HOUR_S
    return {
        UsageKey(hour, client, model, provider): make_counts(model, random)
        for hour in range(last - days * 24, last + 1, 3)
        for _, provider, model in MODELS
        for client in CLIENTS
        if random.random() < (0.25 if hour % 24 < 6 else 0.8)
    }


def make_counts(model: str, random: Random) -> Counts:
    requests = random.randrange(3, 60)
    sent, received = (
        requests * random.randrange(4000, 30_000),
        requests * random.randrange(200, 1500),
    )
    price = PRICES[model]
    counts = {
        "requests": requests,
        "failures": random.randrange(requests) // 12,
        "input_tokens": sent,
        "cached_tokens": int(sent * random.uniform(0.3, 0.8)),
        "output_tokens": received,
        "cost": sent * price[0] + received * price[1] if price else 0,
        "unpriced": 0 if price else requests,
        f"first_event_{find_bucket(random.uniform(250, 900)):02}": requests,
    }
    return tuple(counts.get(name, 0) for name in COUNTS)


def make_request(id: str, at_ms: int, random: Random) -> Iterator[TraceRow]:
    model, provider, name = random.choice(MODELS)
    client = random.choices(CLIENTS, (6, 3, 1))[0]
    response_id = id.replace("req_", "resp_")
    yield TraceRequest(
        request_id=id,
        response_id=response_id,
        received_at_ms=at_ms,
        client=client,
        model=model,
        provider=provider,
        provider_model=name,
        stream=random.random() < 0.8,
    )
    yield from make_outcome(id, provider, name, random)


def make_outcome(id: str, provider: str, model: str, random: Random) -> Iterator[TraceRow]:
    failed, duration_ms = random.random() < 0.04, int(random.lognormvariate(8.2, 0.8))
    yield TraceAttempt(
        request_id=id,
        number=1,
        provider=provider,
        model=model,
        key_name="key 1",
        status=429 if failed else 200,
        fault_type="rate_limit" if failed else None,
        fault_code="rate_limit_exceeded" if failed else None,
        reason="Too many requests for this model." if failed else None,
        latency_ms=int(duration_ms * 0.2),
    )
    if failed:
        message = f"{provider} accepts no more requests at the moment: the rate limit is reached."
        yield TraceError(
            request_id=id, code="rate_limit_exceeded", message=message, provider=provider
        )
    else:
        sent, received, price = (
            random.randrange(400, 60_000),
            random.randrange(20, 3_000),
            PRICES[model],
        )
        yield TraceUsage(
            request_id=id,
            input_tokens=sent,
            cached_tokens=random.choice((0, sent // 2, sent * 9 // 10)),
            output_tokens=received,
            reasoning_tokens=random.choice((0, 128, 900)),
            cost=(sent * price[0] + received * price[1]) / 1e9 if price else None,
        )
    yield TraceFinish(
        request_id=id,
        status="failed" if failed else "completed",
        duration_ms=duration_ms,
        events=random.randrange(10, 900),
        provider=provider,
        provider_model=model,
        dialect="chat",
        key_name="key 1",
    )
