"""`antiphon trace replay`: a traced request with its own dialect, tools and client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from antiphon.store.trace.rows import TraceServerCall
from tests.support.traces import finish, request, stream, trace_at, write_rows

ID = "req_aaa111"
CALL = {"id": "toolu_1", "type": "tool_use", "name": "patch", "input": {"input": "*** x"}}
SAID = {"type": "message", "content": [CALL], "stop_reason": "tool_use", "model": "m"}
ASKED = {"model": "fast", "input": "Hi", "tools": [{"type": "custom", "name": "patch"}]}


def write_trace(home: Path, asked: Any = ASKED, **finished: str) -> None:
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    write_rows(
        trace_at(path, payloads=True, payload_max_bytes=2000),
        request(ID, response_id="resp_1", software="codex_cli_rs/0.77.0"),
        stream(ID, json.dumps(asked).encode(), "request", offsets=[(0, 1)]),
        stream(ID, json.dumps(SAID).encode(), "raw", offsets=[(0, 1)]),
        finish(ID, **finished),
    )


def replay(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["trace", "replay", "req_aaa"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("provider", ["anthropic", "gone"])
def test_a_call_has_the_type_that_its_client_declared(
    home: Path, capsys: pytest.CaptureFixture[str], provider: str
) -> None:
    write_trace(home, provider=provider, provider_model="claude-x", dialect="anthropic")
    last = replay(capsys)[-1]
    assert last["type"] == "response.completed"
    [call] = last["response"]["output"]
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "patch", "*** x")


def test_a_request_that_has_not_ended_is_replayed_as_far_as_it_went(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    said = b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
    write_rows(
        trace_at(path, payloads=True),
        request(ID),
        stream(ID, b'{"model": "fast", "input": "Hi"}', "request"),
        stream(ID, said, "raw"),
    )
    assert "response.output_text.delta" in [event["type"] for event in replay(capsys)]


def test_a_truncated_request_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(home, {**ASKED, "input": "x" * 5000}, dialect="anthropic")
    assert main(["trace", "replay", ID]) == 2
    assert "the recorded request is truncated" in capsys.readouterr().err


def test_a_replay_says_that_calls_of_mcp_servers_are_missing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(home, dialect="anthropic")
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    called = TraceServerCall(request_id=ID, server="sky", tool="weather", item_id="mcp_1")
    write_rows(trace_at(path, payloads=True), called)
    assert main(["trace", "replay", ID]) == 0
    printed = capsys.readouterr()
    assert "what they returned is not in the trace" in printed.err
    assert "custom_tool_call" in printed.out
