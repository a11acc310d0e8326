"""The official `openai` client in strict mode, connected to a gateway."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from tests.support.checked_gateway import CheckedGateway, checked_gateway
from tests.support.gateways import Running, running, settings
from tests.support.upstream import Script

# Gateways of tests use no TLS. Each client would load all certificate authorities of the system.
_TRUSTS_NOTHING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@asynccontextmanager
async def openai_client(gateway: Running, *, strict: bool = True) -> AsyncIterator[AsyncOpenAI]:
    """A client that rejects what its own types do not allow, and never retries."""
    async with AsyncOpenAI(
        base_url=gateway.base_url,
        api_key="sk-client",
        max_retries=0,
        timeout=60,
        http_client=DefaultAsyncHttpxClient(trust_env=False, verify=_TRUSTS_NOTHING),
        _strict_response_validation=strict,
    ) as client:
        yield client


@asynccontextmanager
async def echo_client(tmp_path: Path) -> AsyncIterator[AsyncOpenAI]:
    """A client of the built-in provider."""
    async with running(settings(tmp_path)) as gateway, openai_client(gateway) as client:
        yield client


@asynccontextmanager
async def scripted_client(
    tmp_path: Path, script: Script
) -> AsyncIterator[tuple[AsyncOpenAI, CheckedGateway]]:
    """A client of a scripted provider."""
    async with checked_gateway(tmp_path, script) as setup, openai_client(setup.gateway) as client:
        yield client, setup
