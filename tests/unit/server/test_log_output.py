"""Log lines as JSON or text, filtered by level."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from antiphon.config import LogConfig
from antiphon.server.log_output import open_log
from antiphon.stages.log import Entry
from tests.support.commands import without_styles
from tests.support.tables import table

ENTRY = Entry("response.finished", "info", {"model": "echo/echo", "code": None, "tokens": 3})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_is_one_object_per_line_with_time_level_and_event() -> None:
    out = io.StringIO()
    emit = open_log(LogConfig(format="json"), out)
    emit(ENTRY)
    emit(ENTRY)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first.keys() == {"at", "level", "event", "model", "code", "tokens"}
    assert (second["level"], second["event"], second["tokens"]) == ("info", ENTRY.event, 3)


def test_json_has_the_time_in_utc_to_the_millisecond() -> None:
    out = io.StringIO()
    emit = open_log(LogConfig(format="json"), out)
    before = datetime.now(UTC)
    emit(ENTRY)
    emit(ENTRY)
    after = datetime.now(UTC)
    shown = [json.loads(line)["at"] for line in out.getvalue().splitlines()]
    times = [datetime.fromisoformat(each) for each in shown]
    assert [each.isoformat(timespec="milliseconds") for each in times] == shown
    moment = timedelta(milliseconds=1)
    assert before - moment <= times[0] <= times[1] <= after


def test_text_leaves_out_facts_without_a_value() -> None:
    out = io.StringIO()
    open_log(LogConfig(format="text"), out)(ENTRY)
    assert out.getvalue().strip().endswith("response.finished model=echo/echo tokens=3")


def test_a_line_is_bounded_and_says_what_was_left_out() -> None:
    out = io.StringIO()
    names = [f"param.unknown:f{number}" for number in range(500_000)]
    facts = {"text": "x" * 10_000_000, "names": names, "long": ["y" * 9_000] * 3, "short": ["z"]}
    open_log(LogConfig(format="json"), out)(Entry("response.diagnostics", "info", facts))
    line = json.loads(out.getvalue())
    assert len(out.getvalue()) < 30_000
    assert line["text"].endswith("x… (9,992,000 more characters)")
    assert (len(line["names"]), line["names"][-1]) == (101, "… (499,900 more)")
    assert (len(line["long"]), line["long"][-1]) == (2, "… (2 more)")
    assert line["short"] == ["z"]


@pytest.mark.parametrize(("out", "is_json"), [(io.StringIO(), True), (Terminal(), False)])
def test_auto_is_text_on_a_terminal_and_json_elsewhere(out: io.StringIO, is_json: bool) -> None:
    open_log(LogConfig(format="auto"), out)(ENTRY)
    assert out.getvalue().startswith("{") is is_json


RUN = {
    "request_id": "req_0199a49d0f4668778",
    "response_id": "resp_1",
    "client": "alice",
    "model": "gpt-5.5",
    "provider": "deepseek",
    "provider_model": "deepseek-v4-pro",
}
USED = {"input_tokens": 12_345, "output_tokens": 67, "cost_usd": 0.00123, "duration_ms": 1234.5}
OWN_NAME = {**RUN, "model": "echo/echo", "provider": "echo", "provider_model": "echo"}
SERVED = "gpt-5.5 → deepseek/deepseek-v4-pro"
WHY = {"code": "rate_limit", "reason": "slow\x1b[2J down", "duration_ms": 15.2}
REJECTION = {
    "request_id": "req_f4668778",
    "client": "",
    "model": "",
    "http_status": 404,
    "code": "not_found",
    "reason": "No route for GET /x.",
}
LINES = [
    (
        Entry("response.finished", "info", {**RUN, "status": "completed", **USED}),
        f"ok          alice  {SERVED}  12,345→67 tok  $0.0012  1.2 s  …f4668778",
    ),
    (
        Entry("response.finished", "info", {**OWN_NAME, "status": "incomplete", "duration_ms": 1}),
        "incomplete  alice  echo → echo  0→0 tok  1 ms  …f4668778",
    ),
    (
        Entry("upstream.failed", "warning", {**RUN, **WHY}),
        f"failed      alice  {SERVED}  rate_limit: slow\\x1b[2J down  15 ms  …f4668778",
    ),
    (
        Entry("attempt.failed", "warning", {**RUN, "attempt": 1, **WHY}),
        f"attempt     alice  {SERVED}  attempt 1  rate_limit: slow\\x1b[2J down  …f4668778",
    ),
    (
        Entry("mcp.call_failed", "warning", {**RUN, "server": "sky", "tool": "\x1b[2J", **WHY}),
        f"mcp call    alice  {SERVED}  sky/\\x1b[2J  rate_limit: slow\\x1b[2J down  …f4668778",
    ),
    (
        Entry("response.cancelled", "info", {**RUN, "duration_ms": 2000.0}),
        f"cancelled   alice  {SERVED}  the client disconnected after 2.0 s  …f4668778",
    ),
    (
        Entry("request.rejected", "info", REJECTION),
        "404         -  not_found: No route for GET /x.  …f4668778",
    ),
    (Entry("store.available", "info", {"store": "s"}), "info    store.available store=s"),
]


@table(("entry", "line"), LINES, ids=lambda each: getattr(each, "event", ""))
def test_people_at_a_terminal_get_one_short_line_per_request(entry: Entry, line: str) -> None:
    out = Terminal()
    open_log(LogConfig(), out)(entry)
    [shown] = without_styles(out.getvalue()).splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d ", shown[:9])
    assert shown[9:].strip() == line


def test_a_failure_has_one_line_on_a_terminal_the_one_with_its_reason() -> None:
    out = Terminal()
    emit = open_log(LogConfig(), out)
    emit(Entry("response.finished", "warning", {**RUN, "status": "failed", **USED}))
    emit(Entry("response.diagnostics", "info", {**RUN, "diagnostics": ["x"]}))
    assert out.getvalue() == ""


def test_level_debug_shows_every_fact_on_a_terminal() -> None:
    out = Terminal()
    open_log(LogConfig(level="debug"), out)(LINES[0][0])
    assert "response.finished request_id=req_0199a49d0f4668778" in without_styles(out.getvalue())


def test_entries_below_the_level_are_not_written() -> None:
    out = io.StringIO()
    emit = open_log(LogConfig(level="warning", format="json"), out)
    emit(ENTRY)
    emit(Entry("upstream.failed", "warning", {}))
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == [
        "upstream.failed"
    ]


def test_the_log_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    open_log(LogConfig(format="json"))(ENTRY)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "response.finished" in captured.err


def test_text_shows_escape_sequences_and_newlines_of_others_as_characters() -> None:
    out = io.StringIO()
    facts = {"model": "m\x1b[2J\n12:00:00 error forged", "user_agent": "\x9b31m\r", "tokens": 3}
    open_log(LogConfig(format="text"), out)(Entry("request.rejected", "info", facts))
    assert len(out.getvalue().splitlines()) == 1
    assert "model=m\\x1b[2J\\n12:00:00 error forged" in out.getvalue()
    assert "user_agent=\\x9b31m\\r tokens=3" in out.getvalue()


def test_an_entry_without_facts_is_a_line_of_json() -> None:
    out = io.StringIO()
    open_log(LogConfig(format="json"), out)(Entry("gateway.ready", "info", {}))
    line = json.loads(out.getvalue())
    assert (line["level"], line["event"]) == ("info", "gateway.ready")


def test_a_line_of_json_is_written_to_the_file_behind_a_stream_at_once() -> None:
    file = io.BytesIO()
    out = io.TextIOWrapper(file, encoding="ascii")
    open_log(LogConfig(format="json"), out)(Entry("request.rejected", "info", {"reason": "ä"}))
    assert json.loads(file.getvalue())["reason"] == "ä"
    assert file.getvalue().endswith(b"}\n")
