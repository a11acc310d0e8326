"""`antiphon replay`: one line per event on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from antiphon import replay
from antiphon.cli.main import main
from tests.support.commands import Screen

RECORDED = (
    b'data: {"model": "m", "choices": [{"delta": {"content": "Hel"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}],'
    b' "usage": {"prompt_tokens": 2, "completion_tokens": 1}}\n\n'
    b"data: [DONE]\n\n"
)
CALL = {
    "model": "m",
    "choices": [
        {
            "message": {
                "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": ""}}]
            },
            "finish_reason": "tool_calls",
        }
    ],
}

ARGUMENTS = {"arguments": json.dumps({"input": "x"})}


@pytest.fixture
def recording(home: Path) -> str:
    (home / "upstream.sse").write_bytes(RECORDED)
    return "upstream.sse"


def test_a_pipe_gets_one_event_per_line(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recording]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == replay(RECORDED)


def test_a_dash_reads_the_recording_from_standard_input(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RECORDED)))
    assert main(["replay", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(replay(RECORDED))


def test_a_terminal_gets_a_summary_of_each_event(recording: str, screen: Screen) -> None:
    assert screen.run("replay", recording) == 0
    lines = screen.plain.splitlines()
    assert len(lines) == len(replay(RECORDED))
    assert lines[0].split() == ["0", "created", "resp_0001", "·", "m", "·", "in_progress"]
    assert lines[2].split() == [
        "2",
        "output_item.added",
        "#0",
        "message",
        "msg_0001",
        "in_progress",
    ]
    assert lines[4].split() == ["4", "output_text.delta", "'Hel'"]
    assert lines[-1].endswith("resp_0001 · m · completed · 2 tokens in, 1 out")


def test_a_truncated_recording_ends_with_a_failed_event(home: Path, screen: Screen) -> None:
    (home / "cut.sse").write_bytes(RECORDED.split(b"\n\n")[0] + b"\n\n")
    assert screen.run("replay", "cut.sse") == 0
    assert "failed" in screen.plain.splitlines()[-1]


def test_the_request_option_defines_the_tools(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "answer.json").write_text(json.dumps(CALL))
    (home / "request.json").write_text(json.dumps({"model": "asked", "tools": []}))
    assert main(["replay", "--request", "request.json", "answer.json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [item["name"] for item in last["response"]["output"]] == ["find"]


@pytest.mark.parametrize("model", ["m", "deepseek/deepseek-chat", "nobody/x", "deepseek/"])
def test_the_request_of_the_client_restores_its_tools(
    home: Path, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    answer = json.dumps(CALL).replace('"arguments": ""', json.dumps(ARGUMENTS)[1:-1])
    (home / "answer.json").write_text(answer)
    request = {"model": model, "input": "Hi", "tools": [{"type": "custom", "name": "find"}]}
    (home / "request.json").write_text(json.dumps(request))
    args = ["replay", "--request", "request.json", "--client", "codex", "answer.json"]
    assert main(args) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [item["type"] for item in last["response"]["output"]] == ["custom_tool_call"]


def test_a_request_that_the_gateway_would_reject_is_reported(
    recording: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "request.json").write_text(json.dumps({"model": "m", "input": "Hi", "store": "x"}))
    assert main(["replay", "--request", "request.json", recording]) != 0
    assert "store" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["no.sse"], "cannot read no.sse: No such file or directory"),
        (["."], "cannot read .: Is a directory"),
        (["--request", "no.json", "upstream.sse"], "cannot read no.json"),
        (
            ["--request", "upstream.sse", "upstream.sse"],
            "upstream.sse is not a request body: JSON is",
        ),
        (
            ["--request", "list.json", "upstream.sse"],
            "list.json is not a request body: Expected `obje",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    args: list[str], message: str, recording: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "list.json").write_text("[]")
    assert main(["replay", *args]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"antiphon: {message}")
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
