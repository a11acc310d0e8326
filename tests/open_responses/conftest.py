"""The gateway of the compliance suite, once for each backend."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.open_responses.cases import Suite
from tests.support.open_responses.upstreams import BACKENDS, serve


@pytest.fixture(scope="module", params=BACKENDS)
async def suite(
    anyio_backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Suite]:
    async with serve(request.param, tmp_path_factory.mktemp("suite")) as (gateway, model):
        yield Suite(gateway, model)
