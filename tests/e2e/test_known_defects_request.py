"""Known defects of requests: authentication, rejected fields, lost content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, ServerConfig
from antiphon.errors import ConfigError
from tests.support.checked_gateway import Document, checked_gateway
from tests.support.gateways import replaced, running, settings
from tests.support.known_defects import row
from tests.support.upstream import (
    HELLO_WORLD,
    send_frames,
    send_json,
)
from tests.support.waiting import until

FOUR_KEYS = {"message", "type", "param", "code"}
HEADER = "antiphon-diagnostics"
PIXEL = "data:image/png;base64,iVBORw0KGgo="

# Who may ask


@row(21)
async def test_binding_to_a_public_address_needs_keys(tmp_path: Path) -> None:
    config = replaced(settings(tmp_path), server=ServerConfig(host="0.0.0.0", port=0))
    with pytest.raises(ConfigError, match="api_keys"):
        async with running(config):
            pass
    assert Config().server.host == "127.0.0.1"


@row(21)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json", "host": "evil.example"}, 403),
    ],
    ids=["plain text", "a form", "a name that leads here"],
)
async def test_a_web_page_cannot_use_the_gateway(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        url = f"{setup.gateway.base_url}/responses"
        body = json.dumps({"model": "m", "input": "Hello?"})
        async with setup.gateway.client.post(url, data=body, headers=headers) as response:
            assert (response.status, set((await response.json())["error"])) == (status, FOUR_KEYS)
        assert setup.upstream.requests == []


@row(21)
async def test_with_api_keys_requests_need_one(tmp_path: Path) -> None:
    async with checked_gateway(
        tmp_path, send_frames(HELLO_WORLD), api_keys={"alice": "sk-alice"}
    ) as setup:
        for headers in ({}, {"authorization": "Bearer sk-bob"}, {"authorization": "Basic x"}):
            status, _, document = await setup.gateway.post({"model": "m", "input": "x"}, **headers)
            assert (status, document["error"]["code"]) == (401, "invalid_api_key")
        status, _, _ = await setup.gateway.post(
            {"model": "m", "input": "x"}, authorization="Bearer sk-alice"
        )
        assert (status, len(setup.upstream.requests)) == (200, 1)
        assert setup.upstream.requests[0].headers["authorization"] == "Bearer sk-upstream"


# What an upstream's refusal becomes


@row(22)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_rate_limit_reaches_the_client_with_its_delay(
    tmp_path: Path, streamed: bool
) -> None:
    """Retries, other keys and other providers come with the issue about providers; what holds
    already is that a client can do it by itself."""
    limited = send_json(429, {"error": {"message": "slow", "code": "rate"}}, retry_after="7")
    async with checked_gateway(tmp_path, limited) as setup:
        status, headers, document = await setup.post(stream=streamed)
        assert (status, headers["retry-after"], headers["retry-after-ms"]) == (429, "7", "7000")
        assert document["error"]["code"] == "rate_limit_exceeded"
        assert document["error"]["type"] == "rate_limit_error"
        assert "try again in 7 s" in document["error"]["message"]


@row(23)
@pytest.mark.parametrize(
    ("theirs", "ours", "kind", "code"),
    [
        (400, 400, "invalid_request_error", "invalid_prompt"),
        (401, 502, "server_error", "server_error"),
        (403, 502, "server_error", "server_error"),
        (404, 404, "invalid_request_error", "invalid_prompt"),
        (500, 503, "server_error", "server_error"),
        (503, 503, "server_error", "server_is_overloaded"),
        (504, 504, "server_error", "server_error"),
    ],
)
async def test_an_upstream_status_keeps_its_meaning(
    tmp_path: Path, theirs: int, ours: int, kind: str, code: str
) -> None:
    """The key belongs to the operator, so a 401 of the provider is not a 401 for the client."""
    error_body = {"error": {"message": "secret words", "type": "t", "code": None}}
    async with checked_gateway(tmp_path, send_json(theirs, error_body)) as setup:
        for streamed in (True, False):
            status, headers, document = await setup.post(stream=streamed)
            error = document["error"]
            assert (status, error["type"], error["code"]) == (ours, kind, code)
            assert set(error) == FOUR_KEYS
            assert f"HTTP {theirs}" in error["message"]
            assert "secret words" not in error["message"]
            assert headers["x-request-id"].startswith("req_")
        actual = [entry for entry in setup.gateway.log if entry.event == "upstream.failed"]
        assert [entry.facts["status"] for entry in actual] == [theirs, theirs]


# What a client may send


def schema(value: Any) -> Document:
    return {"text": {"format": {"type": "json_schema", "name": "x", "schema": value}}}


MALFORMED: dict[str, Document] = {
    "model": {"model": 7},
    "input": {"input": 5},
    "input[0]": {"input": [None]},
    "input[0].content[0].text": {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
    "instructions": {"instructions": {}},
    "previous_response_id": {"previous_response_id": 9},
    "tools": {"tools": {}},
    "tools[0]": {"tools": [7]},
    "tools[0].name": {"tools": [{"type": "function"}]},
    "tool_choice": {"tool_choice": 3},
    "tool_choice.name": {"tool_choice": {"type": "function"}},
    "text": {"text": "json"},
    "text.format": {"text": {"format": 1}},
    "text.format.schema": schema({"type": "moon"}),
    "stream": {"stream": "false"},
    "store": {"store": "yes"},
    "temperature": {"temperature": "hot"},
    "top_p": {"top_p": 2},
    "max_output_tokens": {"max_output_tokens": -1},
    "metadata": {"metadata": []},
    "reasoning": {"reasoning": "high"},
    "reasoning.effort": {"reasoning": {"effort": 3}},
    "include": {"include": "everything"},
}


@row(24)
async def test_a_malformed_field_is_a_400_that_names_it(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        for param, body in MALFORMED.items():
            status, _, document = await setup.post(**body)
            assert (status, document["error"]["param"]) == (400, param)
            assert set(document["error"]) == FOUR_KEYS
        assert setup.upstream.requests == []


@row(24)
async def test_a_body_that_is_no_request_is_a_400(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        headers = {"content-type": "application/json"}
        url = f"{setup.gateway.base_url}/responses"
        for body in (b"", b"{", b"[]", b"null", b"7", b"\xff", b'{"input":"x"}', b"[" * 100_000):
            async with setup.gateway.client.post(url, data=body, headers=headers) as response:
                assert (response.status, body[:9]) == (400, body[:9])
                assert set((await response.json())["error"]) == FOUR_KEYS


@row(24)
async def test_a_null_tool_choice_is_the_same_as_absent(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        assert (await setup.whole(tool_choice=None))["tool_choice"] == "auto"


# What goes up


HISTORIC: tuple[Document, ...] = (
    {"type": "mcp_call", "server_label": "s", "name": "f", "arguments": "{}", "id": "m"},
    {"type": "mcp_list_tools", "server_label": "s", "tools": [], "id": "m"},
    {"type": "mcp_approval_request", "server_label": "s", "name": "f", "arguments": "{}"},
    {"type": "compaction", "encrypted_content": "sealed"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "file_search_call", "id": "fs_1", "queries": ["x"], "status": "completed"},
    {"type": "computer_call", "call_id": "c", "id": "cc", "action": {"type": "wait"}},
    {"type": "image_generation_call", "id": "ig", "result": None, "status": "completed"},
    {"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "c"},
    {"type": "never_heard_of", "id": "x"},
)


@row(29)
async def test_no_history_item_is_rejected_with_a_400(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        user_message = {"role": "user", "content": "Go on."}
        for item in HISTORIC:
            status, headers, document = await setup.post(input=[item, user_message])
            assert (status, item["type"]) == (200, item["type"]), document
            assert setup.last_body["messages"][-1] == user_message
            assert "history." in headers[HEADER]


@row(29)
async def test_a_refusal_of_an_earlier_turn_is_sent_as_text(tmp_path: Path) -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        await setup.whole(input=[refusal, {"role": "user", "content": "Go on."}])
        assert setup.last_body["messages"][0] == {"role": "assistant", "content": "No."}


@row(29)
async def test_an_image_in_a_tool_output_reaches_the_model(tmp_path: Path) -> None:
    shown = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}]
    history = [
        {"role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": shown},
    ]
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        await setup.whole(input=history)
        assert [message["role"] for message in setup.last_body["messages"]] == [
            "user",
            "assistant",
            "tool",
            "user",
        ]
        assert PIXEL in str(setup.last_body["messages"][-1])


IGNORED: dict[str, Document] = {
    "param.ignored:service_tier": {"service_tier": "flex"},
    "param.ignored:text.verbosity": {"text": {"verbosity": "low"}},
    "param.ignored:reasoning.summary": {"reasoning": {"summary": "detailed"}},
    "include.ignored:file_search_call.results": {"include": ["file_search_call.results"]},
    "param.unknown:made_up": {"made_up": 1},
}


@row(34)
async def test_ignored_parameters_have_a_diagnostic(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        for code, body in IGNORED.items():
            _, headers, _ = await setup.post(**body)
            assert headers[HEADER] == f"1; codes={code}"
        actual = [entry for entry in setup.gateway.log if entry.event == "response.diagnostics"]
        assert len(actual) == len(IGNORED)


@row(34)
@pytest.mark.parametrize("field", [{"prompt": {"id": "p"}}, {"moderation": {"model": "m"}}])
async def test_parameters_that_would_change_the_prompt_are_rejected(
    tmp_path: Path, field: Document
) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        status, _, document = await setup.post(**field)
        assert (status, document["error"]["code"]) == (400, "unsupported_parameter")
        assert document["error"]["param"] == next(iter(field))


@row(37)
async def test_a_background_request_is_answered_before_it_is_generated(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        status, _, document = await setup.post(background=True)
        assert (status, document["status"], document["output"]) == (200, "queued", [])
        assert document["background"] is True
        await until(lambda: setup.upstream.requests, "the provider has the request")
        assert len(setup.upstream.requests) == 1
