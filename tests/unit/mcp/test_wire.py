"""HTTP below the sessions: addresses, redirects, sizes, and servers that misbehave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpcore2
import pytest

from antiphon.mcp.addresses import Network
from antiphon.mcp.policy import Endpoint
from antiphon.mcp.urls import read_url
from antiphon.mcp.wire import CheckedBackend
from tests.support.mcp.public_network import PublicNames


class Recorded(httpcore2.AsyncNetworkBackend):
    """Notes where connections would go; the first `broken` addresses do not reply."""

    def __init__(self, broken: Iterable[str] = ()) -> None:
        self.asked: list[str] = []
        self._broken = {*broken}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the package
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.asked.append(f"{host} {port}")
        if host in self._broken:
            raise httpcore2.ConnectError(host)
        return httpcore2.AsyncNetworkStream()


def endpoint(*, is_trusted: bool = False) -> Endpoint:
    location = read_url("https://host.example/mcp")
    assert location is not None
    return Endpoint(label="a", location=location, headers={}, is_trusted=is_trusted)


async def test_a_name_is_resolved_once_and_connections_go_to_the_checked_address() -> None:
    names = PublicNames(["8.8.8.8"], ["127.0.0.1"])
    network = Recorded()
    backend = CheckedBackend(endpoint(), Network(names, network))
    for _ in range(3):
        await backend.connect_tcp("host.example", 443)
    assert names.asked == ["host.example"]
    assert network.asked == ["8.8.8.8 443"] * 3


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:169.254.169.254"], ["fe80::1"]]
)
async def test_a_name_with_an_internal_address_is_refused(addresses: list[str]) -> None:
    network = Recorded()
    backend = CheckedBackend(endpoint(), Network(PublicNames(addresses), network))
    with pytest.raises(httpcore2.ConnectError):
        await backend.connect_tcp("host.example", 443)
    assert backend.is_refused
    assert network.asked == []


async def test_a_trusted_server_may_be_internal() -> None:
    network = Recorded()
    backend = CheckedBackend(endpoint(is_trusted=True), Network(PublicNames(["10.0.0.1"]), network))
    await backend.connect_tcp("host.example", 443)
    assert network.asked == ["10.0.0.1 443"]


async def test_the_next_address_is_tried_if_one_does_not_reply() -> None:
    network = Recorded(["1.1.1.1"])
    backend = CheckedBackend(endpoint(), Network(PublicNames(["1.1.1.1", "8.8.8.8"]), network))
    await backend.connect_tcp("host.example", 443)
    assert network.asked == ["1.1.1.1 443", "8.8.8.8 443"]
    alone = CheckedBackend(endpoint(), Network(PublicNames(["1.1.1.1"]), Recorded(["1.1.1.1"])))
    with pytest.raises(httpcore2.ConnectError):
        await alone.connect_tcp("host.example", 443)
    assert not alone.is_refused
