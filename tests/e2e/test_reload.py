"""Reload under load: no stream is cut, and no request uses two configurations."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, ProviderConfig, parse_config
from antiphon.errors import ConfigError
from antiphon.store.trace.reader import list_requests
from tests.support.gateways import Running, events_of, replaced, running, settings
from tests.support.upstream import (
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Upstream,
    upstream,
)
from tests.support.waiting import until

CLIENT_KEY = "sk-of-the-client"
HEADERS = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
STREAMS = 64
RELOADS = 100


class Reloads:
    """Counts reloads, and lets streams wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def note(self) -> None:
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, count: int) -> None:
        """Wait until so many more have happened, or all of them."""
        last = min(self.count + count, RELOADS)
        while self.count < last:
            await self._next.wait()


class Provider:
    """A provider that answers only requests of its own configuration, across several reloads."""

    def __init__(self, name: str, reloads: Reloads, rng: random.Random) -> None:
        self.name = name
        self.mixed: list[tuple[str, str]] = []
        self.answered = 0
        self._reloads = reloads
        self._rng = rng

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        used = request.headers["authorization"], request.body["model"]
        if used != (f"Bearer sk-key-{self.name}", f"model-{self.name}"):
            self.mixed.append(used)
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        await self._reloads.wait(self._rng.randrange(1, 20))
        for each in HELLO_WORLD[len(HELLO) :]:
            await connection.send(each)
        self.answered += 1
        await connection.end()


def configuration(tmp_path: Path, name: str, server: Upstream) -> Config:
    """Everything of a provider differs: its address, its key and the model behind the alias; and so
    does the name of the client that has the key."""
    provider = ProviderConfig(kind="chat", base_url=server.url, api_keys=[f"sk-key-{name}"])
    return replaced(
        settings(tmp_path, server.url, api_keys={f"client-{name}": CLIENT_KEY}),
        providers={"up": provider},
        models={"alias": f"up/model-{name}"},
    )


async def send_body(reloads: Reloads) -> AsyncIterator[bytes]:
    """Send a request whose key arrives before a reload, and the end of its body after it."""
    request = {"model": "alias", "input": "Hi", "store": False, "stream": True}
    body = json.dumps(request).encode()
    yield body[:10]
    if reloads.count > 0:
        await reloads.wait(1)
    yield body[10:]


async def stream_until_the_end(gateway: Running, reloads: Reloads) -> list[Mapping[str, Any]]:
    """Stream one answer after another; return the last event of each."""
    last: list[Mapping[str, Any]] = []
    while reloads.count < RELOADS:
        async with gateway.client.post(
            f"{gateway.base_url}/responses", data=send_body(reloads), headers=HEADERS
        ) as response:
            assert response.status == 200, await response.text()
            last.append(events_of(await response.read())[-1])
    return last


def read_bad_file() -> Config:
    return parse_config('[models]\nalias = "nobody/m"\nbroken = 7\n', {}, name="bad.toml")


async def fail_to_reload(gateway: Running, load: dict[str, Callable[[], Config]]) -> None:
    """Try to reload a file with a mistake; what is in effect is what was."""
    good, load["now"] = load["now"], read_bad_file
    with pytest.raises(ConfigError, match=r"bad\.toml:3"):
        await gateway.gateway.process.reload()
    load["now"] = good


async def test_a_hundred_reloads_cut_no_stream_and_mix_no_configurations(tmp_path: Path) -> None:
    reloads, rng = Reloads(), random.Random(14)
    async with AsyncExitStack() as stack:
        providers = [Provider(name, reloads, rng) for name in "ab"]
        servers = [await stack.enter_async_context(upstream(each)) for each in providers]
        configs = [
            configuration(tmp_path, provider.name, server)
            for provider, server in zip(providers, servers, strict=True)
        ]
        load = {"now": lambda: configs[0]}
        gateway = await stack.enter_async_context(running(configs[0], load=lambda: load["now"]()))
        clients = [
            asyncio.get_running_loop().create_task(stream_until_the_end(gateway, reloads))
            for _ in range(STREAMS)
        ]
        await until(lambda: len(gateway.engine.active) == STREAMS, "every stream has begun")
        for number in range(RELOADS):
            load["now"] = partial(configs.__getitem__, (number + 1) % 2)
            await gateway.gateway.process.reload()
            if number % 10 == 0:
                await fail_to_reload(gateway, load)
            reloads.note()
        ended = [event for events in await asyncio.gather(*clients) for event in events]
    assert {event["type"] for event in ended} == {"response.completed"}
    assert len(ended) >= 5 * STREAMS
    assert [provider.mixed for provider in providers] == [[], []]
    assert min(provider.answered for provider in providers) > STREAMS
    assert sum(provider.answered for provider in providers) == len(ended)
    rows = [each.request for each in list_requests(tmp_path / "trace.db", 10 * len(ended))]
    used = Counter((row.client, row.provider_model) for row in rows)
    assert {*used} == {("client-a", "model-a"), ("client-b", "model-b")}
    assert used.total() == len(ended)
