"""From bytes to events: one start, and one terminal event, whatever happens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Delta,
    Failure,
    Finish,
    Reasoning,
    Refusal,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.faults.fault import protocol_fault, timeout_fault
from antiphon.core.stream.finish import CANCELLED
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation, is_blocked
from antiphon.dialects.dialect import resolve
from antiphon.errors import InvalidTransition
from antiphon.framing.limits import ResponseLimits
from tests.support.machines import (
    Document,
    ScriptedDecoder,
    ScriptedDialect,
    Step,
    documents,
    machine,
    run_steps,
)
from tests.support.stream_validator import check
from tests.support.tables import table

NO_REASON = "The provider returned no finish reason. Send the request again."


def chat_translation() -> Translation:
    return Translation(machine(), Source(resolve("chat")))


def answer_whole(*deltas: Any) -> list[Document]:
    """The events of a whole answer of these deltas."""
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder([deltas]))))
    events = documents(translation.feed_whole(b"{}"))
    check(events)
    return events


def kinds(events: list[Document]) -> list[str]:
    return [item["type"] for item in events[-1]["response"]["output"]]


# Limits

LIMITS = ResponseLimits(
    stream_bytes=50, text_chars=5, reasoning_chars=5, argument_chars=20, calls=2, items=3
)
TOO_LARGE: dict[str, list[Delta]] = {
    "stream_bytes": [Text("")] * 51,
    "text_chars": [Text("abc"), Text("def")],
    "text_chars ": [Text("abc"), Refusal("def")],
    "reasoning_chars": [Reasoning("abc"), Reasoning("def", "summary")],
    "argument_chars": [ToolCall(0, "call_0", "f", "["), ToolCall(0, arguments="1," * 10)],
    "calls": [ToolCall(n, f"call_{n}", "f", "{}") for n in range(3)],
    "items": [Text("a"), Reasoning("b"), Text("c"), Reasoning("d")],
}


def limited_translation(*steps: Step) -> Translation:
    limited = machine(limits=LIMITS)
    return Translation(limited, Source(ScriptedDialect(ScriptedDecoder(steps))), limits=LIMITS)


@table("limit", TOO_LARGE)
def test_a_stream_beyond_a_limit_fails_with_one_terminal_event(limit: str) -> None:
    translation = limited_translation(*[[delta] for delta in TOO_LARGE[limit]])
    events = [event for _ in TOO_LARGE[limit] for event in translation.feed(b"x")]
    check(documents(events))
    assert translation.machine.fault is not None
    assert (translation.machine.fault.code, translation.machine.fault.retryable) == (
        "response_too_large",
        False,
    )
    assert f"[limits] {limit.strip()} =" in translation.machine.fault.message
    assert not translation.feed(b"more") + translation.close()


@table("limit", [name for name in TOO_LARGE if name != "stream_bytes"])
def test_a_whole_answer_beyond_a_limit_fails(limit: str) -> None:
    translation = limited_translation(TOO_LARGE[limit])
    check(documents(translation.feed_whole(b"{}")))
    assert translation.machine.fault is not None
    assert translation.machine.fault.code == "response_too_large"


def test_an_answer_up_to_every_limit_is_accepted() -> None:
    call = ToolCall(0, "c", "f", "1" * 19)
    translation = limited_translation([Text("abcde"), Reasoning("abcde"), call, Finish("stop")])
    events = documents(translation.feed(b"x" * 50) + translation.close())
    assert events[-1]["type"] == "response.completed"


def test_a_line_beyond_the_limit_fails_before_it_is_complete() -> None:
    translation = Translation(
        machine(), Source(resolve("chat")), limits=ResponseLimits(frame_bytes=100)
    )
    events = documents(translation.feed(b"data: " + b"x" * 101))
    assert [event["type"] for event in events][-1] == "response.failed"
    assert translation.machine.fault is not None
    assert translation.machine.fault.code == "response_too_large"


def test_a_cancelled_answer_ends_once() -> None:
    translation = chat_translation()
    events = documents(translation.finish(CANCELLED))
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.incomplete",
    ]
    assert events[-1]["response"]["status"] == "cancelled"
    assert translation.machine.has_ended
    assert translation.finish(CANCELLED) == translation.close() == []


# Streams


def test_no_events_before_the_provider_sends_something() -> None:
    translation = chat_translation()
    assert translation.feed(b": waiting\n\n") == translation.feed(b"data: {") == []
    assert not translation.machine.has_ended
    events = documents(translation.feed(b'"choices":[{"delta":{"content":"a"}}]}\n\n'))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]


def test_an_answer_may_start_before_its_provider_sends_anything() -> None:
    translation = chat_translation()
    events = translation.start()
    assert [event["type"] for event in documents(events)] == [
        "response.created",
        "response.in_progress",
    ]
    assert translation.start() == []
    documents_seen = documents(events + translation.close())
    check(documents_seen)


def test_the_model_is_the_one_that_answers_if_the_request_named_none() -> None:
    translation = Translation(
        machine(model=""), Source(ScriptedDialect(ScriptedDecoder([[Start("answering")]])))
    )
    [created, _] = documents(translation.feed(b"x"))
    assert created["response"]["model"] == "answering"


def test_a_filter_that_leaves_no_output_blocks_the_response() -> None:
    """{"finishReason": "SAFETY"}, and nothing else: usage may still come."""
    steps: list[Step] = [[Start("m")], [Finish("SAFETY")], [Usage(7, 0)]]
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder(steps))))
    blocked = [is_blocked(translation)]
    events = []
    for _ in steps:
        events += translation.feed(b"x")
        blocked.append(is_blocked(translation))
    events += translation.close()
    assert blocked == [False, False, True, True]
    fault = translation.machine.fault
    assert fault is not None
    assert (fault.type, fault.code, fault.retryable) == ("content_blocked", "SAFETY", False)
    last = documents(events)[-1]["response"]
    assert (last["status"], last["usage"]["input_tokens"]) == ("failed", 7)


def test_a_filter_leaves_the_output_that_came_before_it() -> None:
    [*_, last] = answer_whole(Text("Once"), Finish("SAFETY"))
    assert last["type"] == "response.incomplete"
    assert last["response"]["output_text"] == "Once"


def test_an_empty_stream_fails() -> None:
    events = documents(chat_translation().close())
    check(events)
    assert events[-1]["response"]["error"]["message"] == NO_REASON


def test_the_end_marker_ends_the_answer_before_the_connection_closes() -> None:
    translation = chat_translation()
    translation.feed(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n')
    assert (translation.machine.pending_finish is not None, translation.machine.has_ended) == (
        True,
        False,
    )
    [*_, last] = documents(translation.feed(b"data: [DONE]\n\n"))
    assert last["type"] == "response.completed"
    assert translation.machine.has_ended
    assert translation.machine.fault is None
    assert translation.close() == []


def test_the_end_marker_counts_even_without_the_end_of_its_line() -> None:
    translation = chat_translation()
    translation.feed(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n')
    assert translation.feed(b"data: [DONE]") == []
    assert documents(translation.close())[-1]["type"] == "response.completed"


def test_what_follows_the_end_marker_is_not_read() -> None:
    translation = chat_translation()
    chunk = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    events = documents(translation.feed(chunk + b"data: [DONE]\n\n" + chunk))
    check(events)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "a"


def test_deltas_from_closing_the_decoder_are_used() -> None:
    events = run_steps([[Text("a")]], machine(), [Text("b"), Finish("stop")])
    check(events)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "ab"


def test_a_failure_at_the_close_of_a_decoder_is_the_end() -> None:
    events = run_steps([[Text("a")]], machine(), [Failure(protocol_fault("x")), Text("b")])
    check(events)
    assert events[-1]["type"] == "response.failed"


def test_deltas_after_a_failure_are_ignored() -> None:
    steps: list[Step] = [[Text("a"), Failure(protocol_fault("x")), Text("b")], [Text("c")]]
    events = run_steps(steps, machine())
    check(events)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "a"


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (ValueError("secret"), "internal_error", "api_error"),
        (InvalidTransition("odd"), "invalid_transition", "protocol"),
    ],
)
def test_after_an_exception_the_earlier_events_are_kept(
    error: Exception, code: str, kind: str
) -> None:
    translation = Translation(
        machine(), Source(ScriptedDialect(ScriptedDecoder([[Text("a")], error])))
    )
    events = documents(translation.feed(b"x") + translation.feed(b"x"))
    check(events)
    assert translation.machine.fault is not None
    assert (translation.machine.fault.code, translation.machine.fault.type) == (code, kind)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "a"
    assert "secret" not in json.dumps(events)


def test_a_call_that_was_not_finished_fails_the_answer() -> None:
    steps: list[Step] = [[ToolCall(0, "a", "get_weather", "{"), Finish("stop")]]
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder(steps))))
    events = documents(translation.feed(b"x") + translation.close())
    check(events)
    assert translation.machine.fault is not None
    assert translation.machine.fault.code == "incomplete_tool_call"
    [call] = events[-1]["response"]["output"]
    assert call["status"] == "incomplete"


@pytest.mark.parametrize("fed", [False, True])
def test_a_failure_from_outside_ends_the_answer(fed: bool) -> None:
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder([[Text("a")]]))))
    events = translation.feed(b"x") if fed else []
    events += translation.fail(timeout_fault("idle"))
    check(documents(events))
    assert translation.machine.fault == timeout_fault("idle")
    assert translation.fail(timeout_fault("idle")) == []


# Whole answers


@table(
    ("deltas", "expected"),
    [
        ([Finish("stop")], ["message"]),
        ([Text(""), Finish("stop")], ["message"]),
        ([Refusal(""), Finish("stop")], ["message"]),
        ([Reasoning("a"), Finish("stop")], ["reasoning", "message"]),
        ([Reasoning("a"), Finish("length")], ["reasoning"]),
        ([Text("a"), Finish("stop")], ["message"]),
        ([Refusal("a"), Finish("stop")], ["message"]),
        ([ToolCall(0, "a", "f", "{}"), Finish("stop")], ["function_call"]),
        (
            [Reasoning("a"), ToolCall(0, "a", "f", "{}"), Text("b"), Finish("stop")],
            ["reasoning", "function_call", "message"],
        ),
    ],
)
def test_a_complete_whole_answer_has_a_message_unless_it_only_calls(
    deltas: list[Any], expected: list[str]
) -> None:
    assert kinds(answer_whole(*deltas)) == expected


def test_an_empty_whole_answer_fails_like_a_stream() -> None:
    events = answer_whole()
    assert events[-1]["response"]["error"]["message"] == NO_REASON
    assert kinds(events) == []


def test_a_whole_answer_that_is_an_error_has_no_output() -> None:
    events = answer_whole(Failure(protocol_fault("x")))
    assert kinds(events) == []


def test_a_whole_answer_that_breaks_its_decoder_is_a_failure() -> None:
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder([KeyError("x")]))))
    events = documents(translation.feed_whole(b"{}"))
    check(events)
    assert events[-1]["type"] == "response.failed"


# Leaked markup


LEAKY: list[Step] = [[Text("<think>Hm.</think>Hel"), Text("lo"), Finish("stop")]]


def test_leaked_markup_is_taken_out_of_a_stream() -> None:
    translation = Translation(
        machine(), Source(ScriptedDialect(ScriptedDecoder(LEAKY)), guards=["think"])
    )
    events = documents(translation.feed(b"x") + translation.close())
    check(events)
    assert kinds(events) == ["reasoning", "message"]


def test_leaked_markup_is_taken_out_of_a_whole_answer() -> None:
    events = documents(
        Translation(
            machine(), Source(ScriptedDialect(ScriptedDecoder(LEAKY)), guards=["think"])
        ).feed_whole(b"{}")
    )
    check(events)
    assert kinds(events) == ["reasoning", "message"]


def test_without_guards_text_stays_as_it_is() -> None:
    events = documents(
        Translation(machine(), Source(ScriptedDialect(ScriptedDecoder(LEAKY)))).feed_whole(b"{}")
    )
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "<think>Hm.</think>Hello"


def test_text_that_turns_out_to_be_no_markup_is_released_at_the_end_of_the_stream() -> None:
    decoder = ScriptedDecoder([[Start("m"), Text("<th")]], [Finish("stop")])
    translation = Translation(machine(), Source(ScriptedDialect(decoder), ["think"]))
    started = translation.feed(b"x")
    assert len(started) == 2, "only the start of the response"
    events = documents(started + translation.close())
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "<th"
