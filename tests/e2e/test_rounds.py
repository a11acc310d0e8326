"""Later rounds of an answer meet what first ones meet: busy, broken, silent and dying providers.

Whatever happens to a question that the gateway asks on its own, the client sees one response.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig, ModelConfig, TimeoutConfig
from tests.support.failing_providers import error
from tests.support.rounds import (
    FORM,
    ONCE,
    READ,
    SEARCH,
    ULM,
    both_ways,
    calls,
    error_inside,
    found,
    read,
    round_of,
    said,
    search,
    shape,
    stage,
    thought,
    words,
)
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.session import Turn
from tests.support.traces import read_trace
from tests.support.upstream import DONE, Asked, Line, Script, chunk, frame, usage

LOOKED = round_of(calls(search()))
ANSWER = round_of(said("It rains [1]."))
ANTHROPIC = ScriptedAnthropic()


def breaking(*frames: bytes) -> Script:
    """A line that breaks after a head and these."""

    async def script(asked: Asked, line: Line) -> None:
        streams = asked.body.get("stream")
        await line.head(content_type="text/event-stream" if streams else "application/json")
        for each in frames if streams else ():
            await line.send(each)
        line.cut()

    return script


async def hang_up(asked: Asked, line: Line) -> None:
    line.cut()


BUSY: dict[str, Script] = {
    "503": error(503),
    "429": error(429, "Slow down.", retry_after=1),
    "an error in place of an answer": error_inside(),
    "nobody there": hang_up,
    "a head": breaking(),
    "an empty word": breaking(chunk({"role": "assistant", "content": ""})),
    "no answer at all": round_of(finish="", counted=False),
}


async def silence(asked: Asked, line: Line) -> None:
    await line.until_gone()


async def half_a_word(asked: Asked, line: Line) -> None:
    """Dies after its first words."""
    streams = asked.body.get("stream")
    await line.head(content_type="text/event-stream" if streams else "application/json")
    await line.send(chunk({"content": "It ra"}) if streams else b'{"choices": [')
    line.cut()


# --- asked again ----------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("busy", [name for name in BUSY if name != "no answer at all"])
async def test_a_later_round_is_asked_again(tmp_path: Path, busy: str, stream: bool) -> None:
    async with stage(tmp_path, LOOKED, BUSY[busy], ANSWER) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH])
        first, second, third = scene.asked
        assert scene.under_way == 0
    assert second == third
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert answer.response["status"] == "completed"
    assert shape(answer.response) == ["web_search_call", "message"]
    assert answer.response["usage"]["total_tokens"] == 20


@both_ways
async def test_every_round_has_attempts_of_its_own(tmp_path: Path, stream: bool) -> None:
    rounds = [error(503), LOOKED, error(503), ANSWER]
    policy = AttemptConfig(max_attempts=2, backoff_s=0.1)
    async with stage(tmp_path, *rounds, attempts=policy) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH])
        assert len(scene.asked) == 4
    assert words(answer.response) == "It rains [1]."


@both_ways
async def test_attempts_at_a_later_round_come_to_an_end(tmp_path: Path, stream: bool) -> None:
    policy = AttemptConfig(max_attempts=3, backoff_s=0.1)
    async with stage(tmp_path, LOOKED, *[error(503)] * 9, attempts=policy) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH])
        assert len(scene.asked) == 4
        assert scene.under_way == 0
    assert (answer.status, answer.response["status"]) == (200, "failed")
    assert found(answer.response) == ["completed"]


@both_ways
async def test_a_provider_of_another_kind_takes_over(tmp_path: Path, stream: bool) -> None:
    """What the first one said and found is told to it in its own words."""

    async def other(asked: Asked, line: Line) -> None:
        turn = Turn(2, thought="Rain.", text="It rains [1].")
        await line.head(content_type="text/event-stream")
        await line.send(ANTHROPIC.stream_bytes(turn))
        await line.end()

    spoken = round_of(thought("Hm."), said("Let me see."), calls(search()))
    async with stage(
        tmp_path, spoken, *[error(503)] * 5, spare=[other], spare_kind="anthropic"
    ) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH], model="up/m")
        [asked] = scene.spare.asked
        assert scene.under_way == 0
    assert answer.response["status"] == "completed"
    assert words(answer.response) == "Let me see.It rains [1]."
    assert ANTHROPIC.problems(asked.raw) == []
    assert "[1] Rain" in str(asked.body["messages"][-1])


@both_ways
async def test_a_provider_that_is_asked_in_another_way_does_not_take_over(
    tmp_path: Path, stream: bool
) -> None:
    """The answer that has begun is read by the first one's rules: here, without an answer tool."""
    weaker = ModelConfig(formats=["text"])
    taken = round_of(calls(("c1", "answer_trip", ULM)))
    async with stage(
        tmp_path, round_of(said("Ulm.")), *[error(503)] * 9, spare=[taken], spare_model=weaker
    ) as scene:
        answer = await scene.ask(stream=stream, text=FORM, model="up/m")
        assert scene.spare.asked == []
    assert shape(answer.response) == ["message"]
    assert answer.response["status"] == "failed"


# --- not asked again ------------------------------------------------------------------------------


async def test_a_later_round_that_dies_after_its_first_word_fails_the_answer(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, LOOKED, half_a_word, ANSWER) as scene:
        answer = await scene.ask(stream=True, tools=[SEARCH])
        assert len(scene.asked) == 2
        assert scene.under_way == 0
    assert answer.response["status"] == "failed"
    assert words(answer.response) == "It ra"


async def test_half_a_whole_answer_of_a_later_round_is_asked_for_again(tmp_path: Path) -> None:
    async with stage(tmp_path, LOOKED, half_a_word, ANSWER) as scene:
        answer = await scene.ask(stream=False, tools=[SEARCH])
    assert words(answer.response) == "It rains [1]."


@pytest.mark.parametrize("together", [True, False])
async def test_a_word_that_is_held_back_and_an_error_are_one_end(
    tmp_path: Path, together: bool
) -> None:
    """However the network cuts them."""

    async def script(asked: Asked, line: Line) -> None:
        await line.head()
        parts = [chunk({"content": "{"}), frame({"error": {"message": "No.", "code": 503}})]
        for each in [b"".join(parts)] if together else parts:
            await line.send(each)
        await line.end()

    rounds = [round_of(said("Ulm.")), script, round_of(said(ULM))]
    async with stage(tmp_path, *rounds, model=ModelConfig(formats=["text"], tools=False)) as scene:
        answer = await scene.ask(stream=True, text=FORM)
        assert scene.under_way == 0
    assert answer.events[-1]["type"] == "response.failed"


@both_ways
@pytest.mark.parametrize("busy", BUSY)
async def test_a_draft_is_told_if_no_better_one_can_be_had(
    tmp_path: Path, busy: str, stream: bool
) -> None:
    async with stage(tmp_path, round_of(said("Ulm.")), *[BUSY[busy]] * 9, attempts=ONCE) as scene:
        answer = await scene.ask(stream=stream, text=FORM)
        told = [
            each for facts in scene.log_of("response.diagnostics") for each in facts["diagnostics"]
        ]
        assert scene.under_way == 0
    assert words(answer.response) == "Ulm."
    assert answer.response["status"] == "failed"
    assert "format.repaired:text.format" not in told


@both_ways
async def test_an_answer_that_never_came_is_as_empty_as_it_was(
    tmp_path: Path, stream: bool
) -> None:
    """The model only thought, and cannot be reminded: that is complete, and costs something."""
    silent = round_of(thought("Hm."), counted=False)
    async with stage(tmp_path, silent, *[error(500)] * 9, attempts=ONCE) as scene:
        answer = await scene.ask(stream=stream)
        [told] = scene.log_of("response.diagnostics")
    assert answer.response["status"] == "completed"
    assert words(answer.response) == ""
    assert shape(answer.response) == ([] if stream else ["message"])
    assert answer.response["usage"]["input_tokens"] > 0
    assert "answer.empty:output" in told["diagnostics"]


# --- time -----------------------------------------------------------------------------------------


@both_ways
async def test_a_later_round_has_to_begin_in_time(tmp_path: Path, stream: bool) -> None:
    timeouts = TimeoutConfig(first_token_s=0.2) if stream else TimeoutConfig(total_s=0.4)
    async with stage(tmp_path, LOOKED, silence, timeouts=timeouts, attempts=ONCE) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH])
        assert scene.under_way == 0
    assert answer.response["status"] == "failed"
    what = "sent no output" if stream else "in the time allowed"
    assert what in answer.error["message"]


async def test_a_later_round_that_falls_silent_fails_the_answer(tmp_path: Path) -> None:
    async def script(asked: Asked, line: Line) -> None:
        await line.head()
        await line.send(chunk({"content": "It"}))
        await line.until_gone()

    async with stage(tmp_path, LOOKED, script, timeouts=TimeoutConfig(idle_s=0.2)) as scene:
        answer = await scene.ask(stream=True, tools=[SEARCH])
    assert "stopped sending output" in answer.error["message"]
    assert words(answer.response) == "It"


def lingering(*frames: bytes) -> Script:
    """Says everything, and then neither ends nor hangs up."""

    async def script(asked: Asked, line: Line) -> None:
        await line.head()
        for each in frames:
            await line.send(each)
        await line.until_gone()

    return script


async def test_a_line_that_stays_open_after_a_round_does_not_end_the_answer(tmp_path: Path) -> None:
    """It is hung up upon after a while, and the search is made all the same."""
    open_ended = lingering(chunk(calls(search())), chunk({}, "tool_calls"))
    async with stage(tmp_path, open_ended, ANSWER) as scene:
        answer = await scene.ask(stream=True, tools=[SEARCH])
    assert answer.response["status"] == "completed"
    assert words(answer.response) == "It rains [1]."


async def test_grace_of_one_round_is_not_counted_in_the_next(tmp_path: Path) -> None:
    """A round that comes whole with its first read leaves no timer behind."""

    async def at_once(asked: Asked, line: Line) -> None:
        await line.head()
        parts = [chunk(calls(search(call_id="c2"))), chunk({}, "tool_calls"), usage(), DONE]
        await line.send(b"".join(parts))
        await line.end()

    async def slowly(asked: Asked, line: Line) -> None:
        await line.head()
        await line.send(chunk({"content": "It "}))
        await line.pause(2.4)
        for each in (chunk({"content": "rains."}), chunk({}, "stop"), DONE):
            await line.send(each)
        await line.end()

    async with stage(tmp_path, LOOKED, at_once, slowly) as scene:
        answer = await scene.ask(stream=True, tools=[SEARCH])
    assert (answer.response["status"], words(answer.response)) == ("completed", "It rains.")


# --- what is left behind --------------------------------------------------------------------------


@both_ways
async def test_the_trace_shows_every_round_and_every_attempt(tmp_path: Path, stream: bool) -> None:
    async with stage(tmp_path, LOOKED, error_inside("Too busy."), ANSWER, payloads=True) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH])
    detail = read_trace(scene.trace, answer.headers["x-request-id"])
    assert [attempt.number for attempt in detail.attempts] == [1, 2, 3]
    assert [bool(attempt.fault_type) for attempt in detail.attempts] == [False, True, False]
    [raw] = [each for each in detail.streams if each.kind == "raw"]
    assert b"web_search" in raw.blob
    assert b"It rains" in raw.blob
    assert b"Too busy." not in raw.blob
    offsets = [offset for offset, _ in raw.offsets]
    assert offsets == sorted(offsets)


@both_ways
async def test_what_became_of_later_rounds_is_in_the_log_and_the_trace(
    tmp_path: Path, stream: bool
) -> None:
    rounds = [round_of(thought("Hm.")), round_of(said("Ulm.")), round_of(said(ULM))]
    async with stage(tmp_path, *rounds, model=ModelConfig(formats=["text"], tools=False)) as scene:
        answer = await scene.ask(stream=stream, text=FORM)
        [told] = scene.log_of("response.diagnostics")
    codes = {each.partition(":")[0] for each in told["diagnostics"]}
    assert {"answer.reminded", "format.repaired"} <= codes
    detail = read_trace(scene.trace, answer.headers["x-request-id"])
    assert {each.code for each in detail.diagnostics} == codes
    if not stream:
        assert "format.repaired" in answer.headers["antiphon-diagnostics"]


@both_ways
async def test_all_rounds_are_kept_and_can_be_continued(tmp_path: Path, stream: bool) -> None:
    rounds = [
        round_of(thought("Hm."), said("Let me see."), calls(search())),
        round_of(said("I need the file."), calls(read())),
        round_of(said("It rains, says the file [1].")),
    ]
    tools = [SEARCH, READ]
    async with stage(tmp_path, *rounds) as scene:
        first = await scene.ask(stream=stream, tools=tools)
        last = ["message", "function_call"] if stream else ["function_call", "message"]
        assert shape(first.response) == ["message", "web_search_call", *last]
        output = {"type": "function_call_output", "call_id": "call_r", "output": "wet"}
        more: dict[str, Any] = {"previous_response_id": first.response["id"], "input": [output]}
        later = await scene.ask(stream=stream, tools=tools, **more)
        _, second, third = scene.asked
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert [each["role"] for each in third["messages"][-2:]] == ["assistant", "tool"]
    assert words(later.response) == "It rains, says the file [1]."


@both_ways
async def test_costs_are_no_estimate_if_any_round_told_them(tmp_path: Path, stream: bool) -> None:
    rounds = [LOOKED, round_of(said("It rains."), counted=False)]
    async with stage(tmp_path, *rounds) as scene:
        answer = await scene.ask(stream=stream, tools=[SEARCH])
        assert scene.log_of("response.diagnostics") == []
    assert answer.response["usage"]["total_tokens"] == 10


@both_ways
async def test_an_estimate_counts_what_was_answered_and_nothing_else(
    tmp_path: Path, stream: bool
) -> None:
    rounds = [round_of(calls(search()), counted=False), round_of(said("So."), counted=False)]
    totals = []
    for busy in ([], [error(503)]):
        async with stage(tmp_path, rounds[0], *busy, rounds[1]) as scene:
            answer = await scene.ask(stream=stream, tools=[SEARCH], store=False)
        totals.append(answer.response["usage"]["input_tokens"])
    assert totals[0] == totals[1] > 0
