"""Calls of other types than function: announced when their type is certain, and kept so."""

from __future__ import annotations

from operator import methodcaller

from antiphon.core.deltas import Delta, Finish, ToolCall
from tests.support.machines import Document, documents, machine, run
from tests.support.stream_validator import check
from tests.support.tables import table

DONE = Finish("tool_calls")
FAIL = methodcaller("fail", "The line is dead.")


def output(*deltas: Delta) -> list[Document]:
    """The items of an answer that was completed."""
    events = run([*deltas, DONE])
    check(events)
    response = events[-1]["response"]
    assert response["status"] == "completed", response["error"]
    items: list[Document] = response["output"]
    return items


def types(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


@table(
    ("name", "arguments", "kind"),
    [
        ("shell", '{"commands":["ls"]}', "shell_call"),
        ("local_shell", '{"command":["ls"]}', "local_shell_call"),
        ("apply_patch", '{"operation":{"type":"delete_file","path":"a"}}', "apply_patch_call"),
        ("tool_search", '{"query":"x"}', "tool_search_call"),
    ],
)
def test_a_call_of_a_special_type_is_announced_when_its_type_is_certain(
    name: str, arguments: str, kind: str
) -> None:
    half = len(arguments) // 2
    subject = machine()
    subject.start()
    assert subject.feed(ToolCall(0, "a", name, arguments[:half])) == []
    assert subject.feed(ToolCall(0, arguments=arguments[half:])) == []
    events = documents(subject.finish("stop"))
    assert types(events) == ["output_item.added", "output_item.done", "completed"]
    assert [event["item"]["type"] for event in events[:2]] == [kind, kind]
    assert [event["item"]["status"] for event in events[:2]] == ["in_progress", "completed"]


def test_arguments_that_do_not_parse_make_a_function_call() -> None:
    events = run([ToolCall(0, "a", "shell", '{"cmd":"ls"}'), DONE])
    check(events)
    [item] = events[-1]["response"]["output"]
    assert (item["type"], item["name"], item["arguments"]) == (
        "function_call",
        "shell",
        '{"cmd":"ls"}',
    )


@table("arguments", ['{"text":"ls"}', '{"input":1}', "ls", ""])
def test_a_custom_call_without_an_input_field_is_a_function_call(arguments: str) -> None:
    [item] = output(*(ToolCall(0, "a", "exec", letter) for letter in arguments or [""]))
    assert (item["type"], item["arguments"]) == ("function_call", arguments)


def test_a_custom_call_is_announced_when_its_input_field_opens() -> None:
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "a", "exec"))
    assert [subject.feed(ToolCall(0, arguments=piece)) for piece in ("{", ' "inp', 'ut":')] == [
        []
    ] * 3
    [added] = documents(subject.feed(ToolCall(0, arguments='"')))
    assert added["item"]["type"] == "custom_tool_call"
    [delta] = documents(subject.feed(ToolCall(0, arguments="ls")))
    assert delta["delta"] == "ls"


def test_a_custom_call_whose_input_is_not_the_first_field_is_announced_at_its_end() -> None:
    [item] = output(ToolCall(0, "a", "exec", '{"why":"x","input":"ls"}'))
    assert (item["type"], item["input"]) == ("custom_tool_call", "ls")


def test_collected_custom_input_is_sent_in_one_piece() -> None:
    events = run(
        [
            ToolCall(0, "a", "get_weather", "{"),
            ToolCall(1, "b", "exec", '{"input":"l'),
            ToolCall(1, arguments='s\\n"'),
            ToolCall(0, arguments="}"),
            ToolCall(1, arguments="}"),
            DONE,
        ]
    )
    check(events)
    deltas = [e["delta"] for e in events if e["type"].endswith("input.delta")]
    assert deltas == ["ls\n"]


def test_freeform_input_needs_no_json_wrapper() -> None:
    [item] = output(
        ToolCall(0, "a", "grep", "a {", kind="custom"), ToolCall(0, arguments="b", kind="custom")
    )
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "grep", "a {b")


def test_freeform_input_that_looks_like_json_ends_only_when_the_provider_ends_it() -> None:
    [first, second] = output(
        ToolCall(0, "a", "grep", "{}", kind="custom"),
        ToolCall(1, "b", "get_weather", "{}"),
        ToolCall(0, arguments=" or []", kind="custom"),
    )
    assert (first["input"], second["arguments"]) == ("{} or []", "{}")


def test_freeform_input_without_an_id_is_announced_at_its_end() -> None:
    [item] = output(ToolCall(0, None, "grep", "a {", kind="custom"))
    assert (item["type"], item["input"]) == ("custom_tool_call", "a {")
    assert item["id"].startswith("ctc_")


def test_a_call_has_the_requested_name_and_namespace() -> None:
    [item] = output(ToolCall(0, "a", "mcp__files__read", "{}"))
    assert (item["name"], item["namespace"]) == ("read", "mcp__files")


@table(
    ("call", "kind"),
    [
        (ToolCall(0, "a", "local_shell", '{"command": ["l'), "function_call"),
        (ToolCall(0, None, "local_shell", '{"command": ["ls"]}'), "function_call"),
        (ToolCall(0, None, "freeform", "x = ", "custom"), "custom_tool_call"),
    ],
)
def test_a_call_that_a_failure_cuts_before_its_type_is_certain_is_kept_as_incomplete(
    call: ToolCall, kind: str
) -> None:
    subject = machine()
    events = documents(
        subject.start() + subject.feed(call) + subject.tool_end(0, complete=False) + FAIL(subject)
    )
    check(events)
    [item] = events[-1]["response"]["output"]
    assert (item["type"], item["status"], bool(item["call_id"])) == (kind, "incomplete", True)
    assert "output_item.done" not in types(events)


def test_a_call_that_a_failure_cuts_before_its_name_is_certain_is_left_out() -> None:
    subject = machine()
    events = subject.start() + subject.feed(ToolCall(0, "a", "local_sh")) + FAIL(subject)
    assert documents(events)[-1]["response"]["output"] == []
