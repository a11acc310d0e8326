"""The HTTP application without a socket: the built-in echo provider, and nothing on the disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    ClientConfig,
    Config,
    ServerConfig,
    StoreConfig,
    TraceConfig,
)
from antiphon.core.plan.plan import Outbound
from antiphon.engine.engine import Engine
from antiphon.engine.upstream import EchoUpstream, Upstream, UpstreamResponse
from antiphon.providers import echo
from antiphon.providers.registry import Provider
from antiphon.server.application import Application
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.reload import FileReloading
from antiphon.server.wiring import open_setup
from antiphon.stages.log import Entry

LOCAL: Mapping[str, str] = {"host": "localhost", "content-type": "application/json"}
"""Headers of a local client."""


def echo_config(*, clients: Mapping[str, ClientConfig] | None = None, **server: Any) -> Config:
    return Config(
        default_provider="echo",
        server=ServerConfig(port=0, **server),
        clients=dict(clients or {}),
        store=StoreConfig(url="memory://"),
        trace=TraceConfig(enabled=False),
        capsule=CapsuleConfig(keys=["a key that only tests use"]),
        attempts=AttemptConfig(max_attempts=1),
    )


@dataclass
class OpenApplication:
    """An application under test, its engine and its log."""

    application: Application
    engine: Engine
    log: list[Entry]

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = LOCAL,
        remote: str = "127.0.0.1",
    ) -> HTTPResponse:
        path, _, query = path.partition("?")
        http = HTTPRequest.with_body(method, path, headers, body, remote, query)
        return await self.application.handle(http)

    async def create(
        self, headers: Mapping[str, str] | None = None, **request: Any
    ) -> HTTPResponse:
        """POST /v1/responses; the echo model repeats `Hello` unless the request says otherwise."""
        document = {"model": "echo/echo", "input": "Hello", **request}
        body = json.dumps(document).encode()
        return await self.request("POST", "/v1/responses", body, {**LOCAL, **(headers or {})})


def use_upstream(engine: Engine, upstream: Upstream) -> None:
    """Replace the built-in provider."""
    engine.services = replace(engine.services, in_process=upstream)


@asynccontextmanager
async def open_application(
    config: Config | None = None,
    load: Callable[[], Config] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[OpenApplication]:
    """Open an application. `load` reads its configuration again; `environment` has the directories
    of its own files."""
    log: list[Entry] = []
    config = config or echo_config()
    reloading = None if load is None else FileReloading(config, load, log.append)
    async with open_setup(config, {}, log.append) as setup:
        process = GatewayProcess(setup, environment=environment, reloading=reloading)
        try:
            yield OpenApplication(Application(process), setup.engine, log)
        finally:
            await process.close()


def document_of(response: HTTPResponse) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def error_of(response: HTTPResponse) -> dict[str, Any]:
    """The error of a response in the shape of the API."""
    document = document_of(response)
    assert document.keys() == {"error"}
    error: dict[str, Any] = document["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


async def read_stream(response: HTTPResponse) -> bytes:
    """The whole body of a streamed response."""
    assert not isinstance(response.body, bytes), response.body
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    try:
        await response.body.write_to(write)
    finally:
        await response.body.close()
    return b"".join(written)


@dataclass
class GatedUpstream:
    """The echo provider behind a gate: it answers no request before `gate` is set."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    """Raised instead of an answer once the gate is open."""
    waiting: int = 0
    _echo: EchoUpstream = field(default_factory=EchoUpstream)

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        if self.error is not None:
            raise self.error
        return await self._echo.open(provider, outbound, key)

    async def close(self) -> None:
        await self._echo.close()


class HeldUpstream:
    """The echo provider, which sends the last chunk of an answer only after `gate` is set."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.is_holding = asyncio.Event()
        """Set when everything but the last chunk has been read."""

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        return _HeldAnswer(self, echo.respond(outbound.body))

    async def close(self) -> None:
        return


class _HeldAnswer:
    def __init__(self, upstream: HeldUpstream, answer: echo.EchoResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = {"content-type": answer.content_type}
        self._upstream = upstream
        self._chunks = list(answer.chunks)

    async def next(self) -> bytes:
        if len(self._chunks) == 1:
            self._upstream.is_holding.set()
            await self._upstream.gate.wait()
        return self._chunks.pop(0) if self._chunks else b""

    async def read(self) -> bytes:
        self._upstream.is_holding.set()
        await self._upstream.gate.wait()
        return b"".join(self._chunks)

    def close(self) -> None:
        self._upstream.gate.set()
