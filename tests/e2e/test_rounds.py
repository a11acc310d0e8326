"""Later rounds of an answer with busy, broken, silent and disconnecting providers.

Whatever happens to a question that the gateway asks on its own, the client sees one response.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig, ModelConfig, TimeoutConfig
from tests.support.failing_providers import error
from tests.support.rounds import (
    ONCE,
    READ,
    SEARCH,
    TEXT_FORMAT,
    ULM,
    call_delta,
    error_in_body,
    item_types,
    output_text,
    read_call,
    reasoning_delta,
    round_script,
    rounds_gateway,
    search_call,
    search_statuses,
    streamed_and_whole,
    text_delta,
)
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.session import Turn
from tests.support.traces import read_trace
from tests.support.upstream import DONE, Connection, ReceivedRequest, Script, chunk, frame, usage

LOOKED = round_script(call_delta(search_call()))
ANSWER = round_script(text_delta("It rains [1]."))
ANTHROPIC = ScriptedAnthropic()


def break_after(*frames: bytes) -> Script:
    """A connection that breaks after the response head and these frames."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        streams = request.body.get("stream")
        await connection.head(content_type="text/event-stream" if streams else "application/json")
        for each in frames if streams else ():
            await connection.send(each)
        connection.cut()

    return script


async def hang_up(request: ReceivedRequest, connection: Connection) -> None:
    connection.cut()


BUSY: dict[str, Script] = {
    "503": error(503),
    "429": error(429, "Slow down.", retry_after=1),
    "an error in place of an answer": error_in_body(),
    "nobody there": hang_up,
    "a head": break_after(),
    "an empty word": break_after(chunk({"role": "assistant", "content": ""})),
    "no answer at all": round_script(finish="", counted=False),
}


async def silence(request: ReceivedRequest, connection: Connection) -> None:
    await connection.wait_disconnected()


async def break_after_output(request: ReceivedRequest, connection: Connection) -> None:
    """Break the connection after the first output."""
    streams = request.body.get("stream")
    await connection.head(content_type="text/event-stream" if streams else "application/json")
    await connection.send(chunk({"content": "It ra"}) if streams else b'{"choices": [')
    connection.cut()


# --- asked again ----------------------------------------------------------------------------------


@streamed_and_whole
@pytest.mark.parametrize("busy", [name for name in BUSY if name != "no answer at all"])
async def test_a_later_round_is_retried(tmp_path: Path, busy: str, stream: bool) -> None:
    async with rounds_gateway(tmp_path, LOOKED, BUSY[busy], ANSWER) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH])
        first, second, third = setup.request_bodies
        assert setup.waiting_requests == 0
    assert second == third
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert answer.response["status"] == "completed"
    assert item_types(answer.response) == ["web_search_call", "message"]
    assert answer.response["usage"]["total_tokens"] == 20


@streamed_and_whole
async def test_every_round_has_attempts_of_its_own(tmp_path: Path, stream: bool) -> None:
    rounds = [error(503), LOOKED, error(503), ANSWER]
    policy = AttemptConfig(max_attempts=2, backoff_s=0.1)
    async with rounds_gateway(tmp_path, *rounds, attempts=policy) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH])
        assert len(setup.request_bodies) == 4
    assert output_text(answer.response) == "It rains [1]."


@streamed_and_whole
async def test_attempts_at_a_later_round_are_limited(tmp_path: Path, stream: bool) -> None:
    policy = AttemptConfig(max_attempts=3, backoff_s=0.1)
    async with rounds_gateway(tmp_path, LOOKED, *[error(503)] * 9, attempts=policy) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH])
        assert len(setup.request_bodies) == 4
        assert setup.waiting_requests == 0
    assert (answer.status, answer.response["status"]) == (200, "failed")
    assert search_statuses(answer.response) == ["completed"]


@streamed_and_whole
async def test_a_fallback_with_another_dialect_takes_over(tmp_path: Path, stream: bool) -> None:
    """Text and search results of the first provider are encoded in the second one's dialect."""

    async def other(request: ReceivedRequest, connection: Connection) -> None:
        turn = Turn(2, thought="Rain.", text="It rains [1].")
        await connection.head(content_type="text/event-stream")
        await connection.send(ANTHROPIC.stream_bytes(turn))
        await connection.end()

    text_round = round_script(
        reasoning_delta("Hm."), text_delta("Let me see."), call_delta(search_call())
    )
    async with rounds_gateway(
        tmp_path, text_round, *[error(503)] * 5, fallback=[other], spare_kind="anthropic"
    ) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH], model="up/m")
        [asked] = setup.fallback.requests
        assert setup.waiting_requests == 0
    assert answer.response["status"] == "completed"
    assert output_text(answer.response) == "Let me see.It rains [1]."
    assert ANTHROPIC.problems(asked.raw) == []
    assert "[1] Rain" in str(asked.body["messages"][-1])


@streamed_and_whole
async def test_a_fallback_with_another_output_strategy_does_not_take_over(
    tmp_path: Path, stream: bool
) -> None:
    """The started answer is decoded by the first plan: here, without an answer tool."""
    weaker = ModelConfig(formats=["text"])
    taken = round_script(call_delta(("c1", "answer_trip", ULM)))
    async with rounds_gateway(
        tmp_path,
        round_script(text_delta("Ulm.")),
        *[error(503)] * 9,
        fallback=[taken],
        spare_model=weaker,
    ) as setup:
        answer = await setup.post_request(stream=stream, text=TEXT_FORMAT, model="up/m")
        assert setup.fallback.requests == []
    assert item_types(answer.response) == ["message"]
    assert answer.response["status"] == "failed"


# --- not asked again ------------------------------------------------------------------------------


async def test_a_later_round_that_breaks_off_after_output_fails_the_answer(
    tmp_path: Path,
) -> None:
    async with rounds_gateway(tmp_path, LOOKED, break_after_output, ANSWER) as setup:
        answer = await setup.post_request(stream=True, tools=[SEARCH])
        assert len(setup.request_bodies) == 2
        assert setup.waiting_requests == 0
    assert answer.response["status"] == "failed"
    assert output_text(answer.response) == "It ra"


async def test_a_truncated_body_of_a_later_round_is_retried(tmp_path: Path) -> None:
    async with rounds_gateway(tmp_path, LOOKED, break_after_output, ANSWER) as setup:
        answer = await setup.post_request(stream=False, tools=[SEARCH])
    assert output_text(answer.response) == "It rains [1]."


@pytest.mark.parametrize("together", [True, False])
async def test_an_error_after_withheld_text_ends_the_answer_once(
    tmp_path: Path, together: bool
) -> None:
    """At any chunk boundaries."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        parts = [chunk({"content": "{"}), frame({"error": {"message": "No.", "code": 503}})]
        for each in [b"".join(parts)] if together else parts:
            await connection.send(each)
        await connection.end()

    rounds = [round_script(text_delta("Ulm.")), script, round_script(text_delta(ULM))]
    async with rounds_gateway(
        tmp_path, *rounds, model=ModelConfig(formats=["text"], tools=False)
    ) as setup:
        answer = await setup.post_request(stream=True, text=TEXT_FORMAT)
        assert setup.waiting_requests == 0
    assert answer.events[-1]["type"] == "response.failed"


@streamed_and_whole
@pytest.mark.parametrize("busy", BUSY)
async def test_a_draft_is_sent_if_no_correction_arrives(
    tmp_path: Path, busy: str, stream: bool
) -> None:
    async with rounds_gateway(
        tmp_path, round_script(text_delta("Ulm.")), *[BUSY[busy]] * 9, attempts=ONCE
    ) as setup:
        answer = await setup.post_request(stream=stream, text=TEXT_FORMAT)
        actual = [
            each for facts in setup.log_of("response.diagnostics") for each in facts["diagnostics"]
        ]
        assert setup.waiting_requests == 0
    assert output_text(answer.response) == "Ulm."
    assert answer.response["status"] == "failed"
    assert "format.repaired:text.format" not in actual


@streamed_and_whole
async def test_an_empty_answer_stays_empty_if_the_reminder_fails(
    tmp_path: Path, stream: bool
) -> None:
    """A reasoning-only answer whose reminder fails is completed, with usage."""
    silent = round_script(reasoning_delta("Hm."), counted=False)
    async with rounds_gateway(tmp_path, silent, *[error(500)] * 9, attempts=ONCE) as setup:
        answer = await setup.post_request(stream=stream)
        [actual] = setup.log_of("response.diagnostics")
    assert answer.response["status"] == "completed"
    assert output_text(answer.response) == ""
    assert item_types(answer.response) == ["message"]
    assert answer.response["usage"]["input_tokens"] > 0
    assert "answer.empty:output" in actual["diagnostics"]


# --- time -----------------------------------------------------------------------------------------


@streamed_and_whole
async def test_a_later_round_has_to_begin_in_time(tmp_path: Path, stream: bool) -> None:
    timeouts = TimeoutConfig(first_token_s=0.2) if stream else TimeoutConfig(total_s=0.4)
    async with rounds_gateway(tmp_path, LOOKED, silence, timeouts=timeouts, attempts=ONCE) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH])
        assert setup.waiting_requests == 0
    assert answer.response["status"] == "failed"
    what = "sent no output" if stream else "in the time allowed"
    assert what in answer.error["message"]


async def test_a_later_round_that_stops_sending_fails_the_answer(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(chunk({"content": "It"}))
        await connection.wait_disconnected()

    async with rounds_gateway(
        tmp_path, LOOKED, script, timeouts=TimeoutConfig(idle_s=0.2)
    ) as setup:
        answer = await setup.post_request(stream=True, tools=[SEARCH])
    assert "stopped sending output" in answer.error["message"]
    assert output_text(answer.response) == "It"


def stay_open(*frames: bytes) -> Script:
    """Send the whole answer, then keep the connection open."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in frames:
            await connection.send(each)
        await connection.wait_disconnected()

    return script


async def test_a_connection_left_open_after_a_round_does_not_end_the_answer(tmp_path: Path) -> None:
    """The gateway closes it after the grace period and runs the search."""
    open_ended = stay_open(chunk(call_delta(search_call())), chunk({}, "tool_calls"))
    async with rounds_gateway(tmp_path, open_ended, ANSWER) as setup:
        answer = await setup.post_request(stream=True, tools=[SEARCH])
    assert answer.response["status"] == "completed"
    assert output_text(answer.response) == "It rains [1]."


async def test_the_grace_period_of_a_round_does_not_apply_to_the_next(tmp_path: Path) -> None:
    """A round that arrives with one read leaves no timer running."""

    async def at_once(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        parts = [
            chunk(call_delta(search_call(call_id="c2"))),
            chunk({}, "tool_calls"),
            usage(),
            DONE,
        ]
        await connection.send(b"".join(parts))
        await connection.end()

    async def send_slowly(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(chunk({"content": "It "}))
        await connection.pause(2.4)
        for each in (chunk({"content": "rains."}), chunk({}, "stop"), DONE):
            await connection.send(each)
        await connection.end()

    async with rounds_gateway(tmp_path, LOOKED, at_once, send_slowly) as setup:
        answer = await setup.post_request(stream=True, tools=[SEARCH])
    assert (answer.response["status"], output_text(answer.response)) == ("completed", "It rains.")


# --- what is left behind --------------------------------------------------------------------------


@streamed_and_whole
async def test_the_trace_shows_every_round_and_every_attempt(tmp_path: Path, stream: bool) -> None:
    async with rounds_gateway(
        tmp_path, LOOKED, error_in_body("Too busy."), ANSWER, payloads=True
    ) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH])
    detail = read_trace(setup.trace, answer.headers["x-request-id"])
    assert [attempt.number for attempt in detail.attempts] == [1, 2, 3]
    assert [bool(attempt.fault_type) for attempt in detail.attempts] == [False, True, False]
    failed, raw = [each for each in detail.streams if each.kind == "raw"]
    assert (failed.attempt, b"Too busy." in failed.blob) == (2, True)
    assert b"web_search" in raw.blob
    assert b"It rains" in raw.blob
    assert b"Too busy." not in raw.blob
    offsets = [offset for offset, _ in raw.offsets]
    assert offsets == sorted(offsets)


@streamed_and_whole
async def test_later_rounds_are_in_the_log_and_the_trace(tmp_path: Path, stream: bool) -> None:
    rounds = [
        round_script(reasoning_delta("Hm.")),
        round_script(text_delta("Ulm.")),
        round_script(text_delta(ULM)),
    ]
    async with rounds_gateway(
        tmp_path, *rounds, model=ModelConfig(formats=["text"], tools=False)
    ) as setup:
        answer = await setup.post_request(stream=stream, text=TEXT_FORMAT)
        [actual] = setup.log_of("response.diagnostics")
    codes = {each.partition(":")[0] for each in actual["diagnostics"]}
    assert {"answer.reminded", "format.repaired"} <= codes
    detail = read_trace(setup.trace, answer.headers["x-request-id"])
    assert {each.code for each in detail.diagnostics} == codes
    if not stream:
        assert "format.repaired" in answer.headers["antiphon-diagnostics"]


@streamed_and_whole
async def test_all_rounds_are_stored_and_can_be_continued(tmp_path: Path, stream: bool) -> None:
    rounds = [
        round_script(reasoning_delta("Hm."), text_delta("Let me see."), call_delta(search_call())),
        round_script(text_delta("I need the file."), call_delta(read_call())),
        round_script(text_delta("It rains, says the file [1].")),
    ]
    tools = [SEARCH, READ]
    async with rounds_gateway(tmp_path, *rounds) as setup:
        first = await setup.post_request(stream=stream, tools=tools)
        last = ["message", "function_call"] if stream else ["function_call", "message"]
        assert item_types(first.response) == ["message", "web_search_call", *last]
        output = {"type": "function_call_output", "call_id": "call_r", "output": "wet"}
        more: dict[str, Any] = {"previous_response_id": first.response["id"], "input": [output]}
        later = await setup.post_request(stream=stream, tools=tools, **more)
        _, second, third = setup.request_bodies
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert [each["role"] for each in third["messages"][-2:]] == ["assistant", "tool"]
    assert output_text(later.response) == "It rains, says the file [1]."


@streamed_and_whole
async def test_usage_is_not_estimated_if_any_round_reported_it(
    tmp_path: Path, stream: bool
) -> None:
    rounds = [LOOKED, round_script(text_delta("It rains."), counted=False)]
    async with rounds_gateway(tmp_path, *rounds) as setup:
        answer = await setup.post_request(stream=stream, tools=[SEARCH])
        assert setup.log_of("response.diagnostics") == []
    assert answer.response["usage"]["total_tokens"] == 10


@streamed_and_whole
async def test_estimated_usage_counts_only_rounds_that_answered(
    tmp_path: Path, stream: bool
) -> None:
    rounds = [
        round_script(call_delta(search_call()), counted=False),
        round_script(text_delta("So."), counted=False),
    ]
    totals = []
    for busy in ([], [error(503)]):
        async with rounds_gateway(tmp_path, rounds[0], *busy, rounds[1]) as setup:
            answer = await setup.post_request(stream=stream, tools=[SEARCH], store=False)
        totals.append(answer.response["usage"]["input_tokens"])
    assert totals[0] == totals[1] > 0
