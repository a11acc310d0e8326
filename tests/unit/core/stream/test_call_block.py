"""Tool call blocks: every way in which real providers send a call."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import Delta, Finish, Text, ToolCall, ToolEnd
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.phase import Phase
from antiphon.core.tools.identity import ToolIdentity
from antiphon.errors import IncompleteToolCall, InvalidToolArguments, InvalidTransition
from tests.support.machines import TOOLS, Document, documents, machine, run, run_steps
from tests.support.stream_validator import check
from tests.support.tables import table

DONE = Finish("tool_calls")


def output(*deltas: Delta, tools: tuple[ToolIdentity, ...] = TOOLS) -> list[Document]:
    """The items of an answer that was completed."""
    events = run([*deltas, DONE], tools)
    check(events)
    response = events[-1]["response"]
    assert response["status"] == "completed", response["error"]
    items: list[Document] = response["output"]
    return items


def calls(*deltas: Delta, tools: tuple[ToolIdentity, ...] = TOOLS) -> list[tuple[Any, ...]]:
    return [
        (item["call_id"], item["name"], item["arguments"]) for item in output(*deltas, tools=tools)
    ]


def types(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


# Identity, name and arguments in pieces


@table(
    "deltas",
    [
        [ToolCall(0, "a", "get_weather", '{"x":1}')],
        [ToolCall(0, "a", "get_weather"), ToolCall(0, arguments='{"x":1}')],
        [ToolCall(0, "a", "get_weather", '{"x"'), ToolCall(0, "a", "get_weather", ":1}")],
        [ToolCall(0, "a", "get_weather", '{"x"'), ToolCall(0, "", "", ":1}")],
        [ToolCall(0, None, "get_weather", '{"x":1}'), ToolCall(0, "a")],
        [ToolCall(0, None, "get_weather"), ToolCall(0, "a", None, '{"x":1}')],
        [ToolCall(0, "a"), ToolCall(0, None, "get_weather"), ToolCall(0, arguments='{"x":1}')],
        [ToolCall(0, "a", None, '{"x"'), ToolCall(0, None, "get_weather", ":1}")],
        [ToolCall(0, "a", "get_"), ToolCall(0, None, "weather"), ToolCall(0, arguments='{"x":1}')],
        [ToolCall(0, "a", "get_"), ToolCall(0, None, "get_weather", '{"x":1}')],
        [ToolCall(0, "a", "get_weather", '{"x":1}'), ToolCall(0, arguments="")],
        [ToolCall(0, "a", "get_weather", '{"x":1}'), ToolEnd(0)],
    ],
)
@table("tools", [TOOLS, ()], ids=["declared", "unknown"])
def test_a_call_is_the_same_however_it_is_cut(
    deltas: list[Delta], tools: tuple[ToolIdentity, ...]
) -> None:
    assert calls(*deltas, tools=tools) == [("a", "get_weather", '{"x":1}')]


@table(
    ("names", "declared", "expected"),
    [
        (("x", "x"), ("x", "xx"), "x"),
        (("co", "co"), ("coco",), "coco"),
        (("a", "ab"), ("aab",), "aab"),
        (("get", "get"), (), "get"),
        (("get", "get_x"), (), "get_x"),
        (("get", "_x"), (), "get_x"),
        (("get", "_x", "get_x"), ("get_x",), "get_x"),
    ],
)
def test_declared_tools_distinguish_a_name_in_pieces_from_a_repeated_name(
    names: tuple[str, ...], declared: tuple[str, ...], expected: str
) -> None:
    pieces = [ToolCall(0, None, name) for name in names]
    tools = tuple(ToolIdentity(name, name) for name in declared)
    assert calls(*pieces, ToolCall(0, "a", None, "{}"), tools=tools) == [("a", expected, "{}")]


def test_a_declared_name_is_announced_at_once() -> None:
    subject = machine()
    subject.start()
    [added] = documents(subject.feed(ToolCall(0, "a", "get_weather")))
    assert added["item"]["name"] == "get_weather"


def test_an_unknown_name_is_announced_when_the_arguments_begin() -> None:
    subject = machine(())
    subject.start()
    assert subject.feed(ToolCall(0, "a", "get_")) == []
    assert subject.feed(ToolCall(0, None, "weather")) == []
    added, delta = documents(subject.feed(ToolCall(0, arguments="{")))
    assert added["item"]["name"] == "get_weather"
    assert delta["delta"] == "{"


def test_a_call_without_an_id_gets_a_generated_one() -> None:
    [first, second] = output(ToolCall(0, None, "f", "{}"), ToolCall(1, "", "f", "{}"))
    assert {first["call_id"], second["call_id"]} == {"call_n1", "call_n2"}


def test_two_calls_with_the_same_id_get_different_ids() -> None:
    items = output(
        ToolCall(0, "a", "f", '{"x"'),
        ToolCall(1, "a", "g", "{"),
        ToolCall(1, "a", None, "}"),
        ToolCall(0, "a", None, ":1}"),
    )
    assert [(item["name"], item["arguments"]) for item in items] == [("f", '{"x":1}'), ("g", "{}")]
    assert [item["call_id"] for item in items] == ["a", "call_n1"]


def test_a_late_id_that_another_call_has_is_replaced() -> None:
    items = output(ToolCall(0, "a", "f", "{}"), ToolCall(1, None, "g", "{}"), ToolCall(1, "a"))
    assert [item["call_id"] for item in items] == ["a", "call_n1"]


@table("arguments", ["", " "])
def test_empty_arguments_stay_empty_by_default(arguments: str) -> None:
    assert calls(ToolCall(0, "a", "get_weather", arguments)) == [("a", "get_weather", arguments)]


@table("tools", [TOOLS, ()], ids=["declared", "unknown"])
def test_empty_arguments_can_be_filled(tools: tuple[ToolIdentity, ...]) -> None:
    steps: list[list[Delta]] = [[ToolCall(0, "a", "get_weather"), DONE]]
    events = run_steps(steps, machine(tools, empty_arguments="{}"))
    check(events)
    [item] = events[-1]["response"]["output"]
    assert item["arguments"] == "{}"


def test_empty_freeform_input_is_never_filled() -> None:
    steps: list[list[Delta]] = [[ToolCall(0, "a", "exec", kind="custom"), DONE]]
    [item] = run_steps(steps, machine(empty_arguments="{}"))[-1]["response"]["output"]
    assert item["input"] == ""


# Parallel and interleaved


def test_parallel_calls_are_streamed_one_after_the_other() -> None:
    events = run(
        [
            ToolCall(0, "a", "get_weather", '{"x":1}'),
            ToolCall(1, "b", "get_weather", '{"y":2}'),
            DONE,
        ]
    )
    check(events)
    assert (
        types(events)[2:-1]
        == [
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ]
        * 2
    )


def test_interleaved_calls_keep_their_arguments_apart() -> None:
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "a", "get_weather", '{"x"'))
    assert subject.feed(ToolCall(1, "b", "get_weather", '{"y"')) == []
    assert subject.feed(ToolCall(1, arguments=":2}")) == []
    event_types = types(documents(subject.feed(ToolCall(0, arguments=":1}"))))
    assert event_types == [
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
    ]
    [first, second] = documents(subject.finish("stop"))[-1]["response"]["output"]
    assert (first["arguments"], second["arguments"]) == ('{"x":1}', '{"y":2}')


def test_text_after_an_open_call_waits_for_it() -> None:
    [call, message] = output(
        ToolCall(0, "a", "get_weather", '{"x"'), Text("so"), ToolCall(0, arguments=":1}"), Text("!")
    )
    assert call["arguments"] == '{"x":1}'
    assert message["content"][0]["text"] == "so!"


def test_white_space_after_a_closed_call_makes_no_event() -> None:
    items = calls(
        ToolCall(0, "a", "f", "{}"), ToolCall(1, "b", "f", "{}"), ToolCall(0, "a", "f", " \n")
    )
    assert items == [("a", "f", "{}"), ("b", "f", "{}")]


@table(
    ("late", "names"),
    [
        (ToolCall(0, "z"), "toolCall.id"),
        (ToolCall(0, None, "other"), "toolCall.name"),
    ],
)
def test_a_delta_that_contradicts_its_call_is_an_error(late: ToolCall, names: str) -> None:
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "a", "get_weather", "{"))
    before = subject.snapshot
    with pytest.raises(InvalidTransition, match=names):
        subject.feed(late)
    assert subject.snapshot == before
    subject.feed(ToolCall(0, arguments="}"))
    assert documents(subject.finish("stop"))[-1]["type"] == "response.completed"


@table("late", [ToolCall(0, arguments="}"), ToolCall(0, None, "other")])
def test_a_closed_call_cannot_continue(late: ToolCall) -> None:
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "a", "get_weather", "{}"))
    subject.feed(Text("x"))
    before = subject.snapshot
    with pytest.raises(InvalidTransition, match=r"toolCall\.index"):
        subject.feed(late)
    assert subject.snapshot == before


def test_a_call_that_the_provider_ends_is_closed_at_once() -> None:
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "a", "get_weather"))
    [*_, done] = documents(subject.feed(ToolEnd(0)))
    assert (done["type"], done["item"]["status"]) == ("response.output_item.done", "completed")


def test_a_waiting_call_remembers_its_end() -> None:
    [_, second] = output(
        ToolCall(0, "a", "get_weather", "{"),
        ToolCall(1, "b", "get_weather"),
        ToolEnd(1),
        ToolCall(0, arguments="}"),
    )
    assert second["status"] == "completed"


def test_an_unknown_call_cannot_end() -> None:
    subject = machine()
    subject.start()
    with pytest.raises(InvalidTransition, match="call 3 does not exist"):
        subject.tool_end(3)
    assert subject.phase is Phase.IN_PROGRESS


# Truncated


CUT: list[list[Delta]] = [
    [ToolCall(0, "a", "get_weather", '{"x"')],
    [ToolCall(0, "a", "get_weather", '{"x"'), ToolEnd(0)],
    [ToolCall(0, "a", "get_weather", '{"x":1}'), ToolEnd(0, complete=False)],
    [ToolCall(0, "a", "exec", '{"input":"ls')],
    [ToolCall(0, "a", "shell", '{"commands":["ls"]')],
    [ToolCall(0, "a", None, "{}")],
    [ToolCall(0, "a", "get_weather", "{"), ToolCall(1, "b", "get_weather", "{}")],
]


@table("deltas", CUT)
def test_a_truncated_call_is_an_error_that_changes_nothing(deltas: list[Delta]) -> None:
    subject = machine()
    subject.start()
    for delta in deltas:
        subject.feed(delta)
    before = (subject.phase, subject.snapshot)
    with pytest.raises(IncompleteToolCall) as raised:
        subject.finish("stop")
    assert raised.value.code == "bridge.stream.incomplete_tool_call"
    assert (subject.phase, subject.snapshot) == before


@table("reason", ["stop", "length", "surprise", None])
@table("deltas", CUT)
def test_a_truncated_call_is_never_completed(deltas: list[Delta], reason: str | None) -> None:
    events = run([*deltas, Finish(reason)])
    check(events)
    assert events[-1]["response"]["status"] == ("incomplete" if reason == "length" else "failed")
    cut = [item for item in events[-1]["response"]["output"] if item["call_id"] == "a"]
    assert all(item["status"] == "incomplete" for item in cut)
    done = [e["item"]["call_id"] for e in events if e["type"].endswith("output_item.done")]
    if reason != "length":
        assert "a" not in done, "clients run a call as soon as it is done"


def test_a_call_cut_by_the_token_limit_is_done_as_incomplete() -> None:
    events = run([ToolCall(0, "a", "get_weather", '{"x"'), Finish("length")])
    check(events)
    [done] = [event for event in events if event["type"].endswith("output_item.done")]
    assert done["item"]["status"] == "incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


@table("reason", ["length", "surprise", "network_error"])
def test_a_complete_call_is_done_even_if_the_response_was_cut(reason: str) -> None:
    events = run([ToolCall(0, "a", "get_weather", "{}"), Finish(reason)])
    check(events)
    [item] = events[-1]["response"]["output"]
    assert item["status"] == "completed"
    assert "response.output_item.done" in [event["type"] for event in events]


def test_a_call_without_a_name_is_left_out_of_a_cut_response() -> None:
    events = run([Text("x"), ToolCall(0, "a", None, "{}"), Finish("length")])
    check(events)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]


# Arguments that are not JSON

STRICT = (ToolIdentity("f", "f", strict=True),)
BROKEN = '{"on"{"on":true}:true}'


@table("end", [DONE, ToolEnd(0), Text("a")])
def test_arguments_that_are_not_json_are_reported(end: Delta) -> None:
    subject = machine()
    documents(subject.start())
    for delta in (ToolCall(0, "a", "get_weather", BROKEN), end):
        subject.feed(delta)
    events = documents(subject.finish("stop"))
    [diagnostic] = subject.diagnostics
    assert (diagnostic.code, diagnostic.subject) == ("call.invalid", "get_weather")
    assert events[-1]["response"]["output"][0]["arguments"] == BROKEN


@table("arguments", ['{"x":1}', "{}", r'{"x":"\ud83d"}', "[1]", '"text"', "7"])
def test_arguments_that_are_json_are_not_reported(arguments: str) -> None:
    subject = machine(STRICT)
    subject.start()
    subject.feed(ToolCall(0, "a", "f", arguments))
    assert subject.finish("stop")
    assert subject.diagnostics == []


@table("end", [ToolEnd(0), Text("a"), DONE])
@table("arguments", [BROKEN, '{"x": NaN}', "{'x': 1}"])
def test_a_strict_call_that_is_not_json_is_never_done(end: Delta, arguments: str) -> None:
    subject = machine(STRICT)
    events = subject.start() + subject.feed(ToolCall(0, "a", "f", arguments))

    def run_to_the_end() -> None:
        subject.feed(end)
        subject.finish("stop")

    with pytest.raises(InvalidToolArguments):
        run_to_the_end()
    events += subject.fail(protocol_fault("x", "invalid_tool_arguments"))
    seen = documents(events)
    check(seen)
    assert "output_item.done" not in types(seen)
    item = seen[-1]["response"]["output"][0]
    assert (item["status"], item["arguments"]) == ("incomplete", arguments)


def test_the_type_of_a_call_with_broken_arguments_is_function_and_is_reported() -> None:
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "a", "shell", BROKEN))
    subject.finish("stop")
    assert [each.code for each in subject.diagnostics] == ["call.invalid"]


@table(
    ("env", "reported"),
    [
        ('{"A": "1"}', []),
        ("{}", []),
        ("null", []),
        ('{"A": 1, "B": "2"}', ["call.degraded"]),
        ('["A=1"]', ["call.degraded"]),
    ],
)
def test_a_call_with_environment_values_that_are_not_strings_is_a_reported_function_call(
    env: str, reported: list[str]
) -> None:
    subject = machine()
    subject.start()
    arguments = '{"command": ["ls"], "env": %s}' % env  # noqa: UP031, braces of JSON
    subject.feed(ToolCall(0, "a", "local_shell", arguments))
    [item] = documents(subject.finish("stop"))[-1]["response"]["output"]
    assert item["type"] == ("function_call" if reported else "local_shell_call")
    assert [each.code for each in subject.diagnostics] == reported
