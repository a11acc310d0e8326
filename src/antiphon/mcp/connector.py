"""The transports of the client package, on an HTTP client that checks what it sends and gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from antiphon.config import McpConfig
from antiphon.mcp.addresses import Network
from antiphon.mcp.policy import Endpoint
from antiphon.mcp.urls import Location
from antiphon.mcp.wire import CheckedTransport

_WIRE_FACTOR = 4  # a result is sent as JSON, with escapes, and often twice
_WIRE_BYTES = 64 * 1024


class Connector:
    """Makes the transports of one session."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: McpConfig,
        admits: Callable[[Location], bool],
        network: Network,
    ) -> None:
        self._endpoint = endpoint
        self._connect_timeout_s = config.connect_timeout_s
        largest = max(config.max_result_bytes, config.max_list_bytes)
        self._max_bytes = _WIRE_FACTOR * largest + _WIRE_BYTES
        self._admits = admits
        self._network = network

    @asynccontextmanager
    async def open_streamable(self) -> AsyncIterator[Any]:
        """Streamable HTTP: a reply for each message."""
        http = self._make_http(notes_streams=False)
        url = self._endpoint.location.url
        transport = streamable_http_client(
            url, http_client=http, max_sse_event_size=self._max_bytes
        )
        async with http, transport as streams:
            yield streams

    def open_sse(self) -> AbstractAsyncContextManager[Any]:
        """The older transport: one stream with all replies."""
        url = self._endpoint.location.url
        return sse_client(url, httpx_client_factory=self._make_sse_http)

    def _make_sse_http(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """In the form of the package, whose own settings are not used."""
        return self._make_http(notes_streams=True)

    def _make_http(self, *, notes_streams: bool) -> httpx2.AsyncClient:
        transport = CheckedTransport(
            self._endpoint,
            self._admits,
            self._network,
            self._max_bytes,
            notes_streams=notes_streams,
        )
        own = {"user-agent": "antiphon", "accept-encoding": "identity"}
        return httpx2.AsyncClient(
            transport=transport,
            headers={**own, **self._endpoint.headers},
            timeout=httpx2.Timeout(None, connect=self._connect_timeout_s),
            trust_env=False,
        )
