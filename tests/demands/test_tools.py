"""Tools of every kind, and malformed calls: themes 5, 9, 10, 25, 30, 32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ModelConfig
from tests.support.checked_gateway import (
    checked_gateway,
    configured,
    deltas,
    done_items,
    event_types,
    final_response,
    items_of_type,
    text,
)
from tests.support.demand_scripts import (
    Document,
    function,
    function_call,
    function_call_output,
    scripts_in_turn,
    user,
)
from tests.support.upstream import DONE, HELLO_WORLD, chunk, send_frames, usage

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"
CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Changes files."}
SPACE = {"type": "namespace", "name": "mcp__files", "tools": [function("read", path="string")]}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools."}
EXTRA = {"type": "additional_tools", "role": "developer", "tools": [function("late")]}


def call(index: int | None, call_id: str | None, name: str | None, arguments: str) -> Document:
    piece: Document = {"function": {"arguments": arguments}}
    piece |= {} if index is None else {"index": index}
    piece |= {} if call_id is None else {"id": call_id}
    if name is not None:
        piece["function"]["name"] = name
    return piece


def call_script(*calls: Document) -> Any:
    """One chunk with these calls, and the end."""
    return send_frames((chunk({"tool_calls": [*calls]}), chunk({}, "tool_calls"), usage(), DONE))


async def test_theme_05_calls_keep_the_tool_type_of_the_client(
    tmp_path: Path,
) -> None:
    script = call_script(
        call(0, "c0", "apply_patch", json.dumps({"input": PATCH})),
        call(1, "c1", "mcp__files__read", '{"path":"a"}'),
        call(2, "c2", "tool_search", '{"query":"files"}'),
        call(3, "c3", "late", "{}"),
    )
    async with checked_gateway(tmp_path, script) as setup:
        tools = [CUSTOM, SPACE, SEARCH]
        events = await setup.stream(tools=tools, input=[EXTRA, user("Go")])
        names = [tool["function"]["name"] for tool in setup.last_body["tools"]]
    assert names == ["apply_patch", "mcp__files__read", "tool_search", "late"]
    patch, read, search, late = done_items(events)
    assert (patch["type"], patch["input"]) == ("custom_tool_call", PATCH)
    assert (read["name"], read["namespace"]) == ("read", "mcp__files")
    assert (search["type"], search["arguments"]) == ("tool_search_call", {"query": "files"})
    assert (late["type"], late["name"]) == ("function_call", "late")
    assert "".join(deltas(events, "custom_tool_call_input")) == PATCH


async def test_theme_05_tools_found_by_tool_search_can_be_called(tmp_path: Path) -> None:
    found = {"type": "tool_search_output", "call_id": "s", "tools": [SPACE]}
    search = {
        "type": "tool_search_call",
        "call_id": "s",
        "execution": "client",
        "arguments": {"query": "files"},
    }
    script = call_script(call(0, "c1", "mcp__files__read", '{"path":"a"}'))
    async with checked_gateway(tmp_path, script) as setup:
        events = await setup.stream(tools=[SEARCH], input=[user("Go"), search, found])
    assert [(item["name"], item["namespace"]) for item in done_items(events)] == [
        ("read", "mcp__files")
    ]


async def test_theme_09_orphans_and_interleaved_results_never_fail_a_thread(
    tmp_path: Path,
) -> None:
    thread = [
        user("Hi"),
        function_call("c1", "f"),
        {"type": "message", "role": "developer", "content": "Hurry."},
        function_call("c2", "f"),
        function_call_output("c2", "two"),
        function_call_output("c1", "one"),
        function_call("c3", "f"),
        function_call_output("gone", "whose?"),
        user("Go on"),
    ]
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        await setup.stream(tools=[function("f")], input=thread)
        messages = setup.last_body["messages"]
    for place, message in enumerate(messages):
        if ids := [each["id"] for each in message.get("tool_calls", ())]:
            behind = messages[place + 1 : place + 1 + len(ids)]
            assert [each.get("tool_call_id") for each in behind] == ids
    assert any("whose?" in str(message.get("content")) for message in messages)


@pytest.mark.parametrize(
    "pieces",
    [
        [call(0, "a", "f", '{"n":1}'), call(0, "b", "f", '{"n":2}')],
        [call(None, "a", "f", '{"n":1}'), call(None, "b", "f", '{"n":2}')],
        [call(0, "a", "f", '{"n":'), call(1, "b", "f", '{"n":2}'), call(0, None, None, "1}")],
    ],
    ids=["one index for all", "no index", "interleaved"],
)
async def test_theme_10_parallel_calls_are_neither_merged_nor_lost(
    tmp_path: Path, pieces: list[Document]
) -> None:
    frames = [chunk({"tool_calls": [piece]}) for piece in pieces]
    script = send_frames((*frames, chunk({}, "tool_calls"), usage(), DONE))
    async with checked_gateway(tmp_path, script) as setup:
        events = await setup.stream(tools=[function("f", n="integer")])
    found = [(item["call_id"], item["arguments"]) for item in done_items(events)]
    assert found == [("a", '{"n":1}'), ("b", '{"n":2}')]


async def test_theme_25_invalid_arguments_do_not_fail_the_thread(tmp_path: Path) -> None:
    thread = [
        user("Hi"),
        function_call("c1", "f", '{"n": '),
        function_call_output("c1", "error"),
        user("Again"),
    ]
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        await setup.stream(tools=[function("f")], input=thread)
        sent = setup.last_body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)


async def test_theme_25_a_truncated_call_is_never_completed(tmp_path: Path) -> None:
    cut = chunk({"tool_calls": [call(0, "a", "f", '{"n": ')]})
    script = send_frames((cut, chunk({}, "tool_calls"), usage(), DONE))
    async with checked_gateway(tmp_path, script) as setup:
        events = await setup.stream(tools=[function("f")])
    assert (final_response(events)["status"], done_items(events)) == ("failed", [])


async def test_theme_30_calls_that_leak_into_the_text_are_calls(tmp_path: Path) -> None:
    leak = 'Sure.\n<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
    frames = [chunk({"content": leak[at : at + 7]}) for at in range(0, len(leak), 7)]
    models = {"*": ModelConfig(guards=["hermes"])}
    script = send_frames((*frames, chunk({}, "stop"), usage(), DONE))
    async with configured(tmp_path, script, models=models) as setup:
        events = await setup.stream(tools=[function("f", n="integer")])
    assert text(final_response(events)).strip() == "Sure."
    assert [json.loads(each["arguments"]) for each in items_of_type(events, "function_call")] == [
        {"n": 1}
    ]


async def test_theme_32_code_mode_and_messages_of_agents_are_served(tmp_path: Path) -> None:
    """Freeform JavaScript as the only tool, and messages of other agents, are ordinary turns."""
    tool = {"type": "custom", "name": "exec", "description": "Runs JavaScript."}
    space = {"type": "namespace", "name": "functions", "tools": [tool]}
    lite = {"type": "additional_tools", "role": "developer", "tools": [space]}
    expected_messages = {
        "type": "agent_message",
        "author": "root",
        "recipient": "child",
        "content": [{"type": "input_text", "text": "Count to two."}],
    }
    code = "text(1 + 1)"
    runs = call_script(call(0, "c0", "functions__exec", json.dumps({"input": code})))
    script = scripts_in_turn(runs, send_frames(HELLO_WORLD))
    async with checked_gateway(tmp_path, script) as setup:
        events = await setup.stream(input=[lite, expected_messages], store=False)
        assert "Count to two." in str(setup.last_body["messages"])
        ran = done_items(events)[0]
        assert (ran["name"], ran["namespace"], ran["input"]) == ("exec", "functions", code)
        output = {"type": "custom_tool_call_output", "call_id": "c0", "output": "2"}
        events = await setup.stream(input=[lite, expected_messages, ran, output], store=False)
    assert event_types(events)[-1] == "response.completed"
