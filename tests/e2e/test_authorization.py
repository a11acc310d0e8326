"""URL, API key and headers of provider requests, as received on a real socket."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.config import Config, ProviderConfig
from antiphon.core.plan.plan import Outbound
from antiphon.dialects.bedrock.sigv4 import sign
from antiphon.engine.upstream import HTTPUpstream
from antiphon.providers.registry import build_providers
from tests.support.upstream import ReceivedRequest, send_json, upstream

SENT = {"content-type": "application/json", "accept": "application/json"}
PAIR = "AKIDEXAMPLE123456:secret"


async def receive_request(
    kind: str, key: str, path: str = "/go", http: HTTPUpstream | None = None, **entry: Any
) -> tuple[ReceivedRequest, str]:
    """Return the request that a provider of this kind receives, and its URL."""
    http = http or HTTPUpstream()
    outbound = Outbound(path=path, headers=SENT, body=b'{"a": 1}')
    async with upstream(send_json(200, {})) as server:
        entry = {"kind": kind, "base_url": server.url, "api_keys": ["k"], **entry}
        config = Config(providers={"it": ProviderConfig(**entry)})
        provider = build_providers(config, {})["it"]
        answer = await http.open(provider, outbound, key)
        await answer.read()
        answer.close()
    await http.close()
    [received] = server.requests
    return received, server.url


@pytest.mark.parametrize(
    ("kind", "header", "value"),
    [
        ("chat", "authorization", "Bearer k"),
        ("anthropic", "x-api-key", "k"),
        ("gemini", "x-goog-api-key", "k"),
        ("azure", "api-key", "k"),
        ("bedrock", "authorization", "Bearer k"),
    ],
)
async def test_a_key_arrives_in_the_header_of_its_provider_and_nowhere_else(
    kind: str, header: str, value: str
) -> None:
    received, _ = await receive_request(kind, "k")
    assert received.headers[header] == value
    others = {"authorization", "x-api-key", "x-goog-api-key", "api-key"} - {header}
    assert received.headers.keys().isdisjoint(others)
    assert "k" not in received.path.split("/")


async def test_an_api_version_is_part_of_the_url() -> None:
    received, _ = await receive_request("azure", "k", path="/chat/completions")
    assert received.path == "/v1/chat/completions?api-version=2025-04-01-preview"


async def test_without_a_key_no_authorization_header_is_sent() -> None:
    received, _ = await receive_request("ollama", "")
    assert "authorization" not in received.headers


async def test_a_configured_header_replaces_the_default_one() -> None:
    received, _ = await receive_request("azure", "k", headers={"API-Key": "mine"})
    assert received.headers["api-key"] == "mine"


async def test_a_request_signature_is_valid_for_the_bytes_that_arrive() -> None:
    path = "/model/us.anthropic.claude-sonnet-5-v1:0/converse-stream"
    received, url = await receive_request("bedrock", PAIR, path=path, api_keys=[PAIR])
    host = url.removesuffix("/v1")
    expected = sign(
        "POST",
        host + received.path,
        {name: received.headers[name] for name in SENT},
        received.raw,
        access_key="AKIDEXAMPLE123456",
        secret_key="secret",
        region="us-east-1",
        service="bedrock",
        timestamp=received.headers["x-amz-date"],
    )
    assert received.headers["authorization"] == expected["authorization"]


async def test_the_time_of_a_signature_is_read_from_the_injected_clock() -> None:
    received, _ = await receive_request(
        "bedrock", PAIR, http=HTTPUpstream(now=lambda: 1_440_938_160)
    )
    assert received.headers["x-amz-date"] == "20150830T123600Z"
