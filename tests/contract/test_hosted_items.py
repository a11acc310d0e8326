"""Every item that a Responses server makes itself, with its progress, reaches the client unchanged.

Types that the gateway does not know are among them: an unknown item or event is passed on like a
known one.
"""

from __future__ import annotations

import json
from typing import Any

import antiphon
from tests.support.tables import table

Document = dict[str, Any]
Progress = list[tuple[str, Document]]


def stages(kind: str, *names: str) -> Progress:
    return [(f"{kind}.{name}", {}) for name in names]


HOSTED: dict[str, tuple[Document, Progress]] = {
    "web_search_call": (
        {"status": "completed", "action": {"type": "search", "query": "q", "sources": []}},
        stages("web_search_call", "in_progress", "searching", "completed"),
    ),
    "file_search_call": (
        {"status": "completed", "queries": ["q"], "results": [{"file_id": "f", "score": 0.5}]},
        stages("file_search_call", "in_progress", "searching", "completed"),
    ),
    "code_interpreter_call": (
        {"status": "completed", "container_id": "c", "code": "1+1", "outputs": []},
        [
            *stages("code_interpreter_call", "in_progress"),
            ("code_interpreter_call_code.delta", {"delta": "1+1"}),
            ("code_interpreter_call_code.done", {"code": "1+1"}),
            *stages("code_interpreter_call", "interpreting", "completed"),
        ],
    ),
    "image_generation_call": (
        {"status": "completed", "result": "aGVsbG8=", "size": "1024x1024"},
        [
            *stages("image_generation_call", "in_progress", "generating"),
            (
                "image_generation_call.partial_image",
                {"partial_image_b64": "aGk=", "partial_image_index": 0, "quality": "low"},
            ),
            *stages("image_generation_call", "completed"),
        ],
    ),
    "mcp_list_tools": (
        {"server_label": "s", "tools": [{"name": "t", "input_schema": {}}]},
        stages("mcp_list_tools", "in_progress", "completed"),
    ),
    "mcp_call": (
        {
            "status": "completed",
            "server_label": "s",
            "name": "t",
            "arguments": '{"a":1}',
            "output": "1",
        },
        [
            *stages("mcp_call", "in_progress"),
            ("mcp_call_arguments.delta", {"delta": '{"a":1}'}),
            ("mcp_call_arguments.done", {"arguments": '{"a":1}'}),
            *stages("mcp_call", "completed"),
        ],
    ),
    "mcp_list_tools that failed": (
        {"server_label": "s", "tools": [], "error": "HTTP 401"},
        stages("mcp_list_tools", "in_progress", "failed"),
    ),
    "mcp_call that failed": (
        {
            "status": "failed",
            "server_label": "s",
            "name": "t",
            "arguments": "{}",
            "error": {"type": "http_error", "code": 500, "message": "HTTP 500"},
        },
        [
            *stages("mcp_call", "in_progress"),
            ("mcp_call_arguments.delta", {"delta": "{}"}),
            ("mcp_call_arguments.done", {"arguments": "{}"}),
            *stages("mcp_call", "failed"),
        ],
    ),
    "mcp_approval_request": ({"server_label": "s", "name": "t", "arguments": "{}"}, []),
    "computer_call": (
        {"status": "completed", "call_id": "call_1", "pending_safety_checks": [], "action": {}},
        [],
    ),
    "shell_call": (
        {"status": "completed", "call_id": "call_1", "action": {"commands": ["ls"]}},
        [
            ("shell_call_command.added", {"command_index": 0, "command": ""}),
            ("shell_call_command.delta", {"command_index": 0, "delta": "ls"}),
            ("shell_call_command.done", {"command_index": 0, "command": "ls"}),
        ],
    ),
    "shell_call_output": (
        {"status": "completed", "call_id": "call_1", "output": [{"stdout": "a"}]},
        [
            (
                "shell_call_output_content.delta",
                {"command_index": 0, "delta": {"stdout": "a", "stderr": ""}},
            ),
            ("shell_call_output_content.done", {"command_index": 0, "output": [{"stdout": "a"}]}),
        ],
    ),
    "local_shell_call": (
        {"status": "completed", "call_id": "call_1", "action": {"type": "exec", "command": []}},
        [],
    ),
    "apply_patch_call": (
        {
            "status": "completed",
            "call_id": "call_1",
            "operation": {"type": "update_file", "path": "a", "diff": "+b"},
        },
        [
            ("apply_patch_call_operation_diff.delta", {"delta": "+b"}),
            ("apply_patch_call_operation_diff.done", {"diff": "+b"}),
        ],
    ),
    "tool_search_call": ({"status": "completed", "arguments": {}, "execution": "server"}, []),
    "tool_search_output": ({"status": "completed", "tools": [], "execution": "server"}, []),
    "additional_tools": ({"role": "developer", "tools": []}, []),
    "program": ({"call_id": "call_1", "code": "1", "fingerprint": "f"}, []),
    "program_output": ({"status": "completed", "result": "1"}, []),
    "function_call_output": ({"status": "completed", "call_id": "call_1", "output": "1"}, []),
    "compaction": ({"encrypted_content": "sealed"}, [("compaction.compacting", {})]),
    # not in any version of the API
    "telepathy_call": (
        {"status": "completed", "thought": {"deep": True}},
        [
            *stages("telepathy_call", "in_progress", "listening"),
            ("telepathy_call_thought.delta", {"delta": "?", "depth": 2}),
            *stages("telepathy_call", "completed"),
        ],
    ),
    "acme:thing": ({"status": "completed", "anything": [1, None]}, [("acme_thing.moved", {})]),
}
MESSAGE: Document = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}
_WITHOUT_ITEM_ID = "shell_call_command"  # the API's events of a command have no item id


def sent_item(kind: str) -> Document:
    fields, _ = HOSTED[kind]
    kind = kind.partition(" ")[0]
    return {"type": kind, "id": f"{kind.replace(':', '_')}_1", **fields}


def sent_progress(kind: str) -> list[Document]:
    place = {"item_id": sent_item(kind)["id"], "output_index": 0}
    return [
        {
            "type": f"response.{name}",
            **({"output_index": 0} if name.startswith(_WITHOUT_ITEM_ID) else place),
            **fields,
        }
        for name, fields in HOSTED[kind][1]
    ]


def recorded_stream(kind: str) -> bytes:
    item = sent_item(kind)
    begun = {**item, "status": "in_progress"} if "status" in item else item
    ended = {"status": "completed", "output": [item, MESSAGE]}
    events = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *sent_progress(kind),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.output_item.added", "output_index": 1, "item": MESSAGE},
        {"type": "response.output_item.done", "output_index": 1, "item": MESSAGE},
        {"type": "response.completed", "response": ended},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


every_kind = table("kind", HOSTED)


@every_kind
def test_an_item_is_passed_on_as_the_server_made_it(kind: str) -> None:
    events = antiphon.replay(recorded_stream(kind), dialect="responses")
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done[0] == sent_item(kind)
    assert events[-1]["response"]["output"][0] == sent_item(kind)
    assert events[-1]["type"] == "response.completed"


@every_kind
def test_the_progress_of_an_item_is_passed_on_unchanged_and_in_order(kind: str) -> None:
    sent = sent_progress(kind)
    events = antiphon.replay(recorded_stream(kind), dialect="responses")
    added = next(index for index, event in enumerate(events) if event["type"].endswith("added"))
    received = [
        {name: value for name, value in event.items() if name != "sequence_number"}
        for event in events[added + 1 : added + 1 + len(sent)]
    ]
    assert received == sent
    assert events[added + 1 + len(sent)]["type"] == "response.output_item.done"


@every_kind
def test_an_item_of_a_whole_answer_is_passed_on(kind: str) -> None:
    item = sent_item(kind)
    body = {"object": "response", "status": "completed", "output": [item, MESSAGE]}
    events = antiphon.replay(json.dumps(body).encode(), dialect="responses")
    assert events[-1]["response"]["output"][0] == item
