"""Progress of tools that a Responses provider runs, from its socket to the socket of the client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ProviderConfig
from tests.support.client_answers import post_request
from tests.support.gateways import replaced, running, settings
from tests.support.stream_validator import check
from tests.support.upstream import Connection, ReceivedRequest, upstream

Document = dict[str, Any]

SEARCH = {
    "type": "web_search_call",
    "id": "ws_theirs",
    "status": "in_progress",
    "action": {"type": "search", "query": "rain"},
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_theirs",
    "status": "completed",
    "code": "1+1",
    "container_id": "cntr_1",
    "outputs": None,
}
MESSAGE = {
    "type": "message",
    "id": "msg_theirs",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is 2.", "annotations": []}],
}
REASONING = {"type": "reasoning", "id": "rs_theirs", "summary": []}
TOOL = "response.code_interpreter_call"


def recorded_stream() -> list[Document]:
    place = {"output_index": 1, "item_id": "ci_theirs"}
    output = [REASONING, CODE, MESSAGE]
    return [
        {"type": "response.created", "response": {"id": "resp_theirs", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": REASONING},
        {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": CODE | {"status": "in_progress", "code": ""},
        },
        {"type": f"{TOOL}.in_progress", **place},
        {"type": f"{TOOL}_code.delta", **place, "delta": "1+", "obfuscation": "xyz"},
        {"type": f"{TOOL}_code.delta", **place, "delta": "1", "obfuscation": "z"},
        {"type": f"{TOOL}_code.done", **place, "code": "1+1"},
        {"type": f"{TOOL}.interpreting", **place},
        {"type": f"{TOOL}.completed", **place},
        {"type": "response.output_item.done", "output_index": 1, "item": CODE},
        {"type": "response.output_item.done", "output_index": 2, "item": MESSAGE},
        {"type": "response.completed", "response": {"status": "completed", "output": output}},
    ]


def as_frames(events: list[Document]) -> bytes:
    numbered = (event | {"sequence_number": 50 + n} for n, event in enumerate(events))
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in numbered)


@pytest.mark.parametrize("read_size", [1, 7, 10_000])
async def test_the_progress_of_a_hosted_tool_reaches_the_client(
    tmp_path: Path, read_size: int
) -> None:
    data = as_frames(recorded_stream())

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for start in range(0, len(data), read_size):
            await connection.send(data[start : start + read_size])
        await connection.end()

    async with upstream(script) as server:
        entry = ProviderConfig(kind="openai", base_url=server.url, api_keys=["k"])
        config = replaced(settings(tmp_path, server.url), providers={"up": entry})
        async with running(config) as gateway:
            body = {"model": "up/gpt-5", "input": "1+1?", "stream": True}
            answer = await post_request(gateway, body)
    check(answer.events)
    sent = [event for event in recorded_stream() if event["type"].startswith(TOOL)]
    received = [event for event in answer.events if event["type"].startswith(TOOL)]
    assert [(event["type"], event.get("delta")) for event in received] == [
        (event["type"], event.get("delta")) for event in sent
    ]
    assert {(event["item_id"], event["output_index"]) for event in received} == {("ci_theirs", 1)}
    assert [item["type"] for item in answer.response["output"]] == [
        "reasoning",
        "code_interpreter_call",
        "message",
    ]


async def test_a_search_that_was_cut_is_failed_and_was_never_completed(tmp_path: Path) -> None:
    place = {"output_index": 0, "item_id": "ws_theirs"}
    data = as_frames(
        [
            {"type": "response.created", "response": {"id": "resp_theirs", "model": "m"}},
            {"type": "response.output_item.added", "output_index": 0, "item": SEARCH},
            {"type": "response.web_search_call.in_progress", **place},
            {"type": "response.web_search_call.searching", **place},
        ]
    )

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(data)
        connection.cut()

    async with upstream(script) as server:
        entry = ProviderConfig(kind="openai", base_url=server.url, api_keys=["k"])
        config = replaced(settings(tmp_path, server.url), providers={"up": entry})
        async with running(config) as gateway:
            body = {"model": "up/gpt-5", "input": "Rain?", "tools": [{"type": "web_search"}]}
            answer = await post_request(gateway, {**body, "stream": True})
    check(answer.events)
    stages = [event["type"] for event in answer.events if "web_search_call" in event["type"]]
    assert [stage.rpartition(".")[2] for stage in stages] == ["in_progress", "searching"]
    assert answer.response["status"] == "failed"
    assert [item["status"] for item in answer.response["output"]] == ["failed"]
