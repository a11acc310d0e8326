"""The items of a request's input.

A history must stay servable: what is read here is only what we could not work without. Types that
nobody knows yet and fields that belong to others pass as they are, and the plan degrades them
where everybody can see it.
"""

from __future__ import annotations

from typing import Any

from antiphon.wire.request_format import output_format
from antiphon.wire.request_tools import tools
from antiphon.wire.validate import (
    Reader,
    Readers,
    anything,
    document,
    either,
    flag,
    label,
    many,
    missing,
    nullable,
    shape,
    short,
    tagged,
    text,
    word,
)

INPUT_CHARACTERS = 10 * 1024 * 1024

# --- parts ----------------------------------------------------------------------------------------


def _one_of(*names: str, of: Reader[dict[str, Any]]) -> Reader[dict[str, Any]]:
    """A shape that is about something only if one of these fields is there."""

    def read(value: Any, param: str) -> dict[str, Any]:
        given = of(value, param)
        if all(given.get(name) is None for name in names):
            raise missing(f"{param}.{names[0]}", f" (or {', '.join(map(repr, names[1:]))})")
        return given

    return read


_IMAGE = shape(
    {}, {"image_url": text, "file_id": text, "detail": word("low", "high", "auto", "original")}
)
_FILE = shape(
    {},
    {"file_data": text, "file_url": text, "file_id": text, "filename": text, "detail": text},
)
_SOUND = shape({}, {"input_audio": shape({"data": text, "format": text}), "audio_url": text})

part = tagged(
    {
        **dict.fromkeys(
            ("input_text", "output_text", "text", "reasoning_text", "summary_text"),
            shape({"text": text}),
        ),
        "refusal": shape({"refusal": text}),
        "input_image": _one_of("image_url", "file_id", of=_IMAGE),
        "input_file": _one_of("file_data", "file_url", "file_id", of=_FILE),
        "input_audio": _one_of("input_audio", "audio_url", of=_SOUND),
        "input_video": shape({"video_url": text}),
    },
    others=True,
)
_parts = many(part)
_said = nullable(either("a string or an array of parts", {str: text, list: _parts}))

# --- items ----------------------------------------------------------------------------------------

_documents = many(document)


def _item(needs: Readers | None = None, **takes: Reader[Any]) -> Reader[dict[str, Any]]:
    return shape(needs or {}, {"id": text, "status": text, **takes})


_CALL_ID: Readers = {"call_id": text}
_OUTPUT = _item({**_CALL_ID, "output": _said}, name=text)

_ITEMS: Readers = {
    "message": _item(
        {"role": word("user", "assistant", "system", "developer"), "content": _said}, phase=text
    ),
    "reasoning": _item(summary=_parts, content=_parts, encrypted_content=text),
    "item_reference": shape({"id": label}),
    "agent_message": _item(author=text, recipient=text, content=_said),
    "configuration_update": _item(
        reasoning=shape({}, {"effort": label}), text=shape({}, {"format": output_format})
    ),
    "compaction": _item({"encrypted_content": text}),
    "context_compaction": _item(encrypted_content=text),
    "compaction_trigger": _item(),
    # calls and what came of them
    "function_call": _item({**_CALL_ID, "name": text, "arguments": text}, namespace=text),
    "function_call_output": _OUTPUT,
    "custom_tool_call": _item({**_CALL_ID, "name": text, "input": text}, namespace=text),
    "custom_tool_call_output": _OUTPUT,
    "shell_call": _item({**_CALL_ID, "action": shape({"commands": many(text)})}),
    "shell_call_output": _item(
        {
            **_CALL_ID,
            "output": nullable(
                either("a string or an array of objects", {str: text, list: _documents})
            ),
        }
    ),
    "local_shell_call": _item({"action": document}, call_id=text),
    # Its `id` is that of the call; clients that treat all outputs alike send `call_id`.
    "local_shell_call_output": _one_of("call_id", "id", of=_item({"output": _said}, call_id=text)),
    "apply_patch_call": _item(
        {**_CALL_ID, "operation": shape({"type": text, "path": text}, {"diff": text})}
    ),
    "apply_patch_call_output": _item(_CALL_ID, output=text),
    "computer_call": _item(_CALL_ID, action=document, actions=_documents),
    "computer_call_output": _item({**_CALL_ID, "output": document}),
    "tool_search_call": _item(call_id=text, execution=text),
    "tool_search_output": _item({"tools": tools}, call_id=text, execution=text),
    "additional_tools": _item({"tools": tools}, role=text),
    "program": _item(_CALL_ID, code=text, fingerprint=text),
    "program_output": _item(call_id=text, result=anything),
    # what others ran
    "mcp_list_tools": _item({"server_label": text, "tools": _documents}),
    "mcp_call": _item({"server_label": text, "name": text, "arguments": text}, output=text),
    "mcp_approval_request": _item({"server_label": text, "name": text, "arguments": text}),
    "mcp_approval_response": _item({"approval_request_id": text, "approve": flag}, reason=text),
    "file_search_call": _item(queries=many(text), results=_documents),
    "web_search_call": _item(action=document),
    "code_interpreter_call": _item(container_id=text, code=text, outputs=_documents),
    "image_generation_call": _item(result=text),
}


def _kind(given: dict[str, Any], param: str) -> str:
    """The type of an item; messages and references may leave it out."""
    kind = given.get("type")
    if kind is not None:
        return text(kind, f"{param}.type")
    if "role" in given:
        return "message"
    if "id" in given:
        return "item_reference"
    raise missing(f"{param}.type")


def item(value: Any, param: str) -> dict[str, Any]:
    given = document(value, param)
    if reader := _ITEMS.get(_kind(given, param)):
        reader(given, param)
    return given


def _prompt(value: Any, param: str) -> tuple[dict[str, Any], ...]:
    prompt = short(INPUT_CHARACTERS)(value, param)
    content = [{"type": "input_text", "text": prompt}]
    return ({"type": "message", "role": "user", "content": content},)


items: Reader[tuple[dict[str, Any], ...]] = either(
    "a string or an array of items", {str: _prompt, list: many(item)}
)
