"""POST /v1/responses/compact: the history in, user messages and one compaction item out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from antiphon.config import CompactionConfig
from antiphon.server.http import HTTPResponse
from tests.support.applications import (
    OpenApplication,
    document_of,
    echo_config,
    error_of,
    open_application,
)

INPUT = [
    {"role": "user", "content": "The port is 8123."},
    {"role": "assistant", "content": "Noted: heron."},
]


async def compact(opened: OpenApplication, **body: Any) -> HTTPResponse:
    document = json.dumps({"model": "echo/echo", "input": INPUT, **body}).encode()
    return await opened.request("POST", "/v1/responses/compact", document)


async def test_the_output_is_accepted_as_the_input_of_a_new_thread() -> None:
    async with open_application() as opened:
        response = await compact(opened, prompt_cache_key="k")
        document = document_of(response)
        follow = await opened.create(input=document["output"])
    assert response.status == 200
    assert document["object"] == "response.compaction"
    assert [item["type"] for item in document["output"]] == ["message", "compaction"]
    assert document["usage"]["total_tokens"] > 0
    [message] = document_of(follow)["output"]
    assert "Noted: heron." in message["content"][0]["text"]


async def test_a_stored_thread_is_compacted() -> None:
    async with open_application() as opened:
        first = document_of(await opened.create(input="The port is 8123."))
        body = {"input": None, "previous_response_id": first["id"]}
        document = document_of(await compact(opened, **body))
    [message, _] = document["output"]
    assert message["content"] == [{"type": "input_text", "text": "The port is 8123."}]


@pytest.mark.parametrize(
    ("body", "param"),
    [({"model": None}, "model"), ({"input": []}, "input"), ({"input": 3}, "input")],
)
async def test_an_invalid_request_is_a_400_that_names_the_field(
    body: dict[str, Any], param: str
) -> None:
    async with open_application() as opened:
        response = await compact(opened, **body)
    assert (response.status, error_of(response)["param"]) == (400, param)


async def test_another_model_may_write_the_summary() -> None:
    config = structs.replace(echo_config(), compaction=CompactionConfig(model="echo/refuser"))
    async with open_application(config) as opened:
        refused = await compact(opened)
        answered = await opened.create(input=INPUT)
    assert refused.status == 502
    assert answered.status == 200


async def test_a_summary_that_was_cut_off_is_an_error() -> None:
    async with open_application() as opened:
        long = [{"role": "user", "content": f"{number} a b c d"} for number in range(9)]
        whole = await compact(opened, input=long)
        opened.application.process.stop_accepting()
        stopped = await compact(opened)
    assert (whole.status, stopped.status) == (200, 503)
