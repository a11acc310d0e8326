"""Limits of clients across a reload: nothing stays counted, and no cost is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import structs

from antiphon.config import BackgroundConfig, ClientLimitConfig, Config, LimitConfig, PriceConfig
from tests.support.gateways import Running, running, settings
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Upstream,
    send_frames,
    upstream,
)
from tests.support.waiting import until

KEYS = {"alice": "key-of-alice"}
ALICE = {"authorization": "Bearer key-of-alice"}
BODY = {"model": "up/m", "input": "Hi"}


class Reloading:
    """A gateway whose limits are changed while it runs."""

    def __init__(
        self, tmp_path: Path, provider: Upstream, limits: ClientLimitConfig | None
    ) -> None:
        base = settings(tmp_path, provider.url, api_keys=KEYS)
        self._base = structs.replace(
            base,
            prices={"up/*": PriceConfig(input=100_000.0, output=100_000.0)},
            background=BackgroundConfig(max_running=1),
        )
        self.config = self._with(limits)

    def _with(self, limits: ClientLimitConfig | None) -> Config:
        clients = {} if limits is None else {"alice": limits}
        return structs.replace(self._base, limits=LimitConfig(clients=clients))

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Running]:
        async with running(self.config, load=lambda: self.config) as gateway:
            self._gateway = gateway
            yield gateway

    async def reload(self, limits: ClientLimitConfig | None) -> None:
        self.config = self._with(limits)
        await self._gateway.gateway.process.reload()


async def test_queued_responses_count_no_longer_after_limits_were_removed_and_set_again(
    tmp_path: Path,
) -> None:
    release, limits = asyncio.Event(), ClientLimitConfig(max_streams=3)

    async def wait(request: ReceivedRequest, connection: Connection) -> None:
        await release.wait()
        await connection.head()
        await connection.send(b"".join(HELLO_WORLD))
        await connection.end()

    async with upstream(wait) as provider:
        reloading = Reloading(tmp_path, provider, limits)
        async with reloading.run() as gateway:
            queued = {**BODY, "background": True}
            statuses = [(await gateway.post(queued, **ALICE))[0] for _ in range(4)]
            assert statuses == [200, 200, 200, 429]
            await reloading.reload(None)
            release.set()
            await until(lambda: len(provider.requests) == 3, "all of them have begun")
            await gateway.engine.active.wait_idle()
            await reloading.reload(limits)
            statuses = [(await gateway.post(queued, **ALICE))[0] for _ in range(3)]
    assert statuses == [200, 200, 200]


async def test_limits_that_a_reload_adds_know_what_was_spent_before(tmp_path: Path) -> None:
    async with upstream(send_frames(HELLO_WORLD)) as provider:
        reloading = Reloading(tmp_path, provider, None)
        async with reloading.run() as gateway:
            assert (await gateway.post(BODY, **ALICE))[0] == 200
            await reloading.reload(ClientLimitConfig(cost_per_month=0.01))
            status, _, answer = await gateway.post(BODY, **ALICE)
    assert (status, answer["error"]["code"]) == (429, "insufficient_quota")
    assert len(provider.requests) == 1
