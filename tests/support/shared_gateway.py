"""One gateway for many tests; each test brings the script of its provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.config import AttemptConfig, TimeoutConfig
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import Running, replaced, running, settings
from tests.support.upstream import Connection, ReceivedRequest, Script, Upstream, upstream

# The loop that `antiphon serve` runs on; for a module's own `anyio_backend`.
UVLOOP = ("asyncio", {"use_uvloop": True})


@dataclass
class SharedGateway:
    """A gateway in front of a provider that selects its script by the model name."""

    scripts: dict[str, Script] = field(default_factory=dict)
    _gateway: Running | None = None
    _upstream: Upstream | None = None

    @property
    def gateway(self) -> Running:
        assert self._gateway is not None
        return self._gateway

    @property
    def open_connections(self) -> int:
        """Connections that the provider holds open."""
        assert self._upstream is not None
        return self._upstream.open_connections

    def add_script(self, script: Script) -> str:
        """Add a script; return the model name that selects it."""
        name = f"play-{len(self.scripts)}"
        self.scripts[name] = script
        return name

    async def post_request(self, script: Script, **body: Any) -> Answer:
        return await post_request(
            self.gateway, {"model": self.add_script(script), "input": "Hello?", **body}
        )

    async def run_script(self, request: ReceivedRequest, connection: Connection) -> None:
        await self.scripts[request.body["model"]](request, connection)


@asynccontextmanager
async def open_shared_gateway(
    tmp_path: Path,
    *,
    timeouts: TimeoutConfig | None = None,
    attempts: AttemptConfig | None = None,
    **server: Any,
) -> AsyncIterator[SharedGateway]:
    """Open a gateway; it retries nothing unless `attempts` says so."""
    setup = SharedGateway()
    async with upstream(setup.run_script) as provider:
        config = settings(tmp_path, provider.url, timeouts=timeouts, **server)
        async with running(replaced(config, attempts=attempts or config.attempts)) as gateway:
            setup._gateway, setup._upstream = gateway, provider
            yield setup
