"""Validation of `input`: its items and their content parts.

A client must be able to continue any history, so only the fields that the gateway needs are
required. Unknown types and other fields pass unchanged; the plan decides what becomes of them, and
reports what it leaves out as diagnostics.
"""

from __future__ import annotations

from typing import Any

from antiphon.core.items import Document
from antiphon.dialects.responses.parse_format import output_format
from antiphon.dialects.responses.parse_tools import tool_list
from antiphon.dialects.validate import (
    Reader,
    Readers,
    any_object,
    any_value,
    boolean,
    by_type,
    enum,
    list_of,
    missing_parameter,
    non_empty_string,
    nullable,
    object_of,
    string,
    string_up_to,
    tagged_union,
)

MAX_INPUT_CHARS = 10 * 1024 * 1024

# --- content parts --------------------------------------------------------------------------------


def _with_any_of(*names: str, of: Reader[Document]) -> Reader[Document]:
    """An object that has at least one of these fields."""

    def read(value: Any, param: str) -> Document:
        fields = of(value, param)
        if all(fields.get(name) is None for name in names):
            raise missing_parameter(
                f"{param}.{names[0]}", f" (or {', '.join(map(repr, names[1:]))})"
            )
        return fields

    return read


_IMAGE = object_of(
    {}, {"image_url": string, "file_id": string, "detail": enum("low", "high", "auto", "original")}
)
_FILE = object_of(
    {},
    {
        "file_data": string,
        "file_url": string,
        "file_id": string,
        "filename": string,
        "detail": string,
    },
)
_AUDIO = object_of(
    {}, {"input_audio": object_of({"data": string, "format": string}), "audio_url": string}
)

content_part = tagged_union(
    {
        **dict.fromkeys(
            ("input_text", "output_text", "text", "reasoning_text", "summary_text"),
            object_of({"text": string}),
        ),
        "refusal": object_of({"refusal": string}),
        "input_image": _with_any_of("image_url", "file_id", of=_IMAGE),
        "input_file": _with_any_of("file_data", "file_url", "file_id", of=_FILE),
        "input_audio": _with_any_of("input_audio", "audio_url", of=_AUDIO),
        "input_video": object_of({"video_url": string}),
    },
    allow_unknown=True,
)
_parts = list_of(content_part)
_content = nullable(by_type("a string or an array of parts", {str: string, list: _parts}))

# --- items ----------------------------------------------------------------------------------------

_objects = list_of(any_object)


def _item(required: Readers | None = None, **optional: Reader[Any]) -> Reader[Document]:
    return object_of(required or {}, {"id": string, "status": string, **optional})


_CALL_ID: Readers = {"call_id": string}
_CALL_OUTPUT = _item({**_CALL_ID, "output": _content}, name=string)

_ITEMS: Readers = {
    "message": _item(
        {"role": enum("user", "assistant", "system", "developer"), "content": _content},
        phase=string,
    ),
    "reasoning": _item(summary=_parts, content=_parts, encrypted_content=string),
    "item_reference": object_of({"id": non_empty_string}),
    "agent_message": _item(author=string, recipient=string, content=_content),
    "configuration_update": _item(
        reasoning=object_of({}, {"effort": non_empty_string}),
        text=object_of({}, {"format": output_format}),
    ),
    "compaction": _item({"encrypted_content": string}),
    "context_compaction": _item(encrypted_content=string),
    "compaction_trigger": _item(),
    # calls, and the outputs that clients send for them
    "function_call": _item({**_CALL_ID, "name": string, "arguments": string}, namespace=string),
    "function_call_output": _CALL_OUTPUT,
    "custom_tool_call": _item({**_CALL_ID, "name": string, "input": string}, namespace=string),
    "custom_tool_call_output": _CALL_OUTPUT,
    "shell_call": _item({**_CALL_ID, "action": object_of({"commands": list_of(string)})}),
    "shell_call_output": _item(
        {
            **_CALL_ID,
            "output": nullable(
                by_type("a string or an array of objects", {str: string, list: _objects})
            ),
        }
    ),
    "local_shell_call": _item({"action": any_object}, call_id=string),
    # Its `id` is that of the call; clients that treat all outputs alike send `call_id` instead.
    "local_shell_call_output": _with_any_of(
        "call_id", "id", of=_item({"output": _content}, call_id=string)
    ),
    "apply_patch_call": _item(
        {**_CALL_ID, "operation": object_of({"type": string, "path": string}, {"diff": string})}
    ),
    "apply_patch_call_output": _item(_CALL_ID, output=string),
    "computer_call": _item(_CALL_ID, action=any_object, actions=_objects),
    "computer_call_output": _item({**_CALL_ID, "output": any_object}),
    "tool_search_call": _item(call_id=string, execution=string),
    "tool_search_output": _item({"tools": tool_list}, call_id=string, execution=string),
    "additional_tools": _item({"tools": tool_list}, role=string),
    "program": _item(_CALL_ID, code=string, fingerprint=string),
    "program_output": _item(call_id=string, result=any_value),
    # calls that a provider or a server has run
    "mcp_list_tools": _item({"server_label": string, "tools": _objects}),
    "mcp_call": _item({"server_label": string, "name": string, "arguments": string}, output=string),
    "mcp_approval_request": _item({"server_label": string, "name": string, "arguments": string}),
    "mcp_approval_response": _item(
        {"approval_request_id": string, "approve": boolean}, reason=string
    ),
    "file_search_call": _item(queries=list_of(string), results=_objects),
    "web_search_call": _item(action=any_object),
    "code_interpreter_call": _item(container_id=string, code=string, outputs=_objects),
    "image_generation_call": _item(result=string),
}


def _item_type(fields: Document, param: str) -> str:
    """The type of an item; messages and references may omit it."""
    item_type = fields.get("type")
    if type(item_type) is str:
        return item_type
    if item_type is not None:
        return string(item_type, f"{param}.type")
    if "role" in fields:
        return "message"
    if "id" in fields:
        return "item_reference"
    raise missing_parameter(f"{param}.type")


def input_item(value: Any, param: str) -> Document:
    fields = any_object(value, param)
    if reader := _ITEMS.get(_item_type(fields, param)):
        reader(fields, param)
    return fields


_input_text = string_up_to(MAX_INPUT_CHARS)


def _user_message(value: Any, param: str) -> tuple[Document, ...]:
    """The message that `input` is short for when it is a string."""
    text = _input_text(value, param)
    content = [{"type": "input_text", "text": text}]
    return ({"type": "message", "role": "user", "content": content},)


input_items: Reader[tuple[Document, ...]] = by_type(
    "a string or an array of items", {str: _user_message, list: list_of(input_item)}
)
