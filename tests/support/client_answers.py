"""Answers of the gateway to a client, and their validation.

An answer is a whole response, a stream of events, or an error in the API's own shape. There is no
other kind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.gateways import Running, events_of
from tests.support.stream_validator import TERMINALS, check

Document = dict[str, Any]
ERROR_KEYS = {"message", "type", "param", "code"}
TIMEOUT_S = 60.0
"""Longest wait for an answer."""


@dataclass(frozen=True)
class Answer:
    """The HTTP response to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def document(self) -> Document:
        document: Document = json.loads(self.body)
        return document

    @property
    def events(self) -> list[Document]:
        assert self.is_stream, self.body
        return events_of(self.body)

    @property
    def error(self) -> Document:
        """The error of an answer that is one, or of a response that failed."""
        error = self.response["error"]
        assert isinstance(error, dict), self.body
        return error

    @property
    def response(self) -> Document:
        """The Response object, streamed or whole; or the body of an error."""
        document: Document = self.events[-1]["response"] if self.is_stream else self.document
        return document

    @property
    def text(self) -> str:
        """The text of all messages."""
        messages = [item for item in self.response["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])


async def post_request(gateway: Running, body: Any, **headers: str) -> Answer:
    """Post a request, read its whole answer and validate it."""
    url = f"{gateway.base_url}/responses"
    async with (
        asyncio.timeout(TIMEOUT_S),
        gateway.client.post(url, json=body, headers=headers) as response,
    ):
        answer = Answer(response.status, response.headers, await response.read())
    check_answer(answer)
    return answer


async def send_raw(
    gateway: Running, method: str, path: str, data: bytes | None = None, **headers: str
) -> Answer:
    """Send any request; header names are written with underscores."""
    url = gateway.base_url.removesuffix("/v1") + path
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        asyncio.timeout(TIMEOUT_S),
        gateway.client.request(method, url, data=data, headers=named) as response,
    ):
        return Answer(response.status, response.headers, await response.read())


def check_answer(answer: Answer) -> None:
    """Raise AssertionError unless the answer is valid: a response, a stream or an error."""
    assert answer.headers["x-request-id"].startswith("req_")
    if answer.is_stream:
        assert answer.status == 200
        assert answer.body.endswith(b"data: [DONE]\n\n")
        check(answer.events)
        terminals = [event for event in answer.events if event["type"] in TERMINALS]
        assert len(terminals) == 1
    elif answer.status == 200:
        assert answer.document["object"] == "response"
        assert answer.document["status"] in ("completed", "incomplete", "failed")
    else:
        check_error_answer(answer)


def check_error_answer(answer: Answer) -> None:
    """Check an error: its status, and a body with all four keys."""
    assert 400 <= answer.status < 600
    assert answer.headers["content-type"].startswith("application/json")
    assert set(answer.document) == {"error"}
    error = answer.document["error"]
    assert set(error) == ERROR_KEYS
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
