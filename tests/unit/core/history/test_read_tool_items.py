"""Reading of tool items: calls become function calls, results become readable text."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import (
    HistoryCode,
    ImagePart,
    MessageStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from tests.support.tables import table


def read(*items: Any) -> tuple[list[Step], list[Diagnostic]]:
    steps, diagnostics = read_items(
        items, inputs=frozenset({"text", "image"}), tool_output_images=False
    )
    return list(steps), list(diagnostics)


def call_of(item: Any) -> ToolCallStep:
    [step], diagnostics = read(item)
    assert diagnostics == []
    assert isinstance(step, ToolCallStep)
    return step


def answer_of(item: Any) -> ToolResultStep:
    [step], diagnostics = read(item)
    assert diagnostics == []
    assert isinstance(step, ToolResultStep)
    return step


def text_of(answer: ToolResultStep) -> str:
    return "\n".join(part.text for part in answer.parts if isinstance(part, TextPart))


# --- calls ----------------------------------------------------------------------------------------


def test_a_function_call_keeps_name_namespace_and_the_very_bytes_of_its_arguments() -> None:
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "namespace": "mcp__box",
        "arguments": '{"b": 1,  "a": "é"}',
        "status": "completed",
    }
    assert call_of(item) == ToolCallStep("call_1", "look", '{"b": 1,  "a": "é"}', "mcp__box")


@table(
    ("item", "name", "arguments"),
    [
        ({"type": "custom_tool_call", "name": "exec", "input": 'a"b'}, "exec", {"input": 'a"b'}),
        ({"type": "custom_tool_call", "name": "exec", "input": None}, "exec", {"input": ""}),
        ({"type": "custom_tool_call", "name": "exec", "input": [1]}, "exec", {"input": "[1]"}),
        (
            {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": None}},
            "shell",
            {"commands": ["ls"]},
        ),
        (
            {
                "type": "shell_call",
                "action": {"max_output_length": 9, "timeout_ms": 5, "commands": ["ls"]},
            },
            "shell",
            {"commands": ["ls"], "timeout_ms": 5, "max_output_length": 9},
        ),
        ({"type": "shell_call", "action": None}, "shell", {"commands": []}),
        (
            {
                "type": "local_shell_call",
                "action": {"type": "exec", "command": ["ls"], "env": {}, "working_directory": "/"},
            },
            "local_shell",
            {"command": ["ls"], "working_directory": "/"},
        ),
        (
            {"type": "local_shell_call", "action": {"command": ["ls"], "env": {"A": "b"}}},
            "local_shell",
            {"command": ["ls"], "env": {"A": "b"}},
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
            "apply_patch",
            {"operation": {"type": "delete_file", "path": "a"}},
        ),
        ({"type": "apply_patch_call", "operation": None}, "apply_patch", {"operation": {}}),
        (
            {"type": "tool_search_call", "arguments": {"query": "echo", "limit": 3}},
            "tool_search",
            {"query": "echo", "limit": 3},
        ),
        (
            {"type": "computer_call", "action": None, "actions": [{"type": "wait"}]},
            "computer",
            {"actions": [{"type": "wait"}]},
        ),
        ({"type": "program", "code": "1 + 1", "fingerprint": "f"}, "program", {"code": "1 + 1"}),
        ({"type": "function_call", "name": "", "arguments": "{}"}, "unknown", {}),
    ],
)
def test_a_call_of_any_tool_type_becomes_a_function_call(
    item: Any, name: str, arguments: dict[str, Any]
) -> None:
    call = call_of({"call_id": "call_1", **item})
    assert (call.call_id, call.name, json.loads(call.arguments)) == ("call_1", name, arguments)
    assert list(json.loads(call.arguments)) == list(arguments)


def test_a_call_without_an_id_is_told_apart_by_its_item_or_its_place() -> None:
    bare = {"type": "function_call", "name": "look", "arguments": "{}"}
    steps, _ = read(bare | {"id": "fc_1"}, bare | {"call_id": None, "id": ""})
    assert [step.call_id for step in steps if isinstance(step, ToolCallStep)] == ["fc_1", "call_1"]


@table("arguments", ["", "  ", "null", None])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    assert call_of({"type": "function_call", "name": "f", "arguments": arguments}).arguments == "{}"


@table("raw", ['{"a": ', "[1]", '"x"', "{'a': 1}", '{"a":' * 5000])
def test_arguments_that_are_no_object_are_wrapped_in_one(raw: str) -> None:
    [step], [diagnostic] = read({"type": "function_call", "name": "f", "arguments": raw})
    assert isinstance(step, ToolCallStep)
    assert json.loads(step.arguments) == {"_malformed": raw}
    assert diagnostic.code == HistoryCode.ARGUMENTS_MALFORMED
    assert diagnostic.param == "input[0]"


# --- answers --------------------------------------------------------------------------------------


@table(
    ("item", "text"),
    [
        ({"type": "function_call_output", "output": "21 degrees"}, "21 degrees"),
        (
            {
                "type": "function_call_output",
                "output": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_text", "text": "b"},
                ],
            },
            "a\nb",
        ),
        ({"type": "function_call_output", "output": ""}, "[no output]"),
        ({"type": "custom_tool_call_output", "output": None}, "[no output]"),
        ({"type": "program_output", "result": "2", "status": "completed"}, "2"),
        ({"type": "apply_patch_call_output", "status": "failed", "output": "no"}, "failed: no"),
        ({"type": "apply_patch_call_output", "status": "completed"}, "completed"),
        ({"type": "apply_patch_call_output", "status": None, "output": None}, "[no output]"),
        ({"type": "shell_call_output", "output": "as text"}, "as text"),
        (
            {
                "type": "shell_call_output",
                "output": [
                    {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                    {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
                    {"stdout": None, "outcome": None},
                    "stray",
                ],
            },
            "[exit 0]\na\n\n[timeout]\n[stderr]\nslow",
        ),
        ({"type": "shell_call_output", "output": []}, "[no output]"),
        ({"type": "tool_search_output", "tools": []}, "No tools found."),
        (
            {
                "type": "tool_search_output",
                "tools": [
                    {
                        "type": "namespace",
                        "name": "mcp__echo",
                        "tools": [{"type": "function", "name": "say", "description": "Say it"}],
                    },
                    {"type": "function", "name": "look"},
                    {"type": "web_search"},
                ],
            },
            "Tools found, callable from now on:\n- mcp__echo__say: Say it\n- look",
        ),
    ],
)
def test_an_answer_is_readable_text(item: Any, text: str) -> None:
    answer = answer_of({"call_id": "call_1", **item})
    assert (answer.call_id, text_of(answer)) == ("call_1", text)


def test_an_answer_keeps_the_name_it_came_with_and_may_lack_an_id() -> None:
    output = {"type": "function_call_output", "call_id": None, "name": "look", "output": "x"}
    assert answer_of(output) == ToolResultStep("", (TextPart("x"),), "look")


def test_a_local_shells_answer_is_found_by_its_own_id() -> None:
    answer = {"type": "local_shell_call_output", "id": "call_1", "output": "x"}
    assert answer_of(answer).call_id == "call_1"
    assert answer_of(answer | {"call_id": "call_2"}).call_id == "call_2"
    assert answer_of(answer | {"id": None}).call_id == ""


def test_a_screenshot_follows_the_answer_it_belongs_to() -> None:
    shot = {"type": "computer_screenshot", "image_url": "https://x.test/1"}
    steps, _ = read({"type": "computer_call_output", "call_id": "c", "output": shot})
    assert steps == [
        ToolResultStep("c", (TextPart("[image: see the next message]"),)),
        MessageStep("user", (ImagePart("https://x.test/1"),)),
    ]


# --- calls that a server ran ----------------------------------------------------------------------


@table(
    ("item", "call", "text"),
    [
        (
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "box",
                "name": "look",
                "arguments": '{"a":1}',
                "output": "found",
                "error": None,
            },
            ToolCallStep("mcp_1", "look", '{"a":1}', "box"),
            "found",
        ),
        (
            {"type": "mcp_call", "id": "mcp_1", "name": "look", "error": "gone"},
            ToolCallStep("mcp_1", "look", "{}"),
            "error: gone",
        ),
        (
            {
                "type": "mcp_call",
                "id": "m",
                "name": "look",
                "error": {"message": "gone", "code": 1},
            },
            ToolCallStep("m", "look", "{}"),
            "error: gone",
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "look", "error": {"code": 1}},
            ToolCallStep("m", "look", "{}"),
            'error: {"code":1}',
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "code": "print(1)",
                "outputs": [{"type": "logs", "logs": "1"}, {"type": "logs", "logs": "2"}],
            },
            ToolCallStep("ci_1", "code_interpreter", '{"code":"print(1)"}'),
            "1\n2",
        ),
        (
            {"type": "code_interpreter_call", "id": "ci_1", "code": None, "outputs": None},
            ToolCallStep("ci_1", "code_interpreter", "{}"),
            "[no output]",
        ),
        (
            {
                "type": "file_search_call",
                "id": "fs_1",
                "queries": ["moon"],
                "results": [{"filename": "a.txt", "text": "Full moon"}, {"score": 1}],
            },
            ToolCallStep("fs_1", "file_search", '{"queries":["moon"]}'),
            "a.txt: Full moon\nfile: ",
        ),
    ],
)
def test_a_call_that_a_server_ran_becomes_a_call_and_its_answer(
    item: Any, call: ToolCallStep, text: str
) -> None:
    [called, answered], [diagnostic] = read(item)
    assert called == call
    assert isinstance(answered, ToolResultStep)
    assert (answered.call_id, text_of(answered)) == (call.call_id, text)
    assert diagnostic.code == HistoryCode.ITEM_DEGRADED


def test_an_image_from_the_code_interpreter_is_sent() -> None:
    drawn = {"type": "image", "url": "https://x.test/plot.png"}
    steps, _ = read({"type": "code_interpreter_call", "id": "ci_1", "outputs": [drawn]})
    assert steps[-1] == MessageStep("user", (ImagePart("https://x.test/plot.png"),))
