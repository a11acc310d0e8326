"""Connection errors are explained with the errno, and located by provider and address."""

from __future__ import annotations

import asyncio
import socket
import ssl

import aiohttp
import pytest

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import connection_fault, timeout_fault
from antiphon.engine.fault_report import explain_connection_error, locate_fault
from antiphon.errors import ConnectionFailure
from tests.support.outbound_requests import configured
from tests.support.tables import table


async def get(url: str) -> Exception:
    """The error of a real request."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as caught:
            await session.get(url)
    return caught.value


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_is_named_with_its_errno(host: str) -> None:
    error = await get(f"http://{host}:{free_port()}")
    assert explain_connection_error(error) == "connection refused (errno 111)"


async def test_a_name_that_does_not_resolve_is_named() -> None:
    error = await get("http://nowhere.invalid")
    assert explain_connection_error(error).startswith("the host name cannot be resolved (")


async def test_a_server_without_tls_is_named() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail server\r\n")
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        error = await get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert explain_connection_error(error).startswith("TLS failed (SSLError")


@table(
    ("error", "text"),
    [
        (
            aiohttp.ServerDisconnectedError(),
            "the provider closed the connection without a response",
        ),
        (
            aiohttp.ClientPayloadError("not enough data"),
            "the provider closed the connection in the middle of its response",
        ),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "connection reset by peer (errno 104)",
        ),
        (ConnectionFailure("the reason"), "the reason"),
        (aiohttp.ClientError("odd"), "ClientError"),
        (ssl.SSLError("odd"), "SSLError"),
    ],
)
def test_other_errors_are_named(error: Exception, text: str) -> None:
    assert explain_connection_error(error) == text


def test_a_fault_of_the_network_is_located() -> None:
    provider = configured("chat", base_url="http://user:secret@127.0.0.1:21499/v1")
    name = provider.name
    refused = connection_fault("connection refused (errno 111)")
    assert locate_fault(refused, provider) == (
        f"{name}: connection refused (errno 111) at 127.0.0.1:21499"
    )
    assert locate_fault(timeout_fault("idle"), provider) == (
        f"{name}: the idle timeout expired at 127.0.0.1:21499"
    )
    assert locate_fault(classify(400, {}, b"No."), provider) == "No."


def test_the_port_of_an_address_may_be_implied() -> None:
    provider = configured("chat", base_url="https://example.org/v1")
    assert locate_fault(connection_fault("x"), provider).endswith("x at example.org:443")
    assert locate_fault(connection_fault("x"), configured("echo")).endswith(": x")
