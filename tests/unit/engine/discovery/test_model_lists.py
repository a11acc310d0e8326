"""Model lists of providers: requested with the key, read leniently, failures with a reason."""

from __future__ import annotations

import json

import pytest

from antiphon.config import Config, ProviderConfig
from antiphon.engine.connections import open_session
from antiphon.engine.discovery.model_lists import fetch_models, has_model_list, read_models
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider, build_providers
from tests.support.model_lists import ListServer, list_server


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
    assert found == ["m1", "m2"]
    assert server.asked == [(path, "Bearer sk-lab")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("chat", True), ("ollama", True), ("openrouter", True), ("anthropic", False)],
)
def test_providers_with_a_list_are_known(kind: str, expected: bool) -> None:
    assert has_model_list(make_provider(kind)) is expected


def test_the_built_in_provider_is_never_asked() -> None:
    assert not has_model_list(build_providers(Config(), {})["echo"])


def test_entries_that_are_no_models_are_left_out() -> None:
    entries = [{"id": "m"}, {"id": "m"}, {"id": 7}, {}, "x", {"id": ""}, {"id": "a\x1b[2J"}]
    assert read_models("data", "id", json.dumps({"data": entries}).encode()) == ["m"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"<html>", "not JSON"), (b"[]", "no `data`"), (b'{"data": {}}', "no `data`")],
)
def test_a_body_that_is_no_list_is_an_error(body: bytes, reason: str) -> None:
    with pytest.raises(DiscoveryError, match=reason):
        read_models("data", "id", body)


async def test_a_status_is_reported() -> None:
    async with list_server(ListServer(b"{}", status=401)) as server, open_session() as session:
        with pytest.raises(DiscoveryError, match=r"127\.0\.0\.1:\d+ answered 401"):
            await fetch_models(session, make_provider("chat", server.url))


async def test_a_server_that_is_not_there_is_reported() -> None:
    async with open_session() as session:
        with pytest.raises(DiscoveryError, match=r"127\.0\.0\.1:1 cannot be reached"):
            await fetch_models(session, make_provider("chat", "http://127.0.0.1:1"))
