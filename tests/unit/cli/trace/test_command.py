"""`antiphon trace list` and `show`: selection of requests, errors, JSON in a pipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from antiphon.cli.trace.view import make_summary_line
from antiphon.store.trace import reader as trace_reader
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceUsage,
)
from tests.support.commands import Screen, on_terminal
from tests.support.tables import table
from tests.support.traces import NOW_MS, finish, request, stream, trace_at, write_rows

RAW = b"data: one\n\ndata: two\n\n"


@pytest.fixture
def trace(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three requests: one completed, one failed, the latest still running."""
    monkeypatch.setenv("TZ", "UTC")
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    completed, failed = "req_aaa111", "req_aab222"
    target = {"provider": "lab", "provider_model": "tiny", "client": "alice"}
    write_rows(
        trace_at(path, payloads=True),
        request(completed, response_id="resp_1", model="gpt-5.5", stream=True, **target),
        TraceDiagnostic(
            request_id=completed,
            code="param.ignored",
            decision="ignored",
            param="top_p",
            message="No.",
        ),
        TraceAttempt(
            request_id=completed, number=1, provider="lab", model="tiny", status=200, latency_ms=40
        ),
        stream(completed, RAW, offsets=[(0, NOW_MS + 5), (11, NOW_MS + 12_345)]),
        TraceUsage(
            request_id=completed,
            input_tokens=1200,
            cached_tokens=1000,
            output_tokens=34,
            reasoning_tokens=4,
        ),
        TraceFinish(request_id=completed, status="completed", duration_ms=12_400, events=13),
        request(failed, response_id="resp_2", model="lab/tiny", **target),
        TraceAttempt(
            request_id=failed,
            number=1,
            provider="lab",
            model="tiny",
            fault_type="connection",
            fault_code="connection_failed",
        ),
        TraceError(request_id=failed, code="connection_failed", message="no route [to] host"),
        TraceFinish(request_id=failed, status="failed", duration_ms=7),
        request("req_ccc333", model="echo/echo", provider="echo", provider_model="echo"),
    )
    return path


@pytest.mark.usefixtures("trace")
def test_a_list_in_a_pipe_is_one_document_per_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "list"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["request_id"] for each in found] == ["req_ccc333", "req_aab222", "req_aaa111"]
    assert [each["status"] for each in found] == ["running", "failed", "completed"]
    assert (found[2]["input_tokens"], found[2]["output_tokens"]) == (1200, 34)
    assert (found[2]["duration_ms"], found[1]["errors"]) == (12_400, 1)


@pytest.mark.usefixtures("trace")
def test_a_list_on_a_terminal_is_a_table(screen: Screen) -> None:
    assert screen.run("trace", "list") == 0
    head, _, running, failed, message, completed = screen.rows()
    assert head == "time request client model status duration why".split()
    assert running[2:] == ["…q_ccc333", "-", "echo/echo", "running", "-"]
    assert failed[2:] == "…q_aab222 alice lab/tiny failed 7 ms connection_failed".split()
    assert message == "no route [to] host".split()
    assert completed[2:] == "…q_aaa111 alice gpt-5.5 completed 12.4 s".split()


@table(
    ("options", "found"),
    [
        (["--failed"], ["req_aab222"]),
        (["--model", "gpt-5.5"], ["req_aaa111"]),
        (["--limit", "1"], ["req_ccc333"]),
        (["--model", "nobody"], []),
        (["--model", "tiny"], ["req_aab222", "req_aaa111"]),
        (["--client", "alice", "--status", "completed"], ["req_aaa111"]),
        (["--provider", "echo"], ["req_ccc333"]),
        (["--status", "running"], ["req_ccc333"]),
        (["--status", "attached"], []),
        (["--code", "connection_failed"], ["req_aab222"]),
        (["--code", "another"], []),
        (["--since", "2023-11-01", "--until", "2023-12-01", "--failed"], ["req_aab222"]),
        (["--since", "2023-12-01"], []),
        (["--until", "2023-11-01"], []),
    ],
)
@pytest.mark.usefixtures("trace")
def test_options_select_the_requests_of_a_list(
    options: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "list", *options]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["request_id"] for each in shown] == found


def test_a_list_without_matches_names_the_file(trace: Path, screen: Screen) -> None:
    assert screen.run("trace", "list", "--model", "nobody") == 0
    assert f"No request in {trace} matches." in screen.plain


def test_a_status_that_does_not_exist_is_an_error(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["trace", "list", "--status", "fialed", "--file", str(trace)])
    assert leaving.value.code == 2
    assert "'fialed' is unknown; did you mean 'failed'?" in capsys.readouterr().err


@pytest.mark.parametrize("id", ["req_aaa111", "req_aaa", "resp_1", "a111", "req_…a111"])
@pytest.mark.usefixtures("trace")
def test_a_request_is_found_by_either_id_or_its_start_or_end(
    id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "show", id]) == 0
    [line] = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["request"]["request_id"] == "req_aaa111"
    assert found["usage"]["cached_tokens"] == 1000
    assert [each["code"] for each in found["diagnostics"]] == ["param.ignored"]
    [raw] = found["streams"]
    assert (raw["text"], raw["offsets"]) == (
        RAW.decode(),
        [[0, NOW_MS + 5], [11, NOW_MS + 12_345]],
    )


@pytest.mark.usefixtures("trace")
def test_without_an_id_the_latest_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["request"]["request_id"] == "req_ccc333"


@pytest.mark.usefixtures("trace")
def test_a_page_shows_every_row_of_the_request(screen: Screen) -> None:
    assert screen.run("trace", "show", "resp_1") == 0
    shown = screen.rows()
    for line in (
        "request req_aaa111",
        "client alice",
        "model gpt-5.5 → lab/tiny",
        "stream yes",
        "status completed after 12.4 s, 13 events",
        "tokens 1,200 in (1,000 cached), 34 out (4 reasoning)",
        "1. lab/tiny 200 after 40 ms",
        "ignored top_p param.ignored No.",
        "raw: 22 bytes in 2 chunks",
        "0 + 5 ms data: one",
        "11 + 12345 ms data: two",
    ):
        assert line.split() in shown


@pytest.mark.usefixtures("trace")
def test_the_stream_option_writes_the_recorded_bytes(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["trace", "show", "req_aaa111", "--stream", "raw"]) == 0
    assert capsysbinary.readouterr().out == RAW


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["show", "req_zzz"],
            "no request 'req_zzz' in ",
        ),
        (["show", "req_aa"], "'req_aa' matches 2 requests in "),
        (["show", "req_aab222", "--stream", "raw"], "no raw bytes were recorded for this request"),
        (
            ["show", "req_aaa111", "--stream", "outbound"],
            "this request has no outbound bytes: it ended before there were any.",
        ),
        (["list", "--file", "no.db"], "no trace file at no.db; omit --file"),
    ],
)
@pytest.mark.usefixtures("trace")
def test_a_missing_request_stream_or_file_is_an_error_with_advice(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *args]) == 2
    assert capsys.readouterr().err.startswith(f"antiphon: {message}")


def test_a_rejected_request_cannot_be_sent_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rejected.db"
    rejected = TraceFinish(request_id="req_1", status="rejected", duration_ms=0, http_status=401)
    write_rows(trace_at(path, payloads=True), request("req_1"), rejected)
    assert main(["trace", "resend", "req_1", "--file", str(path)]) == 2
    expected = "this request has no request bytes: it was rejected before a provider was called."
    assert expected in capsys.readouterr().err


def test_a_missing_trace_file_is_an_error_with_the_reason(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "list"]) == 2
    assert "`antiphon serve` creates it with the first request" in capsys.readouterr().err
    (home / "antiphon.toml").write_text("[trace]\nenabled = false\n")
    assert main(["trace", "show"]) == 2
    assert "[trace] enabled is false" in capsys.readouterr().err


def test_a_trace_file_without_requests_is_an_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(trace_at(home / "t.db"))
    assert main(["trace", "show", "--file", "t.db"]) == 2
    assert capsys.readouterr().err == "antiphon: t.db contains no requests yet.\n"


def test_a_file_that_is_not_a_trace_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "t.db").write_text("not a database, but long enough to be taken for one" * 20)
    assert main(["trace", "list", "--file", "t.db"]) == 2
    assert capsys.readouterr().err.startswith("antiphon: t.db: ")


def test_an_unset_variable_outside_of_the_trace_section_does_not_matter(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "trace.db"
    write_rows(trace_at(path), request("req_1"), finish("req_1"))
    text = f'[providers.deepseek]\napi_keys = ["${{NOT_SET}}"]\n[trace]\npath = "{path}"\n'
    (home / "antiphon.toml").write_text(text)
    assert main(["trace", "list"]) == 0
    assert "req_1" in capsys.readouterr().out
    (home / "antiphon.toml").write_text('[trace]\npath = "${NOT_SET}/trace.db"\n')
    assert main(["trace", "list"]) == 2
    assert "the environment variable NOT_SET is not set" in capsys.readouterr().err


def test_hostile_text_in_a_trace_does_not_reach_the_terminal(home: Path, screen: Screen) -> None:
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    id = "req_evil\x1b[2J"
    write_rows(
        trace_at(path),
        request(id, model="m\n\x1b]0;owned\x07", client="a\x9b31m"),
        TraceError(request_id=id, code="refused", message="first\n\x1b[31msecond"),
        TraceFinish(request_id=id, status="failed", duration_ms=7),
    )
    assert screen.run("trace", "list") == screen.run("trace", "show") == 0
    for sequence in ("\x1b[2J", "\x1b]0;", "\x9b", "\x1b[31msecond", "\x07"):
        assert sequence not in screen.getvalue()
    assert "first\\n\\x1b[31msecond" in screen.plain


def test_every_field_of_a_line_is_shown_where_it_fits(trace: Path) -> None:
    summary = trace_reader.list_requests(trace, 3)[-1]
    assert make_summary_line(summary, 200).plain == (
        "22:13:20  …q_aaa111  completed  gpt-5.5  12.4 s  1,200 → 34  lab  alice"
    )
    assert make_summary_line(summary, 45).plain == "22:13:20  …q_aaa111  completed  gpt-5.5"
    assert make_summary_line(summary, 5).plain == "22:13:20  …q_aaa111"


def test_requests_are_followed_as_they_end(trace: Path) -> None:
    with on_terminal(trace.parents[3], "trace", "tail", "--client", "bob") as terminal:
        terminal.wait_for("following ")
        write_rows(
            trace_at(trace),
            request("req_other", client="alice"),
            finish("req_other"),
            request("req_mine", client="bob"),
            TraceError(request_id="req_mine", code="too_busy", message="Busy."),
            finish("req_mine", "failed"),
        )
        shown = terminal.wait_for("req_mine  failed too_busy")
        assert "req_other" not in shown
        assert terminal.interrupt() == 130
        assert "Traceback" not in terminal.plain


def write_recording(path: Path, body: object, **changes: Any) -> None:
    write_rows(
        trace_at(path, payloads=True, payload_max_bytes=1000),
        request("req_old", client="alice", **changes),
        stream("req_old", json.dumps(body).encode(), "request", offsets=[(0, NOW_MS)]),
        finish("req_old"),
    )


@pytest.mark.parametrize("options", [[], ["--model", "echo/reasoner"]])
def test_a_recorded_request_is_sent_again_as_its_client(
    home: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    write_recording(path, {"model": "echo/echo", "input": "again, please"})
    assert main(["trace", "resend", "req_old", *options]) == 0
    response = json.loads(capsys.readouterr().out)
    assert response["status"] == "completed"
    assert response["model"] == (options[1] if options else "echo/echo")
    assert response["output"][-1]["content"][0]["text"] == "again, please"
    newest = trace_reader.list_requests(path, 1)[0]
    assert newest.request.client == "alice"
    assert newest.request.response_id == response["id"]


def test_a_request_that_is_sent_again_streams_its_text(home: Path, screen: Screen) -> None:
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    write_recording(path, {"model": "echo/echo", "input": "again, please"})
    assert screen.run("trace", "resend", "req_old") == 0
    head, text, status = screen.plain.strip().splitlines()
    assert head.startswith("echo/echo · req_")
    assert text == "again, please"
    assert status == "completed · 4 → 2 tokens"


TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
RECORDED_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"town":"Bonn"}',
    "status": "completed",
}


def write_recorded_call(path: Path) -> None:
    """A request whose response was one call with wrong arguments."""
    body = {"model": "echo/echo", "input": "weather", "tools": [TOOL]}
    response = {"status": "completed", "output": [RECORDED_CALL], "tools": [TOOL]}
    event = {"type": "response.completed", "response": response}
    sent = b"data: %b\n\n" % json.dumps(event).encode()
    write_rows(
        trace_at(path, payloads=True),
        request("req_call0001", client="alice", session="alice-at-home", model="echo/echo"),
        stream("req_call0001", json.dumps(body).encode(), "request", offsets=[(0, NOW_MS)]),
        stream("req_call0001", sent, "transformed", offsets=[(0, NOW_MS)]),
        finish("req_call0001"),
    )


def test_a_call_of_a_request_that_is_sent_again_is_printed_and_compared(
    home: Path, screen: Screen
) -> None:
    write_recorded_call(home / ".local" / "share" / "antiphon" / "trace.db")
    assert screen.run("trace", "resend", "call0001") == 0
    _, call, status, *compared = filter(None, screen.plain.splitlines())
    assert call == 'get_weather {"city":"echo"}  valid'
    assert status.startswith("completed · ")
    assert compared == [
        "compared with the recorded response:",
        '- get_weather {"town":"Bonn"}',
        '+ get_weather {"city":"echo"}',
    ]


def test_a_request_is_shown_with_its_calls_and_the_verdict_on_them(
    home: Path, screen: Screen
) -> None:
    write_recorded_call(home / ".local" / "share" / "antiphon" / "trace.db")
    assert screen.run("trace", "show", "call0001") == 0
    assert 'get_weather {"town":"Bonn"}  invalid' in screen.plain
    assert "\nwhy\n" in screen.plain
    assert "what to do: " in screen.plain


@pytest.mark.usefixtures("trace")
def test_a_failed_request_is_shown_with_who_caused_it_and_the_remedy(screen: Screen) -> None:
    assert screen.run("trace", "show", "aab222") == 0
    assert "lab could not be reached, or the connection broke  (network)" in screen.plain
    assert "what to do: Check the network and `base_url` in [providers.lab]" in screen.plain


def test_a_report_has_the_structure_of_a_request_and_none_of_its_words(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recorded_call(home / ".local" / "share" / "antiphon" / "trace.db")
    assert main(["trace", "report", "call0001"]) == 0
    assert "wrote antiphon-report-call0001.json" in capsys.readouterr().out
    text = (home / "antiphon-report-call0001.json").read_text()
    for secret in ("Bonn", "weather", "alice"):
        assert secret not in text
    report = json.loads(text)
    assert report["request"]["request"]["request_id"] == "req_call0001"
    asked, got = (each["text"] for each in report["streams"])
    assert json.loads(asked)["tools"][0]["type"] == "function"
    [call] = json.loads(got.removeprefix("data: "))["response"]["output"]
    assert (call["type"], call["call_id"]) == ("function_call", "call_1")
    assert call["arguments"] == '{"xxxx":"xxxx"}'


@pytest.mark.parametrize("model", ["echo/error-500", "echo/error-midway"])
def test_a_request_that_fails_again_says_why(
    home: Path, model: str, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text("[attempts]\nmax_attempts = 1\n")
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    write_recording(path, {"model": model, "input": "again, please"})
    config = ["--config", str(home / "antiphon.toml")]
    assert screen.run("trace", "resend", "req_old", *config) == 1
    assert "echo" in capsys.readouterr().err


def test_a_truncated_request_is_not_sent_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".local" / "share" / "antiphon" / "trace.db"
    write_recording(path, {"model": "echo/echo", "input": "x" * 2000})
    assert main(["trace", "resend", "req_old"]) == 2
    assert "the recorded request is truncated" in capsys.readouterr().err


@pytest.mark.usefixtures("trace")
def test_a_request_without_payloads_cannot_be_sent_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trace", "resend", "req_aab222"]) == 2
    assert "no request bytes were recorded" in capsys.readouterr().err
