"""The cache of discovered models: in the background, refreshed when old, kept after a failure."""

from __future__ import annotations

import asyncio

from antiphon.config import Config, ProviderConfig
from antiphon.engine.connections import open_session
from antiphon.engine.discovery.discovered_models import RETRY_S, DiscoveredModels
from antiphon.pipeline.log import Entry
from antiphon.providers.registry import Provider, build_providers
from tests.support.model_lists import ListServer, list_server
from tests.support.waiting import until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_providers(url: str) -> dict[str, Provider]:
    entry = ProviderConfig(kind="chat", base_url=url)
    return build_providers(Config(providers={"lab": entry}), {})


async def test_a_list_is_known_once_it_has_arrived_and_asked_for_again_when_it_is_old() -> None:
    clock = Clock()
    async with (
        list_server(ListServer(b'{"data": [{"id": "m"}]}')) as server,
        open_session() as session,
    ):
        discovered = DiscoveredModels(session, clock, lambda entry: None)
        providers = make_providers(server.url)
        discovered.refresh(providers, 10.0)
        discovered.refresh(providers, 10.0)
        assert discovered.names(providers) == []
        await until(lambda: discovered.names(providers), "the list has arrived")
        assert discovered.names(providers) == ["lab/m"]
        discovered.refresh(providers, 10.0)
        assert len(server.asked) == 1
        clock.now = 10.0
        discovered.refresh(providers, 10.0)
        await until(lambda: len(server.asked) == 2, "the list is requested again")
        assert discovered.names(make_providers("http://elsewhere.test")) == []
        await discovered.close()


async def test_a_failure_keeps_the_old_list_and_is_tried_again_soon() -> None:
    clock, log = Clock(), list[Entry]()
    async with (
        list_server(ListServer(b'{"data": [{"id": "m"}]}')) as server,
        open_session() as session,
    ):
        discovered = DiscoveredModels(session, clock, log.append)
        providers = make_providers(server.url)
        discovered.refresh(providers, 3600.0)
        await until(lambda: discovered.names(providers), "the list has arrived")
        server.status, clock.now = 503, 3600.0
        discovered.refresh(providers, 3600.0)
        await until(lambda: log, "the failure is logged")
        assert discovered.names(providers) == ["lab/m"]
        clock.now += RETRY_S
        discovered.refresh(providers, 3600.0)
        await until(lambda: len(server.asked) == 3, "the list is requested again")
        await discovered.close()
    assert (log[0].event, log[0].level) == ("discovery.failed", "debug")


async def test_a_request_that_waits_is_cancelled_at_the_end() -> None:
    async with (
        list_server(ListServer(b"", gate=asyncio.Event())) as server,
        open_session() as session,
    ):
        discovered = DiscoveredModels(session, Clock(), lambda entry: None)
        discovered.refresh(make_providers(server.url), 1.0)
        await until(lambda: server.asked, "the list is requested")
        await discovered.close()
        assert server.gate is not None
        server.gate.set()
