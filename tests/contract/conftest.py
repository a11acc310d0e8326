"""Fixtures of the contract tests of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tests.support.store_backends import NAMES, SHARED, Backend, make_url
from tests.support.turns import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=NAMES)
async def backend(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: Clock,
    postgres_server: PostgresServer | None,
) -> AsyncIterator[Backend]:
    backend = Backend(request.param, make_url(request.param, tmp_path, postgres_server), clock)
    yield backend
    await backend.close()


@pytest.fixture(params=SHARED)
async def shared_backend(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: Clock,
    postgres_server: PostgresServer | None,
) -> AsyncIterator[Backend]:
    backend = Backend(request.param, make_url(request.param, tmp_path, postgres_server), clock)
    yield backend
    await backend.close()
