"""Stores in the private PostgreSQL server (`make postgres`), and a connection that can be cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.store import PostgresStore
from tests.support.postgres_proxy import PostgresProxy, run_proxy
from tests.support.turns import Clock
from tests.support.waiting import LIMIT_S

OpenStore: TypeAlias = Callable[..., Awaitable[PostgresStore]]


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[PostgresProxy]:
    async with run_proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def open_store(proxy: PostgresProxy) -> AsyncIterator[OpenStore]:
    """Opens stores whose connections pass the proxy."""
    opened: list[PostgresStore] = []

    async def open_one(**options: Any) -> PostgresStore:
        store = PostgresStore(proxy.url, **{"now": Clock(), "grace_s": 0.0, **options})
        await store.open()
        opened.append(store)
        return store

    yield open_one
    proxy.is_away = False
    for store in opened:
        await store.close()


@pytest.fixture
async def connections(proxy: PostgresProxy) -> AsyncIterator[Connections]:
    connections = Connections(parse_address(proxy.url), wait_s=LIMIT_S, pool_size=2)
    await connections.open()
    yield connections
    await connections.close()
