"""The real gateway on a real port, in the test's own loop, and a client that reads its events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    Config,
    LimitConfig,
    ProviderConfig,
    ServerConfig,
    StoreConfig,
    TimeoutConfig,
    TraceConfig,
)
from antiphon.engine.engine import Engine
from antiphon.engine.runtime import Runtime
from antiphon.server.reload import FileReloading
from antiphon.server.serve import GatewayServer
from antiphon.server.wiring import open_setup
from antiphon.stages.log import Entry
from tests.support import postgres


@dataclass
class Running:
    """A gateway under test."""

    gateway: GatewayServer
    engine: Engine
    base_url: str
    log: list[Entry]
    client: aiohttp.ClientSession

    async def post(self, body: Any, **headers: str) -> tuple[int, Mapping[str, str], Any]:
        """Post a request; return status, headers and JSON of the answer."""
        async with self.client.post(
            f"{self.base_url}/responses", json=body, headers=headers
        ) as response:
            return response.status, response.headers, await response.json()

    async def stream(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All events of a streamed answer."""
        async with self.client.post(
            f"{self.base_url}/responses", json={**body, "stream": True}
        ) as response:
            assert response.status == 200, await response.text()
            return events_of(await response.read())


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The events in a complete SSE body, but for the end marker."""
    frames = [frame for frame in data.decode().split("\n\n") if frame]
    payloads = [frame.partition("data: ")[2] for frame in frames]
    return [json.loads(payload) for payload in payloads if payload != "[DONE]"]


def settings(
    tmp_path: Path,
    url: str = "",
    *,
    timeouts: TimeoutConfig | None = None,
    limits: LimitConfig | None = None,
    **server: Any,
) -> Config:
    """A configuration with one scripted provider named `up`, and nothing outside `tmp_path`."""
    providers: dict[str, ProviderConfig] = {}
    if url:
        providers["up"] = ProviderConfig(
            kind="chat",
            base_url=url,
            api_keys=["sk-upstream"],
            timeouts=timeouts or TimeoutConfig(),
        )
    return Config(
        default_provider="up" if url else "echo",
        server=ServerConfig(port=0, **server),
        providers=providers,
        store=StoreConfig(url=store_url(tmp_path)),
        trace=TraceConfig(path=str(tmp_path / "trace.db")),
        capsule=CapsuleConfig(keys=["a key that only tests use"]),
        attempts=AttemptConfig(max_attempts=1),  # only tests of retries enable them
        limits=limits or LimitConfig(),
    )


def store_url(directory: Path) -> str:
    """The store of a gateway: a file in its directory, or a schema (ANTIPHON_TEST_STORE)."""
    if postgres.IS_TEST_STORE:
        return postgres.url_of(directory)
    return f"sqlite:///{directory / 'turns.db'}"


@asynccontextmanager
async def running(
    config: Config,
    runtime: Runtime | None = None,
    load: Callable[[], Config] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Running]:
    """Run a gateway. `load` reads its configuration again; `environment` has the directories of
    its own files, such as the page token."""
    log: list[Entry] = []
    reloading = None if load is None else FileReloading(config, load, log.append)
    async with open_setup(config, {}, log.append, runtime) as setup:
        gateway = GatewayServer(setup, environment=environment, reloading=reloading)
        await gateway.start()
        base_url = f"http://127.0.0.1:{gateway.port}/v1"
        async with aiohttp.ClientSession() as client:
            try:
                yield Running(gateway, setup.engine, base_url, log, client)
            finally:
                await gateway.stop()


def replaced(config: Config, **changes: Any) -> Config:
    return msgspec.structs.replace(config, **changes)
