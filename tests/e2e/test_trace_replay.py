"""`antiphon trace replay` tells what the client saw, and what it could not make again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from antiphon.config import TraceConfig
from tests.support.client_answers import Answer, post_request
from tests.support.failing_providers import STREAMED_AND_WHOLE
from tests.support.gateways import replaced, running, settings
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)

JSON = {"text": {"format": {"type": "json_object"}}}


async def record(tmp_path: Path, script: Script, **body: Any) -> Answer:
    """Send a request to a gateway that keeps payloads."""
    async with upstream(script) as server:
        config = settings(tmp_path, server.url)
        trace = TraceConfig(path=str(tmp_path / "trace.db"), payloads=True)
        async with running(replaced(config, trace=trace)) as gateway:
            return await post_request(gateway, {"model": "up/m", "input": "Hi", **body})


def replay(
    tmp_path: Path, answer: Answer, capsys: pytest.CaptureFixture[str]
) -> tuple[list[dict[str, Any]], str]:
    """Return the events of the replay, and what it says about them."""
    capsys.readouterr()
    trace = str(tmp_path / "trace.db")
    assert main(["trace", "replay", answer.headers["x-request-id"], "--file", trace]) == 0
    written = capsys.readouterr()
    return [json.loads(line) for line in written.out.splitlines()], written.err


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


async def test_a_response_with_estimated_usage_is_made_again_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [*HELLO, chunk({}, "stop"), DONE]
    answer = await record(tmp_path, send_frames(frames), stream=True)
    assert answer.response["usage"]["input_tokens"] > 0
    events, note = replay(tmp_path, answer, capsys)
    assert [event["type"] for event in events] == [event["type"] for event in answer.events]
    assert events[-1]["response"]["usage"] == answer.response["usage"]
    assert note == ""


@STREAMED_AND_WHOLE
async def test_a_repaired_response_is_shown_as_its_client_got_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: bool
) -> None:
    texts = iter(["no JSON", '{"a": 1}'])

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        text = next(texts)
        if stream:
            said = send_frames([chunk({"content": text}), chunk({}, "stop"), DONE])
        else:
            said = send_json(200, whole_answer(text))
        await said(request, connection)

    answer = await record(tmp_path, script, stream=stream, **JSON)
    assert (answer.response["status"], answer.text) == ("completed", '{"a": 1}')
    events, note = replay(tmp_path, answer, capsys)
    if stream:
        assert events == answer.events
    assert events[-1]["response"] == answer.response
    assert "the recorded events are shown" in note


async def _cut(request: ReceivedRequest, connection: Connection) -> None:
    await connection.head()
    for data in HELLO:
        await connection.send(data)
    connection.reset()


async def test_a_cut_response_is_shown_with_the_error_that_its_client_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await record(tmp_path, _cut, stream=True)
    assert answer.response["status"] == "failed"
    events, note = replay(tmp_path, answer, capsys)
    assert events == answer.events
    assert "response.failed" in note


@STREAMED_AND_WHOLE
async def test_what_can_be_made_again_needs_no_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: bool
) -> None:
    script = send_frames(HELLO_WORLD) if stream else send_json(200, whole_answer("Hello"))
    answer = await record(tmp_path, script, stream=stream)
    events, note = replay(tmp_path, answer, capsys)
    assert note == ""
    assert events[-1]["response"]["output_text"] == answer.text
