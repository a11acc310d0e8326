"""Cases of the Open Responses compliance suite that use a WebSocket or compact a history.

Written anew from a description of the suite. A case raises if the gateway does not comply.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.support.open_responses.cases import Case, Suite, message, text_part
from tests.support.open_responses.schema import (
    CompactionItem,
    CompactResource,
    Document,
    check_compaction,
    check_event,
    check_response,
)

TURN_TIMEOUT_S = 30
_TERMINAL = {"response.completed", "response.failed", "response.incomplete", "error"}
_NOT_FOUND = "previous_response_not_found"


class Socket:
    """One connection to /v1/responses."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, model: str) -> None:
        self._socket = socket
        self._model = model

    async def turn(self, text: str, **fields: Any) -> list[Document]:
        """Send a user message, and return the events up to the terminal one."""
        items = fields.pop("items", [])
        body = {"model": self._model, "input": [*items, message("user", text)], **fields}
        await self._socket.send_json({"type": "response.create", **body})
        events: list[Document] = []
        async with asyncio.timeout(TURN_TIMEOUT_S):
            while not events or events[-1]["type"] not in _TERMINAL:
                received = await self._socket.receive()
                assert received.type is aiohttp.WSMsgType.TEXT, received
                events.append(json.loads(received.data))
        for event in events:
            _check_frame(event)
        return events

    async def complete(self, text: str, **fields: Any) -> Document:
        """Send a user message, and return the completed response."""
        events = await self.turn(text, **fields)
        assert events[-1]["type"] == "response.completed", events[-1]
        response: Document = events[-1]["response"]
        assert check_response(response).status == "completed"
        return response


def _check_frame(event: Document) -> None:
    if event["type"] == "error":
        assert isinstance(event["status"], int)
        assert event["error"]["code"]
        assert event["error"]["message"]
    else:
        check_event(event)


def _error_code(events: list[Document]) -> str | None:
    """The code of a turn that failed: of the error envelope, or of the failed response."""
    last = events[-1]
    error = last.get("error") or last.get("response", {}).get("error") or {}
    code: str | None = error.get("code")
    return code


@asynccontextmanager
async def connect(suite: Suite) -> AsyncIterator[Socket]:
    url = f"{suite.gateway.base_url}/responses"
    async with suite.gateway.client.ws_connect(url) as socket:
        yield Socket(socket, suite.model)


async def websocket_response(suite: Suite) -> None:
    async with connect(suite) as socket:
        await socket.complete("Count from 1 to 3.")


async def websocket_sequential_responses(suite: Suite) -> None:
    async with connect(suite) as socket:
        first = await socket.complete("Say one.", store=False)
        second = await socket.complete("Say two.", store=False)
    assert first["id"] != second["id"]


async def websocket_continuation(suite: Suite) -> None:
    async with connect(suite) as socket:
        first = await socket.complete("Remember the code word apple.", store=False)
        second = await socket.complete(
            "What is the code word?", store=False, previous_response_id=first["id"]
        )
    assert second["previous_response_id"] == first["id"]


async def websocket_reconnect_store_false_recovery(suite: Suite) -> None:
    async with connect(suite) as socket:
        first = await socket.complete("Remember this.", store=False)
    async with connect(suite) as socket:
        events = await socket.turn("Go on.", store=False, previous_response_id=first["id"])
        assert _error_code(events) == _NOT_FOUND
        await socket.complete("Begin again.", store=False)


async def websocket_previous_response_not_found(suite: Suite) -> None:
    async with connect(suite) as socket:
        events = await socket.turn("Go on.", store=False, previous_response_id="resp_unknown")
    assert _error_code(events) == _NOT_FOUND


async def websocket_failed_continuation_evicts_cache(suite: Suite) -> None:
    output = {"type": "function_call_output", "call_id": "call_unknown", "output": "1"}
    async with connect(suite) as socket:
        first = await socket.complete("Hello.", store=False)
        fields = {"store": False, "previous_response_id": first["id"]}
        failed = await socket.turn("Go on.", items=[output], **fields)
        assert failed[-1]["type"] in ("error", "response.failed")
        again = await socket.turn("Go on.", **fields)
    assert _error_code(again) == _NOT_FOUND


async def _compact(suite: Suite, *items: Document) -> tuple[Document, CompactResource]:
    status, document = await suite.post(
        "/responses/compact", model=suite.model, input=list(items), prompt_cache_key="thread-1"
    )
    assert status == 200, document
    compacted = check_compaction(document)
    assert any(isinstance(item, CompactionItem) for item in compacted.output)
    return document, compacted


async def compact_response(suite: Suite) -> None:
    await _compact(
        suite,
        message("user", "Plan a walk along the river."),
        message("assistant", "Start at the bridge."),
        message("user", "And then?"),
    )


async def compact_missing_model(suite: Suite) -> None:
    status, _ = await suite.post("/responses/compact", input=[message("user", "Hello")])
    assert status in (400, 422)


async def websocket_compact_new_chain(suite: Suite) -> None:
    said = [{"type": "output_text", "text": "Start at the bridge.", "annotations": []}]
    document, _ = await _compact(
        suite,
        message("user", [text_part("Plan a walk along the river.")]),
        message("assistant", said),
    )
    async with connect(suite) as socket:
        await socket.complete("And then?", items=document["output"])


COMPACTION_CASES: Mapping[str, Case] = {
    "compact-response": compact_response,
    "compact-missing-model": compact_missing_model,
}
WEBSOCKET_CASES: Mapping[str, Case] = {
    "websocket-response": websocket_response,
    "websocket-sequential-responses": websocket_sequential_responses,
    "websocket-continuation": websocket_continuation,
    "websocket-reconnect-store-false-recovery": websocket_reconnect_store_false_recovery,
    "websocket-previous-response-not-found": websocket_previous_response_not_found,
    "websocket-failed-continuation-evicts-cache": websocket_failed_continuation_evicts_cache,
    "websocket-compact-new-chain": websocket_compact_new_chain,
}
