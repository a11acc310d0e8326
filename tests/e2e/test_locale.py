"""The language of fault descriptions: Accept-Language, then `[server] locale`, then English."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import events_of, running, settings
from tests.support.upstream import HELLO, Connection, ReceivedRequest, send_json, upstream

OVERLOADED = send_json(503, {"error": {"message": "busy"}})


async def _break_off(request: ReceivedRequest, connection: Connection) -> None:
    """Send some text, then reset the connection."""
    await connection.head()
    for data in HELLO:
        await connection.send(data)
    connection.reset()


async def fault_message(tmp_path: Path, language: str, **server: Any) -> str:
    """The message of an HTTP error that a client with this Accept-Language gets."""
    async with (
        upstream(OVERLOADED) as provider,
        running(settings(tmp_path, provider.url, **server)) as gateway,
    ):
        headers = {"accept-language": language} if language else {}
        status, _, body = await gateway.post({"model": "up/m", "input": "Hi"}, **headers)
    assert status == 503
    return str(body["error"]["message"])


@pytest.mark.parametrize(
    ("language", "server", "is_english"),
    [
        ("", {}, True),
        ("zh-CN,zh;q=0.9,en;q=0.8", {}, False),
        ("fr, *;q=0.1", {}, True),
        ("not a language;;q=x", {}, True),
        ("", {"locale": "zh"}, False),
        ("", {"locale": "zh-CN"}, False),
        ("", {"locale": "xx"}, True),
        ("en-GB", {"locale": "zh"}, True),
        ("de", {"locale": "zh"}, False),
    ],
)
async def test_the_description_of_an_http_error_follows_accept_language_then_the_configuration(
    tmp_path: Path, language: str, server: dict[str, Any], *, is_english: bool
) -> None:
    message = await fault_message(tmp_path, language, **server)
    assert message.isascii() is is_english
    assert message.startswith("up "), "the provider is named"


async def test_the_description_of_a_failed_response_follows_accept_language(
    tmp_path: Path,
) -> None:
    async with (
        upstream(_break_off) as provider,
        running(settings(tmp_path, provider.url)) as gateway,
        gateway.client.post(
            f"{gateway.base_url}/responses",
            json={"model": "up/m", "input": "Hi", "stream": True},
            headers={"accept-language": "zh"},
        ) as response,
    ):
        events = events_of(await response.read())
    assert events[-1]["type"] == "response.failed"
    assert not events[-1]["response"]["error"]["message"].isascii()
