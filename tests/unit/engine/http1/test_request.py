"""Plain requests: which they are, and that their heads are those of aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from antiphon.core.plan.plan import Outbound
from antiphon.engine.http1.pool import Origin, encode_head, find_target
from antiphon.engine.upstream import HTTPUpstream
from tests.support.outbound_requests import configured
from tests.support.tables import table

URL = "https://api.example.org/v1/x?a=b"


def test_a_target_has_an_origin_and_the_head_of_its_requests() -> None:
    target = find_target(URL, {"a": "b"})
    assert target is not None
    assert target.origin == Origin("api.example.org", 443, True)
    assert encode_head(target, 12) == (
        b"POST /v1/x?a=b HTTP/1.1\r\nHost: api.example.org\r\na: b\r\nAccept: */*\r\n"
        b"Accept-Encoding: gzip, deflate\r\nContent-Length: 12\r\n\r\n"
    )


def test_another_value_of_a_header_is_another_head() -> None:
    heads = [find_target(URL, {"authorization": key}) for key in ("one", "two", "one")]
    assert heads[0] == heads[2] != heads[1]


@table(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:8080/v1", "127.0.0.1", 8080),
        ("http://[::1]:8080/v1", "::1", 8080),
        ("http://localhost/v1", "localhost", 80),
        ("https://example.org./v1#part", "example.org.", 443),
        ("http://a-b_c.example/%C3%A4/ä b", "a-b_c.example", 80),
    ],
)
def test_names_and_addresses_are_plain(url: str, host: str, port: int) -> None:
    target = find_target(url, {})
    assert target is not None
    assert target.origin[:2] == (host, port)


@table(
    "url",
    [
        "http://user:secret@example.org/v1",
        "http://user@example.org/v1",
        "ftp://example.org/v1",
        "http://127.1/v1",
        "http://2130706433/v1",
        "http://[fe80::1%25eth0]/v1",
        "http://example..org/v1",
        "http:///v1",
        "/v1",
        "http://example.org:port/v1",
    ],
)
def test_aiohttp_gets_other_urls(url: str) -> None:
    assert find_target(url, {}) is None


@table(
    "headers",
    [
        {"Host": "other.example"},
        {"accept-encoding": "br"},
        {"Transfer-Encoding": "chunked"},
        {"content-length": "5"},
        {"expect": "100-continue"},
        {"connection": "close"},
        {"x-a": "1", "X-A": "2"},
        {"x a": "1"},
        {"x:": "1"},
        {"": "1"},
        {"x\r\ny": "1"},
    ],
    ids=str,
)
def test_aiohttp_gets_headers_that_are_not_plain(headers: Mapping[str, str]) -> None:
    assert find_target(URL, headers) is None


@table("value", ["a\r\nx: y", "a\nb", "a\rb", "a\0b", "a\x7fb", "a\x1bb"])
def test_a_control_character_in_a_value_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        find_target(URL, {"x": value})


async def record_request(outbound: Outbound, *, use_aiohttp: bool) -> bytes:
    """Return the bytes that a client sends, but for the port."""
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        received.set_result(head + await reader.readexactly(len(outbound.body)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = configured("chat", base_url=f"http://127.0.0.1:{port}/v1")
    upstream = HTTPUpstream(use_aiohttp=use_aiohttp)
    async with server:
        (await upstream.open(provider, outbound, "sk-key")).close()
        await upstream.close()
        return (await received).replace(b":%d\r\n" % port, b":PORT\r\n")


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/chat/completions", {}, b"{}"),
        ("/chat/completions", {"x-extra": "1", "Accept": "text/event-stream"}, b"{}"),
        ("/models/ä b:stream?alt=sse&key=a%2Fb#part", {"x": "ümlaut \u2028 \t"}, b"{}"),
        ("/empty", {"X-Empty": ""}, b""),
        ("/large", {}, b"x" * 600_000),
    ],
    ids=["plain", "accept", "quoted", "empty", "large"],
)
async def test_the_bytes_of_a_request_are_those_of_aiohttp(
    path: str, headers: Mapping[str, str], body: bytes
) -> None:
    outbound = Outbound(path=path, headers=headers, body=body)
    ours, theirs = [await record_request(outbound, use_aiohttp=each) for each in (False, True)]
    assert ours == theirs
