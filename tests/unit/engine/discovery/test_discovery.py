"""Discovery of models: lists of providers, requested with the key, read leniently, and cached."""

from __future__ import annotations

import asyncio
import json

import pytest

from antiphon.config import Config, ProviderConfig
from antiphon.engine.connections import open_session
from antiphon.engine.discovery.discovered_models import RETRY_S, DiscoveredModels
from antiphon.engine.discovery.model_lists import fetch_models, has_model_list, read_entries
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider, build_providers
from antiphon.stages.log import Entry
from tests.support.model_lists import ListServer, list_server
from tests.support.tables import table
from tests.support.waiting import until


def make_provider(kind: str, url: str = "http://lab.test") -> Provider:
    entry = ProviderConfig(kind=kind, base_url=url, api_keys=["sk-lab"])
    return build_providers(Config(providers={"lab": entry}), {})["lab"]


@pytest.mark.parametrize(
    ("kind", "path", "document"),
    [
        ("vllm", "/models", {"data": [{"id": "m1"}, {"id": "m2"}]}),
        ("responses", "/models", {"data": [{"id": "m1"}, {"id": "m2"}]}),
        ("ollama", "/api/tags", {"models": [{"name": "m1"}, {"name": "m2"}]}),
    ],
)
async def test_a_list_is_requested_where_the_dialect_has_it(
    kind: str, path: str, document: object
) -> None:
    body = json.dumps(document).encode()
    async with list_server(ListServer(body)) as server, open_session() as session:
        found = await fetch_models(session, make_provider(kind, server.url))
    assert [*found] == ["m1", "m2"]
    assert server.asked[0] == (path, "Bearer sk-lab")


@table(
    ("kind", "expected"),
    [("chat", True), ("ollama", True), ("openrouter", True), ("anthropic", False)],
)
def test_providers_with_a_list_are_known(kind: str, expected: bool) -> None:
    assert has_model_list(make_provider(kind)) is expected


def test_the_built_in_provider_is_never_asked() -> None:
    assert not has_model_list(build_providers(Config(), {})["echo"])


def test_entries_that_are_no_models_are_left_out() -> None:
    entries = [{"id": "m"}, {"id": "m"}, {"id": 7}, {}, "x", {"id": ""}, {"id": "a\x1b[2J"}]
    assert [*read_entries("data", "id", json.dumps({"data": entries}).encode())] == ["m"]


@table(
    ("body", "reason"),
    [
        (b"<html>", "not JSON"),
        (b"[]", "no `data`"),
        (b'{"data": {}}', "no `data`"),
        (b"[" * 5000, "not JSON"),
    ],
)
def test_a_body_that_is_no_list_is_an_error(body: bytes, reason: str) -> None:
    with pytest.raises(DiscoveryError, match=reason):
        read_entries("data", "id", body)


async def test_a_status_is_reported() -> None:
    async with list_server(ListServer(b"{}", status=401)) as server, open_session() as session:
        with pytest.raises(DiscoveryError, match=r"127\.0\.0\.1:\d+ responded with status 401"):
            await fetch_models(session, make_provider("chat", server.url))


async def test_a_server_that_is_not_there_is_reported() -> None:
    async with open_session() as session:
        with pytest.raises(DiscoveryError, match=r"127\.0\.0\.1:1 cannot be reached"):
            await fetch_models(session, make_provider("chat", "http://127.0.0.1:1"))


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
