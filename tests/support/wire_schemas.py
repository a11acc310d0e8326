"""Field rules of every event, response and item.

The companion of `tests.support.stream_validator`: shapes here, order there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_MISSING = object()


def demand(truth: object, rule: str, what: str) -> None:
    """Raise AssertionError with the rule that was broken."""
    if not truth:
        raise AssertionError(f"{rule}: {what}")


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _or_null(rule: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or rule(value)


def _one_of(*values: str) -> Callable[[object], bool]:
    return lambda value: value in values


def _is_effort(value: object) -> bool:
    return isinstance(value, dict) and {"effort", "summary"} <= value.keys()


def _is_format(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("format"), dict)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


# What an event carries beside its type and number. I, O, C, S, N are places, the rest are names.
_PLACES = {
    "I": "item_id",
    "O": "output_index",
    "C": "content_index",
    "S": "summary_index",
    "N": "annotation_index",
    "output_delta": "delta",
}
_FIELDS = {
    "response.created": "response",
    "response.queued": "response",
    "response.in_progress": "response",
    "response.completed": "response",
    "response.failed": "response",
    "response.incomplete": "response",
    "error": "code message param error",
    "keepalive": "",
    "response.output_item.added": "O item",
    "response.output_item.done": "O item",
    "response.content_part.added": "I O C part",
    "response.content_part.done": "I O C part",
    "response.output_text.delta": "I O C delta logprobs",
    "response.output_text.done": "I O C text logprobs",
    "response.output_text.annotation.added": "I O C N annotation",
    "response.refusal.delta": "I O C delta",
    "response.refusal.done": "I O C refusal",
    "response.reasoning_text.delta": "I O C delta",
    "response.reasoning_text.done": "I O C text",
    "response.reasoning_summary_part.added": "I O S part",
    "response.reasoning_summary_part.done": "I O S part",
    "response.reasoning_summary_text.delta": "I O S delta",
    "response.reasoning_summary_text.done": "I O S text",
    "response.function_call_arguments.delta": "I O delta",
    "response.function_call_arguments.done": "I O name arguments",
    "response.custom_tool_call_input.delta": "I O delta",
    "response.custom_tool_call_input.done": "I O input",
    "response.mcp_call_arguments.delta": "I O delta",
    "response.mcp_call_arguments.done": "I O arguments",
    "response.code_interpreter_call_code.delta": "I O delta",
    "response.code_interpreter_call_code.done": "I O code",
    "response.image_generation_call.partial_image": "I O partial_image_b64 partial_image_index",
    "response.shell_call_command.added": "O command_index command",
    "response.shell_call_command.delta": "O command_index delta",
    "response.shell_call_command.done": "O command_index command",
    "response.shell_call_output_content.delta": "I O command_index output_delta",
    "response.shell_call_output_content.done": "I O command_index output",
    "response.compaction.compacting": "I O",
}
_STRINGS = set("item_id delta text refusal arguments input name".split())
_STRINGS |= {"code", "command", "partial_image_b64"}
_OBJECTS = {"response", "item", "part", "annotation", "error"}

_HOSTED = re.compile(r"response\.(\w+_call|mcp_list_tools)\.(\w+)")
STAGES = {"in_progress": 0, "searching": 1, "interpreting": 1, "generating": 1}
LAST_STAGES = {"completed", "failed"}

_RESPONSE: Mapping[str, Callable[[object], bool]] = {
    "id": lambda value: isinstance(value, str) and value.startswith("resp_"),
    "object": _one_of("response"),
    "created_at": is_count,
    "completed_at": _or_null(is_count),
    "status": _one_of("queued", "in_progress", "completed", "incomplete", "failed"),
    "model": _is_name,
    "output": _is_list,
    "error": _or_null(_is_object),
    "incomplete_details": _or_null(_is_object),
    "instructions": _or_null(lambda value: isinstance(value, str | list)),
    "metadata": _is_object,
    "parallel_tool_calls": _is_flag,
    "temperature": _is_number,
    "top_p": _is_number,
    "tool_choice": lambda value: isinstance(value, str | dict),
    "tools": _is_list,
    "presence_penalty": _is_number,
    "frequency_penalty": _is_number,
    "top_logprobs": is_count,
    "previous_response_id": _or_null(_is_string),
    "background": _is_flag,
    "store": _is_flag,
    "max_output_tokens": _or_null(is_count),
    "max_tool_calls": _or_null(is_count),
    "text": _is_format,
    "reasoning": _or_null(_is_effort),
    "truncation": _one_of("auto", "disabled"),
    "service_tier": _one_of("auto", "default", "flex", "scale", "priority", "ultrafast"),
    "usage": _or_null(_is_object),
    "safety_identifier": _or_null(_is_string),
    "prompt_cache_key": _or_null(_is_string),
}

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}
_INCOMPLETE_REASONS = ("max_output_tokens", "max_messages", "content_filter", "steered")

_STATUS = _one_of("in_progress", "completed", "incomplete")
_ITEMS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "message": {"status": _STATUS, "role": _one_of("assistant"), "content": _is_list},
    "reasoning": {"summary": _is_list},
    "function_call": {
        "status": _STATUS,
        "call_id": _is_name,
        "name": _is_name,
        "arguments": _is_string,
    },
    "custom_tool_call": {
        "status": _STATUS,
        "call_id": _is_name,
        "name": _is_name,
        "input": _is_string,
    },
    "shell_call": {"status": _STATUS, "call_id": _is_name, "action": _is_object},
    "local_shell_call": {"status": _STATUS, "call_id": _is_name, "action": _is_object},
    "apply_patch_call": {"status": _STATUS, "call_id": _is_name, "operation": _is_object},
    "tool_search_call": {
        "status": _STATUS,
        "call_id": _or_null(_is_name),  # nobody answers a search that the server does itself
        "arguments": _is_object,
    },
}
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
_ID = re.compile(r"[a-z]+_\S+")
_OMITTED_NOT_NULL = ("phase", "content", "encrypted_content", "namespace", "status")


def check_event(event: Mapping[str, Any], where: str) -> None:
    """A known type, and every field that the type needs."""
    kind = event.get("type")

    def expect(truth: object, what: str) -> None:
        demand(truth, "rule fields", f"{where}: {what}")

    expect(isinstance(kind, str), "an event has a type")
    hosted = hosted_stage(str(kind))
    expect(kind in _FIELDS or hosted, f"nobody knows {kind}")
    for word in ("I O" if hosted else _FIELDS[str(kind)]).split():
        name = _PLACES.get(word, word)
        expect(name in event, f"{kind} carries {name}")
        expect(_field_rule(word, name)(event[name]), f"{name} is {event[name]!r}")
    if "obfuscation" in event:
        demand(str(kind).endswith(".delta"), "rule 14", f"{where}: only deltas are padded")
        demand(_is_string(event["obfuscation"]), "rule 14", f"{where}: padding is a string")


def _field_rule(word: str, name: str) -> Callable[[object], bool]:
    if word == "output_delta":
        return _is_object
    if name.endswith("_index"):
        return is_count
    if name in _STRINGS:
        return _is_string
    return _is_object if name in _OBJECTS else lambda _: True


def hosted_stage(kind: str) -> tuple[str, str] | None:
    match = _HOSTED.fullmatch(kind)
    if match is None or match[2] not in STAGES.keys() | LAST_STAGES:
        return None
    return match[1], match[2]


def check_response(response: Mapping[str, Any], where: str) -> None:
    """Every field that is always there is there, with a value clients can read."""

    def expect(truth: object, what: str) -> None:
        demand(truth, "rule response", f"{where}: {what}")

    for name, rule in _RESPONSE.items():
        value = response.get(name, _MISSING)
        expect(value is not _MISSING, f"{name} is always sent")
        expect(rule(value), f"{name} is {value!r}")
    status = response["status"]
    ended = status in ("completed", "incomplete", "failed", "cancelled")
    expect(("output_text" in response) == ended, "output_text at the end")
    if ended:
        expect(response["output_text"] == _all_text(response), "output_text is the text of output")
    expect((response["completed_at"] is not None) == (status == "completed"), "completed_at")
    expect((response["error"] is not None) == (status == "failed"), "an error, if it failed")
    expect((response["incomplete_details"] is not None) == (status == "incomplete"), "the reason")
    expect((response["usage"] is not None) == ended, "usage at the end")
    if status == "failed":
        error = response["error"]
        expect(_is_name(error.get("code")) and _is_name(error.get("message")), "an error says why")
    if status == "incomplete":
        reason = response["incomplete_details"].get("reason")
        expect(reason in _INCOMPLETE_REASONS, f"incomplete for {reason}")
    if ended:
        _check_usage(response["usage"], where)


def _all_text(response: Mapping[str, Any]) -> str:
    messages = [item for item in response["output"] if item.get("type") == "message"]
    parts = [part for message in messages for part in message.get("content") or []]
    return "".join(part["text"] for part in parts if part.get("type") == "output_text")


def _check_usage(usage: Mapping[str, Any], where: str) -> None:
    for name in _COUNTS:
        demand(is_count(usage.get(name)), "rule response", f"{where}: usage.{name}")
    for details, names in _DETAILS.items():
        inner = usage.get(details)
        for name in names:
            known = isinstance(inner, dict) and is_count(inner.get(name))
            demand(known, "rule response", f"{where}: usage.{details}.{name}")


def check_item(item: Mapping[str, Any], where: str) -> None:
    """An item of any type has what its type needs. Types of hosted calls are only looked over."""
    kind, item_id = item.get("type"), item.get("id")

    def expect(truth: object, what: str) -> None:
        demand(truth, "rule fields", f"{where}: {kind}: {what}")

    expect(_is_name(kind), "an item has a type")
    expect(isinstance(item_id, str) and _ID.fullmatch(item_id), f"id {item_id!r}")
    prefix = _PREFIXES.get(str(kind))
    expect(prefix is None or str(item_id).startswith(f"{prefix}_"), f"id {item_id!r}")
    for name, rule in _ITEMS.get(str(kind), {}).items():
        expect(rule(item.get(name)), f"{name} is {item.get(name)!r}")
    is_ours = str(kind) in _ITEMS  # an item of an unknown type is passed on as it came
    for name in _OMITTED_NOT_NULL if is_ours else ():
        expect(item.get(name, _MISSING) is not None, f"{name} is omitted rather than null")
    for part in item.get("content", []) if is_known_item(item) else ():
        _check_part(part, where)


def is_known_item(item: Mapping[str, Any]) -> bool:
    """Whether the API documents the type. Any other item passes as the server sent it."""
    return str(item.get("type")) in _ITEMS


def _check_part(part: Mapping[str, Any], where: str) -> None:
    kind = part.get("type")
    name = "refusal" if kind == "refusal" else "text"
    demand(isinstance(part.get(name), str), "rule fields", f"{where}: {kind} has a {name}")
    if kind == "output_text":
        demand(_is_list(part.get("annotations")), "rule fields", f"{where}: annotations is a list")
        check_logprobs(part.get("logprobs"), where)


def check_logprobs(logprobs: object, where: str) -> None:
    """A list, whose entries have all four members that both schemas of the API want."""
    demand(isinstance(logprobs, list), "rule 15", f"{where}: logprobs is a list")
    assert isinstance(logprobs, list)
    for entry in logprobs:
        demand(_is_logprob(entry), "rule 15", f"{where}: a logprob has token, logprob and bytes")
        others = entry.get("top_logprobs")
        known = isinstance(others, list) and all(_is_logprob(other) for other in others)
        demand(known, "rule 15", f"{where}: a logprob has top_logprobs")


def _is_logprob(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and _is_number(entry.get("logprob"))
        and isinstance(entry.get("bytes"), list)
    )
