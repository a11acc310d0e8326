"""Engine: what is decided, and what is rejected, before a run begins."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import CompatibilityConfig, ProviderConfig, StoreConfig
from antiphon.core.items import FunctionCall, Message, OutputText
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.engine.engine import Engine
from antiphon.engine.run import State
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.server.wiring import open_engine
from tests.support.gateways import replaced, settings
from tests.support.request_body import parse_body
from tests.support.traces import read_trace

CALLER = Caller("alice", "req_1")


def request(**fields: Any) -> Request:
    body = {"model": "echo/echo", "input": "Hello", **fields}
    return parse_body(json.dumps(body).encode())


@asynccontextmanager
async def open_echo(tmp_path: Path, **changes: Any) -> AsyncIterator[Engine]:
    config = replaced(settings(tmp_path), store=StoreConfig(url="memory://"), **changes)
    async with open_engine(config, {}, lambda entry: None) as engine:
        yield engine


async def respond(engine: Engine, **fields: Any) -> Response:
    async with await engine.create(request(**fields), CALLER) as run:
        return await run.response()


def text(response: Response) -> str:
    [message] = response.output
    assert isinstance(message, Message)
    [part] = message.content
    assert isinstance(part, OutputText)
    return part.text


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": "echo/nothing"}, "model", "model_not_found"),
        (
            {"previous_response_id": "resp_0"},
            "previous_response_id",
            "previous_response_not_found",
        ),
    ],
)
async def test_a_request_that_cannot_be_served_is_rejected_before_its_run(
    tmp_path: Path, fields: dict[str, Any], param: str, code: str
) -> None:
    async with open_echo(tmp_path) as engine:
        with pytest.raises(InvalidRequest) as caught:
            await engine.create(request(**fields), CALLER)
        assert (caught.value.param, caught.value.wire_code) == (param, code)
        assert not engine.active


async def test_a_created_run_is_prepared_and_not_active(tmp_path: Path) -> None:
    async with open_echo(tmp_path) as engine:
        run = await engine.create(request(), CALLER)
        assert run.state is State.PREPARED
        assert not engine.active
        async with run:
            assert len(engine.active) == 1


async def test_earlier_turns_are_part_of_the_history(tmp_path: Path) -> None:
    async with open_echo(tmp_path) as engine:
        first = await respond(engine, input="One")
        second = await respond(engine, input=[], previous_response_id=first.id)
        assert text(second) == "One"


async def test_an_output_must_answer_a_call_of_the_previous_responses(tmp_path: Path) -> None:
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    output = {"type": "function_call_output", "output": "sunny"}
    async with open_echo(tmp_path) as engine:
        first = await respond(engine, input="The weather?", tools=[tool])
        [call] = first.output
        assert isinstance(call, FunctionCall)
        answered = {**output, "call_id": call.call_id}
        second = await respond(engine, input=[answered], previous_response_id=first.id)
        assert text(second) == "sunny"
        unknown = {**output, "call_id": "call_unknown"}
        with pytest.raises(InvalidRequest) as caught:
            await respond(engine, input=[unknown], previous_response_id=first.id)
        assert caught.value.param == "input[0].call_id"


async def test_an_output_without_a_call_in_a_whole_history_is_served(tmp_path: Path) -> None:
    unknown = {"type": "function_call_output", "call_id": "call_unknown", "output": "sunny"}
    async with open_echo(tmp_path) as engine:
        response = await respond(engine, input=[{"role": "user", "content": "Hello"}, unknown])
        assert "sunny" in text(response)


async def test_a_fallback_that_cannot_serve_the_request_is_no_target(tmp_path: Path) -> None:
    without_search = ProviderConfig(
        kind="chat",
        base_url="http://127.0.0.1:9/v1",
        web_search="refuse",
    )
    changes: dict[str, Any] = {
        "providers": {"other": without_search},
        "default_provider": "",
        "fallbacks": {"echo/error-503": ["other/m"]},
        "compatibility": CompatibilityConfig(hosted_tools="ignore"),
    }
    async with open_echo(tmp_path, **changes) as engine:
        fields = {"model": "echo/error-503", "tools": [{"type": "web_search"}]}
        run = await engine.create(request(**fields), CALLER)
        async with run:
            with pytest.raises(UpstreamError) as caught:
                await run.response()
        assert caught.value.fault.status == 503
    [row] = read_trace(tmp_path / "trace.db", CALLER.request_id).skipped
    assert (row.provider, row.model) == ("other", "m")
    assert row.reason == "it cannot serve this request: tools[0].type (unsupported_parameter)"


async def test_stopping_all_ends_every_active_run(tmp_path: Path) -> None:
    async with open_echo(tmp_path) as engine:
        async with await engine.create(request(stream=True), CALLER) as run:
            engine.stop_all()
            with pytest.raises(UpstreamError) as caught:
                await run.open()
            assert caught.value.fault.code == "shutting_down"
        assert not engine.active
