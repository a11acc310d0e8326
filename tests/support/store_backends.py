"""Stores of every backend, for the contract tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon.store.postgres.store import PostgresStore
from antiphon.store.store import Store, StoreLimits
from antiphon.store.url import open_store
from tests.support import postgres
from tests.support.turns import Clock

SHARED = ("sqlite", "postgres") if postgres.ENABLED else ("sqlite",)
"""Backends whose stores several processes may share."""
NAMES = ("memory", *SHARED)


class Backend:
    """Opens stores of one kind, and closes them at the end."""

    def __init__(self, name: str, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self._is_postgres = name == "postgres"
        self._opened: list[Store] = []

    async def open(self, **limits: Any) -> Store:
        store = self._make_store(StoreLimits(**limits))
        await store.open()
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    def _make_store(self, limits: StoreLimits) -> Store:
        if self._is_postgres:  # its leases have the time of the test, not of the database
            return PostgresStore(
                self.url, now=self.clock, lease_now=self.clock, limits=limits, grace_s=0.0
            )
        return open_store(self.url, now=self.clock, limits=limits)


def make_url(name: str, directory: Path, server: postgres.PostgresServer | None) -> str:
    """Return the URL of an empty store of a backend."""
    if name == "postgres":
        assert server is not None
        return server.new_url()
    return "memory://" if name == "memory" else f"sqlite:///{directory}/turns.sqlite"
