"""Arguments of the page's endpoints: small JSON bodies, and the trace if there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.server.http import HTTPRequest
from tests.support.applications import error_of, open_application
from tests.support.pages.api import ask, ask_json, traced_application
from tests.support.tables import table
from tests.support.traces import request


@pytest.mark.parametrize(
    ("headers", "body", "status", "message"),
    [
        ({"content-type": "text/plain"}, {}, 415, "The content type must be application/json."),
        ({}, [1], 400, "The request body must be a JSON object."),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    headers: dict[str, str], body: object, status: int, message: str
) -> None:
    async with open_application() as opened:
        response = await ask(
            opened,
            "/ui/api/session",
            method="POST",
            headers={"host": "localhost", **headers},
            body=body,
        )
    assert (response.status, error_of(response)["message"]) == (status, message)


@table("body", [b"{", b'{"key": ' + b"[" * 5000, b'{"key": "\xff"}'])
async def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    headers = {"host": "localhost", "content-type": "application/json"}
    async with open_application() as opened:
        response = await opened.request("POST", "/ui/api/session", body, headers)
    assert (response.status, error_of(response)["message"]) == (
        400,
        "The request body is not valid JSON.",
    )


async def test_a_long_body_is_refused_before_all_of_it_was_read() -> None:
    """Everybody who reaches the port can send one: signing in needs no key yet."""
    taken = 0

    async def send_without_end(feed: Callable[[bytes], None]) -> None:
        nonlocal taken
        while taken < 10**8:
            feed(bytes(2**16))
            taken += 2**16

    headers = {"host": "localhost", "content-type": "application/json"}
    http = HTTPRequest("POST", "/ui/api/session", headers, "127.0.0.1", send_without_end)
    async with open_application() as opened:
        response = await opened.application.handle(http)
    assert (response.status, taken) == (413, 2**16)


async def test_without_a_trace_lists_are_empty_and_say_so(tmp_path: Path) -> None:
    async with open_application() as opened:
        assert await ask_json(opened, "requests") == {
            "rows": [],
            "next": None,
            "traced": False,
            "payloads": False,
            "payloads_until_ms": None,
        }
    async with traced_application(tmp_path, request("q1")) as opened:
        assert (await ask_json(opened, "requests"))["traced"] is True
