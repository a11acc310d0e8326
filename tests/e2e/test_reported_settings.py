"""The response tells which settings were used, not which were requested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig, ModelConfig
from tests.support.checked_gateway import configured
from tests.support.gateways import replaced, running, settings
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    send_frames,
    send_json,
    upstream,
)

Document = dict[str, Any]
HELLO = send_frames(HELLO_WORLD)
FUNCTION: Document = {"type": "function", "name": "f", "parameters": {"type": "object"}}
NONE = ModelConfig(parameters=[], tool_choice=["auto"], efforts={})

UNSUPPORTED: list[tuple[Document, Document]] = [
    ({"temperature": 0.3}, {"temperature": 1.0}),
    ({"top_p": 0.3}, {"top_p": 1.0}),
    ({"presence_penalty": 1}, {"presence_penalty": 0.0}),
    ({"frequency_penalty": 1}, {"frequency_penalty": 0.0}),
    ({"top_logprobs": 3}, {"top_logprobs": 0}),
    ({"max_output_tokens": 99}, {"max_output_tokens": None}),
    ({"truncation": "auto"}, {"truncation": "disabled"}),
    ({"service_tier": "priority"}, {"service_tier": "default"}),
    ({"service_tier": "flex"}, {"service_tier": "default"}),
    ({"reasoning": {"effort": "high"}}, {"reasoning": {"effort": None, "summary": None}}),
    (
        {"reasoning": {"summary": "detailed"}},
        {"reasoning": {"effort": None, "summary": "auto"}},
    ),
    (
        {"text": {"verbosity": "low"}},
        {"text": {"format": {"type": "text"}, "verbosity": "medium"}},
    ),
    ({"tools": [FUNCTION], "tool_choice": "required"}, {"tool_choice": "auto"}),
    (
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}],
            }
        },
    ),
]


@pytest.mark.parametrize(("requested", "used"), UNSUPPORTED, ids=str)
async def test_a_setting_that_is_not_sent_is_not_reported_as_used(
    tmp_path: Path, requested: Document, used: Document
) -> None:
    async with configured(tmp_path, HELLO, models={"*": NONE}) as setup:
        events = await setup.stream(**requested)
        for response in (events[0]["response"], events[-1]["response"]):
            assert {name: response[name] for name in used} == used


async def test_settings_that_are_sent_are_reported(tmp_path: Path) -> None:
    sent = {"temperature": 0.3, "top_p": 0.5, "max_output_tokens": 99}
    async with configured(tmp_path, HELLO) as setup:
        response = (await setup.stream(**sent))[-1]["response"]
        assert {name: response[name] for name in sent} == sent


async def test_a_value_that_was_clamped_is_reported_as_it_was_sent(tmp_path: Path) -> None:
    limited = {"*": ModelConfig(max_output_tokens=50)}
    async with configured(tmp_path, HELLO, models=limited) as setup:
        response = (await setup.stream(max_output_tokens=99))[-1]["response"]
        assert response["max_output_tokens"] == 50


async def test_a_parameter_that_the_provider_refuses_is_not_reported_as_used(
    tmp_path: Path,
) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if "temperature" in request.body:
            error = {"message": "Unsupported parameter: 'temperature'", "param": "temperature"}
            await send_json(400, {"error": {"type": "invalid_request_error", **error}})(
                request, connection
            )
        else:
            await HELLO(request, connection)

    async with upstream(script) as server:
        config = replaced(settings(tmp_path, server.url), attempts=AttemptConfig(max_attempts=2))
        async with running(config) as gateway:
            body = {"model": "m", "input": "Hello?", "temperature": 0.3}
            response = (await gateway.stream(body))[-1]["response"]
        assert (response["temperature"], len(server.requests)) == (1.0, 2)


async def test_the_format_that_an_item_has_set_is_reported(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = {"type": "json_schema", "name": "n", "schema": schema}
    answer = (chunk({"content": json.dumps({"a": "b"})}), chunk({}, "stop"))
    async with configured(tmp_path, send_frames(answer)) as setup:
        items = [
            {"type": "configuration_update", "text": {"format": form}},
            {"role": "user", "content": "Hello?"},
        ]
        response = (await setup.stream(input=items))[-1]["response"]
        assert response["text"]["format"] == form


@pytest.mark.parametrize(
    ("upstream_tier", "reported"),
    [("default", "default"), ("flex", "flex"), ("on_demand", "default"), ("priority", "priority")],
)
async def test_the_service_tier_is_the_one_that_the_provider_reports(
    tmp_path: Path, upstream_tier: str, reported: str
) -> None:
    frames = (
        chunk({"content": "Hello"}, service_tier=upstream_tier),
        chunk({}, "stop", service_tier=upstream_tier),
    )
    can = {"*": ModelConfig(parameters=["service_tier"])}
    async with configured(tmp_path, send_frames(frames), models=can) as setup:
        events = await setup.stream(service_tier="priority")
        assert setup.last_body["service_tier"] == "priority"
        assert events[-1]["response"]["service_tier"] == reported
