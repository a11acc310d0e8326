"""Model discovery against servers with the lists of real ones: all are found, nobody waits."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import DiscoveryConfig, ProviderConfig
from tests.support.gateways import Running, replaced, running, settings
from tests.support.model_lists import SERVERS, ListServer, list_server
from tests.support.waiting import until, until_async


async def list_names(gateway: Running) -> list[str]:
    async with gateway.client.get(f"{gateway.base_url}/models") as response:
        document: Any = await response.json()
        return [each["id"] for each in document["data"]]


async def test_the_models_of_every_kind_of_server_are_listed(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        providers: dict[str, ProviderConfig] = {}
        asked: dict[str, ListServer] = {}
        for kind, each in SERVERS.items():
            body = json.dumps(each.document).encode()
            asked[kind] = server = await stack.enter_async_context(list_server(ListServer(body)))
            keys = ["sk-of-the-test"] if each.needs_key else []
            providers[kind] = ProviderConfig(base_url=server.url + each.base, api_keys=keys)
        config = replaced(settings(tmp_path), providers=providers)
        gateway = await stack.enter_async_context(running(config))
        wanted = {f"{kind}/{name}" for kind, each in SERVERS.items() for name in each.names}

        async def are_listed() -> bool:
            return wanted <= {*await list_names(gateway)}

        await until_async(are_listed, "all lists have arrived")
    for kind, each in SERVERS.items():
        key = "Bearer sk-of-the-test" if each.needs_key else ""
        assert asked[kind].asked[0] == (each.path, key), kind


@pytest.mark.parametrize("enabled", [True, False])
async def test_no_request_waits_for_a_list_or_makes_one(tmp_path: Path, enabled: bool) -> None:
    never = asyncio.Event()
    async with list_server(ListServer(b"{}", gate=never)) as server:
        config = replaced(settings(tmp_path), discovery=DiscoveryConfig(enabled=enabled))
        lab = ProviderConfig(kind="vllm", base_url=server.url)
        async with running(replaced(config, providers={"lab": lab})) as gateway:
            status, _, _ = await gateway.post({"model": "echo/echo", "input": "Hello"})
            assert (status, server.asked) == (200, [])  # only who wants the list makes it
            assert "echo/echo" in await list_names(gateway)
            if enabled:
                await until(lambda: server.asked, "the list is requested")
            status, _, _ = await gateway.post({"model": "echo/echo", "input": "Hello"})
            assert (status, len(server.asked)) == (200, int(enabled))
        never.set()
