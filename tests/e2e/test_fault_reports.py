"""The operator reads why a response failed: in the log and in the trace, without any content."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from antiphon.engine.runtime import Runtime
from antiphon.stages.log import Entry
from tests.support.client_answers import Answer, Document, post_request
from tests.support.failing_providers import (
    STREAMED_AND_WHOLE,
    answer_hello,
    error,
    failover_gateway,
)
from tests.support.gateways import running, settings
from tests.support.traces import read_trace
from tests.support.upstream import (
    DONE,
    HELLO,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    send_frames,
    send_json,
    upstream,
)

WORDS = "top_k is not a parameter of this model"
KEY = "sk-upstream"
SECRET_PROMPT = "My sister Ottilie hides the spare key below the third flower pot."
ERROR = {"message": WORDS, "type": "bad_request", "code": "E1"}


def find_entries(log: list[Entry], event: str) -> list[Entry]:
    return [entry for entry in log if entry.event == event]


def find_entry(log: list[Entry], event: str) -> Entry:
    [entry] = find_entries(log, event)
    return entry


async def send(tmp_path: Path, script: Script, body: Document) -> tuple[list[Entry], Answer]:
    """Send a request to a gateway before a scripted provider; return its log and the answer."""
    async with upstream(script) as server, running(settings(tmp_path, server.url)) as gateway:
        answer = await post_request(gateway, {"model": "up/m", **body})
    return gateway.log, answer


@STREAMED_AND_WHOLE
async def test_the_log_and_the_trace_have_the_provider_s_own_words(
    tmp_path: Path, stream: bool
) -> None:
    log, answer = await send(
        tmp_path,
        send_json(400, {"error": ERROR}, x_request_id="up-77"),
        {"input": "Hello?", "stream": stream},
    )
    entry = find_entry(log, "upstream.failed")
    assert entry.level == "warning"
    assert entry.facts["reason"] == WORDS
    assert entry.facts["upstream_request_id"] == "up-77"
    assert (entry.facts["provider"], entry.facts["provider_model"]) == ("up", "m")
    assert WORDS.encode() not in answer.body
    detail = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"])
    assert [each.reason for each in detail.errors] == [WORDS]
    assert [each.reason for each in detail.attempts] == [WORDS]


async def test_an_error_in_mid_stream_has_its_words_in_log_and_trace(tmp_path: Path) -> None:
    log, answer = await send(
        tmp_path,
        send_frames([*HELLO, frame({"error": ERROR})]),
        {"input": "Hello?", "stream": True},
    )
    assert find_entry(log, "upstream.failed").facts["reason"] == WORDS
    detail = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"])
    assert [each.reason for each in detail.errors] == [WORDS]


async def test_a_fault_that_a_fallback_hides_from_the_client_is_in_log_and_trace(
    tmp_path: Path,
) -> None:
    async with failover_gateway(
        tmp_path, one=[error(401, "no such key"), error(401, "expired key")]
    ) as failover:
        answer = await failover.post_request()
    assert answer.status == 200
    failed = find_entries(failover.gateway.log, "attempt.failed")
    assert [entry.level for entry in failed] == ["warning", "warning"]
    assert [entry.facts["reason"] for entry in failed] == ["no such key", "expired key"]
    detail = read_trace(failover.trace, answer.headers["x-request-id"])
    assert [each.reason for each in detail.attempts] == ["no such key", "expired key", None]


async def _break_after_the_finish_reason(request: ReceivedRequest, connection: Connection) -> None:
    await connection.head()
    for data in (*HELLO, chunk({}, "stop")):
        await connection.send(data)
    connection.reset()


async def test_a_loss_after_the_finish_reason_leaves_a_debug_entry(tmp_path: Path) -> None:
    log, answer = await send(
        tmp_path, _break_after_the_finish_reason, {"input": "Hello?", "stream": True}
    )
    assert answer.response["status"] == "completed"
    entry = find_entry(log, "upstream.lost_after_finish")
    assert entry.level == "debug"
    assert (entry.facts["provider"], entry.facts["fault"]) == ("up", "connection")
    assert "reason" in entry.facts


def echo_request(status: int = 400) -> Script:
    """A hostile provider: quotes the whole request and the key, in several ways."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        prompt = request.body["messages"][-1]["content"]
        said = (
            f"Cannot serve this: {request.raw.decode()} | {prompt} | {prompt.upper()} |"
            f" {prompt!r} | {json.dumps(prompt)} | {prompt[20:50]} | {prompt.replace(' ', '_')} |"
            f" with {request.headers['authorization']}"
        )
        await send_json(status, {"error": {"message": said, "param": prompt, "code": prompt}})(
            request, connection
        )

    return script


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_a_provider_that_echoes_prompt_and_key_puts_neither_into_log_or_trace(
    tmp_path: Path, stream: bool, status: int
) -> None:
    log, answer = await send(
        tmp_path, echo_request(status), {"input": SECRET_PROMPT, "stream": stream}
    )
    written = repr(log) + repr(read_trace(tmp_path / "trace.db", answer.headers["x-request-id"]))
    assert "Cannot serve this" in written
    for word in ("Ottilie", "OTTILIE", "flower", "FLOWER", "spare", "third", KEY):
        assert word not in written


async def test_the_provider_s_words_are_cut_to_two_kilobytes(tmp_path: Path) -> None:
    log, _ = await send(tmp_path, error(400, "no " * 5000), {"input": "Hello?"})
    reason = find_entry(log, "upstream.failed").facts["reason"]
    assert reason.startswith("no no no")
    assert len(reason.encode()) <= 2048


async def test_a_refused_connection_names_provider_address_and_errno(tmp_path: Path) -> None:
    async with upstream(answer_hello) as server:
        pass  # nothing listens at its address any more
    address = server.url.removeprefix("http://").removesuffix("/v1")
    async with running(settings(tmp_path, server.url)) as gateway:
        answer = await post_request(gateway, {"model": "up/m", "input": "Hello?"})
    expected = f"up: connection refused (errno 111) at {address}"
    assert find_entry(gateway.log, "upstream.failed").facts["reason"] == expected
    [row] = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"]).errors
    assert row.reason == expected


async def _cut_after_two_chunks(request: ReceivedRequest, connection: Connection) -> None:
    await connection.head()
    for data in HELLO:
        await connection.send(data)
    connection.reset()


async def test_a_cut_stream_says_after_how_many_chunks_and_seconds(tmp_path: Path) -> None:
    log, answer = await send(tmp_path, _cut_after_two_chunks, {"input": "Hello?", "stream": True})
    message = answer.response["error"]["message"]
    assert "closed the connection before its response was complete" in message
    assert "of its chunks had arrived" in message
    entry = find_entry(log, "upstream.failed")
    assert (entry.facts["fault"], entry.facts["code"]) == ("connection", "stream_cut")
    assert re.search(r"after \d+ chunks? in \d+\.\d s at 127", entry.facts["reason"])
    [row] = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"]).errors
    assert (row.code, row.message) == ("stream_cut", message)
    assert row.chunks is not None
    assert row.stream_ms is not None
    assert f"{row.chunks} of its chunks" in message


async def test_everything_that_a_provider_said_is_in_the_trace_and_its_bodies_in_the_raw_lane(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    violation = {"field": "contents[0]", "description": "must not be empty"}
    said = {"message": "Invalid argument", "code": 400, "status": "INVALID_ARGUMENT"}
    said["details"] = [{"fieldViolations": [violation]}]
    scripts = [
        send_json(503, {"error": {"message": "busy", "type": "overloaded"}}, x_request_id="up-1"),
        send_json(400, {"error": said}, x_request_id="up-2"),
    ]
    async with failover_gateway(tmp_path, scripts, fallbacks={}, payloads=True) as failover:
        answer = await failover.post_request()
    id = answer.headers["x-request-id"]
    detail = read_trace(failover.trace, id)
    first, second = detail.attempts
    assert (first.upstream_type, first.upstream_request_id) == ("overloaded", "up-1")
    assert (second.upstream_type, second.upstream_param) == ("INVALID_ARGUMENT", "contents[0]")
    assert second.reason == "Invalid argument\ncontents[0]: must not be empty"
    assert second.upstream_body is not None
    assert json.loads(second.upstream_body) == {"error": said}
    raw = [each for each in detail.streams if each.kind == "raw"]
    assert [each.attempt for each in raw] == [1, 2]
    assert main(["trace", "show", id, "--stream", "raw", "--file", str(failover.trace)]) == 0
    assert capsysbinary.readouterr().out == b"\n".join(each.blob for each in raw)
    assert b"must not be empty" in raw[1].blob


async def test_the_provider_s_finish_reason_is_in_log_and_trace(tmp_path: Path) -> None:
    frames = [*HELLO, chunk({}, "length"), DONE]
    log, answer = await send(tmp_path, send_frames(frames), {"input": "Hello?", "stream": True})
    assert answer.response["status"] == "incomplete"
    assert find_entry(log, "response.finished").facts["finish_reason"] == "length"
    finish = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"]).finish
    assert finish is not None
    assert finish.finish_reason == "length"


# --- failures without a fault ---------------------------------------------------------------------

SCHEMA = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("frames", "more", "reason", "code"),
    [
        ([*HELLO, DONE], {}, "finish reason", "server_error"),
        (
            [*HELLO, chunk({}, "stop"), DONE],
            {"text": {"format": SCHEMA}},
            "not valid JSON",
            "bridge.response.invalid_output_format",
        ),
    ],
    ids=["no finish reason", "contract not met"],
)
async def test_a_failure_without_a_fault_has_its_reason_in_log_and_trace(
    tmp_path: Path, frames: list[bytes], more: dict[str, Any], reason: str, code: str
) -> None:
    log, answer = await send(
        tmp_path, send_frames(frames), {"input": "Hello?", "stream": True, **more}
    )
    assert answer.response["status"] == "failed"
    entry = find_entry(log, "response.failed")
    assert (entry.level, entry.facts["provider"], entry.facts["provider_model"]) == (
        "warning",
        "up",
        "m",
    )
    assert entry.facts["response_id"] == answer.response["id"]
    assert reason in entry.facts["reason"]
    assert entry.facts["code"] == find_entry(log, "response.finished").facts["error"] == code
    assert answer.response["error"]["code"] == "server_error"  # the API has no other
    detail = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"])
    [found] = detail.errors
    assert (found.code, reason in found.message) == (code, True)
    assert (found.provider, found.model) == ("up", "m")


async def test_a_message_of_the_gateway_is_whole_also_if_the_request_has_its_words(
    tmp_path: Path,
) -> None:
    said = "Say: The output is not valid JSON, which `text.format` requires."
    frames = [*HELLO, chunk({}, "stop"), DONE]
    request = {"input": said, "stream": True, "text": {"format": SCHEMA}}
    log, answer = await send(tmp_path, send_frames(frames), request)
    message = answer.response["error"]["message"]
    assert "not valid JSON, which `text.format` requires" in message
    assert find_entry(log, "response.failed").facts["reason"] == message
    [error] = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"]).errors
    assert error.message == message


# --- bugs of the gateway --------------------------------------------------------------------------


def broken_runtime(prefix: str, message: str) -> Runtime:
    """A runtime with a defect: it makes no ids with this prefix."""
    make_id = Runtime().new_id

    def new_id(wanted: str) -> str:
        if wanted == prefix:
            raise LookupError(message)
        return make_id(wanted)

    return Runtime(new_id=new_id)


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("prefix", ["msg", "resp"], ids=["in the stream", "before the request"])
async def test_a_bug_of_ours_is_logged_as_one_and_never_blamed_on_the_provider(
    tmp_path: Path, stream: bool, prefix: str
) -> None:
    runtime = broken_runtime(prefix, f"no id for {SECRET_PROMPT} with {KEY}")
    async with upstream(answer_hello) as server:
        config = settings(tmp_path, server.url)
        async with running(config, runtime) as gateway:
            body = {"model": "up/m", "input": SECRET_PROMPT, "stream": stream}
            answers = [await post_request(gateway, body) for _ in range(6)]
            healths = list(gateway.engine.services.health)
    entries = find_entries(gateway.log, "gateway.bug")
    assert len(entries) == len(answers)
    assert {entry.level for entry in entries} == {"error"}
    facts = entries[0].facts
    assert (facts["error"], facts["message"]) == (
        "LookupError",
        "no id for «request text». with «redacted»",
    )
    assert any("in broken_runtime.<locals>.new_id" in line for line in facts["traceback"])
    assert find_entries(gateway.log, "upstream.failed") == []
    assert find_entries(gateway.log, "attempt.failed") == []
    assert "defect of the gateway" in answers[0].error["message"]
    assert all(each.breaker.is_closed for each in healths)
    assert all(each.pick_key("m") is not None for each in healths)
