"""What an HTTP client makes of a provider's bytes, with our own client and with aiohttp.

Both clients run in memory, on the event loop of the simulation: nothing waits, and a verdict
depends on the bytes and on where they are cut alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from antiphon.core.plan.plan import Outbound
from antiphon.engine.upstream import HTTPUpstream
from antiphon.errors import UpstreamError
from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.virtual_loop import Host, VirtualLoop
from tests.support.outbound_requests import configured

Ending = Literal["close", "reset", "open"]
SECOND = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond"
_ADDRESS = ("127.0.0.1", 8000)
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_WAIT_S = 5.0


class Verdict(NamedTuple):
    """What became of a response, and of the request after it."""

    status: int | None
    body: bytes
    end: str
    """`complete`, `waits`, or the type and code of a fault."""
    next_body: bytes
    is_reused: bool
    """Whether the next request used the same connection."""

    def without_reuse(self) -> Verdict:
        return self._replace(is_reused=False)


@dataclass
class Provider(Host):
    """Sends its segments, a second apart, for the first request, and `SECOND` for others."""

    segments: Sequence[bytes]
    ending: Ending
    connections: int = 0
    requests: int = 0

    def make_protocol(self) -> asyncio.BaseProtocol:
        self.connections += 1
        return _ProviderSide(self)


class _ProviderSide(asyncio.Protocol):
    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._transport: MemoryTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """The request is small: it arrives in one read."""
        provider, transport = self._provider, self._transport
        assert transport is not None
        provider.requests += 1
        if provider.requests > 1:
            transport.write(SECOND)
            return
        loop = asyncio.get_running_loop()
        for number, segment in enumerate(provider.segments):
            loop.call_later(0.001 * number, transport.write, segment)
        end_s = 0.001 * len(provider.segments)
        if provider.ending == "close":
            loop.call_later(end_s, transport.close)
        elif provider.ending == "reset":
            loop.call_later(end_s, transport.abort)


def judge(segments: Sequence[bytes], ending: Ending = "close", *, use_aiohttp: bool) -> Verdict:
    """Let a client read a response that arrives in these segments."""
    loop = VirtualLoop(limit_s=1000.0)
    provider = Provider(segments, ending)
    loop.hosts[_ADDRESS] = provider
    try:
        return loop.run_until_complete(_read(provider, use_aiohttp))
    finally:
        loop.close()


async def _read(provider: Provider, use_aiohttp: bool) -> Verdict:
    upstream = HTTPUpstream(use_aiohttp=use_aiohttp)
    try:
        status, body, end = await _read_one(upstream)
        _, next_body, _ = await _read_one(upstream)
        return Verdict(status, body, end, next_body, provider.connections == 1)
    finally:
        await upstream.close()


async def _read_one(upstream: HTTPUpstream) -> tuple[int | None, bytes, str]:
    target = configured("chat", base_url=f"http://127.0.0.1:{_ADDRESS[1]}/v1")
    status, body, answer = None, b"", None
    try:
        async with asyncio.timeout(_WAIT_S):
            answer = await upstream.open(target, Outbound(path="/x", body=b"{}"), "key")
            status = answer.status
            while piece := await answer.next():
                body += piece
            end = "complete"
    except TimeoutError:
        end = "waits"
    except UpstreamError as error:
        end = f"{error.fault.type}: {error.fault.code}"
    finally:
        if answer is not None:
            answer.close()
    return status, body, end


def after_each_head(data: bytes) -> list[bytes]:
    """Cut after empty lines, so after heads. aiohttp drops a head that arrives together with what
    it refuses."""
    ends = [0, *(found.end() for found in _HEAD_END.finditer(data)), len(data)]
    return [data[start:end] for start, end in pairwise(ends) if start < end]
