"""Reading of tool calls and their results: the items of every tool type, and their steps.

A call of any tool type becomes a call of the function that the tool is declared as
(`core.planning.parse_tool`); its arguments are always a JSON object, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.diagnostic import Decision
from antiphon.core.history.client_format import read_cache, read_extra, read_place
from antiphon.core.history.content import ContentReader, Item, json_text, mapping, mappings, string
from antiphon.core.history.steps import (
    HistoryCode,
    Part,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.tools.naming import provider_name

Steps: TypeAlias = Sequence[Step]

_NO_OUTPUT = TextPart("[no output]")  # some providers reject an empty result
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _select_fields(source: Item, *names: str) -> dict[str, Any]:
    """The named fields, in this order, without empty ones."""
    return {name: source[name] for name in names if source.get(name) not in (None, {}, [])}


# --- calls ----------------------------------------------------------------------------------------


def _build_call(
    item: Item, reader: ContentReader, arguments: str, *, name: str | None = None
) -> ToolCallStep:
    call_id = (
        string(item.get("call_id"))
        or string(item.get("id"))
        or f"call_{reader.diagnostics.position}"
    )
    return ToolCallStep(
        call_id=call_id,
        name=name or string(item.get("name")) or "unknown",
        arguments=arguments,
        namespace=string(item.get("namespace")),
        place=read_place(item),
        cache=read_cache(item),
        extra=read_extra(item, reader.support),
    )


def _read_arguments(item: Item, reader: ContentReader) -> str:
    """Read the arguments as text of a JSON object: a provider would reject anything else in every
    later turn."""
    value = item.get("arguments")
    text = value if isinstance(value, str) else json_text(value)
    if text.strip() in ("", "null"):
        return "{}"
    try:
        _decode_object(text)
    except (msgspec.DecodeError, RecursionError):
        message = "`arguments` of a call is not a JSON object; it is wrapped in one."
        reader.diagnostics.report(HistoryCode.ARGUMENTS_MALFORMED, Decision.DEGRADED, message)
        return json_text({"_malformed": text})
    return text


def function_call(item: Item, reader: ContentReader) -> Steps:
    return [_build_call(item, reader, _read_arguments(item, reader))]


def tool_search_call(item: Item, reader: ContentReader) -> Steps:
    return [_build_call(item, reader, _read_arguments(item, reader), name="tool_search")]


def custom_call(item: Item, reader: ContentReader) -> Steps:
    given = item.get("input")
    text = given if isinstance(given, str) else "" if given is None else json_text(given)
    return [_build_call(item, reader, json_text({"input": text}))]


def shell_call(item: Item, reader: ContentReader) -> Steps:
    action = _select_fields(
        mapping(item.get("action")), "commands", "timeout_ms", "max_output_length"
    )
    return [_build_call(item, reader, json_text({"commands": [], **action}), name="shell")]


def local_shell_call(item: Item, reader: ContentReader) -> Steps:
    names = ("command", "env", "timeout_ms", "user", "working_directory")
    action = _select_fields(mapping(item.get("action")), *names)
    return [_build_call(item, reader, json_text({"command": [], **action}), name="local_shell")]


def apply_patch_call(item: Item, reader: ContentReader) -> Steps:
    operation = {"operation": mapping(item.get("operation"))}
    return [_build_call(item, reader, json_text(operation), name="apply_patch")]


def computer_call(item: Item, reader: ContentReader) -> Steps:
    return [
        _build_call(
            item, reader, json_text(_select_fields(item, "action", "actions")), name="computer"
        )
    ]


def program(item: Item, reader: ContentReader) -> Steps:
    return [_build_call(item, reader, json_text(_select_fields(item, "code")), name="program")]


# --- results --------------------------------------------------------------------------------------


def _build_result(
    item: Item, content: Any, reader: ContentReader, *, is_error: bool = False
) -> Steps:
    """Build a result; one without a `call_id` is paired later, if only one call is open."""
    parts = reader.read_parts(content)
    kept, moved = (
        reader.move_media(map(_as_text, parts)) if is_error else reader.move_tool_media(parts)
    )
    call_id = string(item.get("call_id")) or ""
    name = string(item.get("name"))
    return [ToolResultStep(call_id, kept or (_NO_OUTPUT,), name), *moved]


def _as_text(part: Part) -> Part:
    """A part of an error, which is text alone (Anthropic): no block of another type."""
    if not isinstance(part, TextPart):
        return part
    is_block = part.extra is not None and "type" in part.extra
    return structs.replace(part, tool=None, extra=None if is_block else part.extra)


def output(item: Item, reader: ContentReader) -> Steps:
    is_error = _read_error_mark(item, reader)
    result, *moved = _build_result(item, item.get("output"), reader, is_error=is_error is True)
    if not _CLIENT_MEMBERS & item.keys():
        return [result, *moved]
    assert isinstance(result, ToolResultStep)
    whole = structs.replace(
        result,
        is_error=is_error,
        place=read_place(item),
        cache=read_cache(item),
        extra=read_extra(item, reader.support),
    )
    return [whole, *moved]


_CLIENT_MEMBERS = frozenset({"is_error", "place", "cache_control", "extra"})


def _read_error_mark(item: Item, reader: ContentReader) -> bool | None:
    is_error = item.get("is_error")
    if not isinstance(is_error, bool) or reader.support.tool_errors:
        return is_error if isinstance(is_error, bool) else None
    if is_error:
        message = "`is_error` of a tool result is not supported by this model; its text is sent."
        reader.diagnostics.report(HistoryCode.ERROR_UNMARKED, Decision.IGNORED, message)
    return None


def local_shell_output(item: Item, reader: ContentReader) -> Steps:
    """By the API's documentation, `id` is the id of the call here."""
    call_id = string(item.get("call_id")) or item.get("id")
    return _build_result({"call_id": call_id}, item.get("output"), reader)


def program_output(item: Item, reader: ContentReader) -> Steps:
    return _build_result(item, item.get("result"), reader)


def apply_patch_output(item: Item, reader: ContentReader) -> Steps:
    texts = filter(None, (string(item.get("status")), string(item.get("output"))))
    return _build_result(item, ": ".join(texts), reader)


def shell_output(item: Item, reader: ContentReader) -> Steps:
    given = item.get("output")
    text = "\n".join(_shell_lines(given)) if isinstance(given, list) else given
    return _build_result(item, text, reader)


def _shell_lines(chunks: Any) -> Iterator[str]:
    for chunk in mappings(chunks):
        match chunk.get("outcome"):
            case {"exit_code": int(code)}:
                yield f"[exit {code}]"
            case {"type": "timeout"}:
                yield "[timeout]"
        if stdout := string(chunk.get("stdout")):
            yield stdout
        if stderr := string(chunk.get("stderr")):
            yield f"[stderr]\n{stderr}"


def tool_search_output(item: Item, reader: ContentReader) -> Steps:
    """List the tools that were found; `core.planning.tool_registry` declares them."""
    found = "\n".join(_tool_lines(item.get("tools")))
    text = f"Tools found, callable from now on:\n{found}" if found else "No tools found."
    return _build_result(item, text, reader)


def _tool_lines(tools: Any) -> Iterator[str]:
    for tool in mappings(tools):
        name = string(tool.get("name"))
        for inner in mappings(tool.get("tools")):
            yield from _tool_line(inner, name)
        if tool.get("type") != "namespace":
            yield from _tool_line(tool, None)


def _tool_line(tool: Item, namespace: str | None) -> Iterator[str]:
    if name := string(tool.get("name")):
        about = string(tool.get("description"))
        yield f"- {provider_name(name, namespace)}" + (f": {about}" if about else "")


# --- calls that another server ran ----------------------------------------------------------------


def _build_hosted(call: ToolCallStep, result: Any, reader: ContentReader) -> Steps:
    message = (
        f"Item of type {reader.diagnostics.subject!r} is sent as a function call and its result."
    )
    reader.diagnostics.report(HistoryCode.ITEM_DEGRADED, Decision.DEGRADED, message)
    return [call, *_build_result({"call_id": call.call_id}, result, reader)]


def mcp_call(item: Item, reader: ContentReader) -> Steps:
    call = _build_server_call(item, reader)
    if reader.support.approvals is not None:  # the gateway has made it, as a call of a function
        return [call, *_build_result({"call_id": call.call_id}, _read_mcp_result(item), reader)]
    return _build_hosted(call, _read_mcp_result(item), reader)


def unapproved_call(item: Item, reader: ContentReader) -> Steps:
    """A call of an MCP tool that was not made: its result says so."""
    return [_build_server_call(item, reader)]


def refusal_of_call(item: Item, reader: ContentReader) -> Steps:
    """The result of a call that the user did not approve."""
    reason = string(item.get("reason"))
    text = "The user did not approve this call." + (f" Reason: {reason}" if reason else "")
    return _build_result({"call_id": item.get("approval_request_id")}, text, reader)


def join_calls(steps: list[Step], found: Steps) -> None:
    """Add a call and its result so that it is parallel to the calls right before it: a provider's
    state belongs to all of them."""
    first = len(steps)
    while isinstance(steps[first - 1], ToolResultStep):
        first -= 1
    call, *results = found
    steps.insert(first, call)
    steps.extend(results)


def _build_server_call(item: Item, reader: ContentReader) -> ToolCallStep:
    where: Item = {"namespace": item.get("server_label"), **item}
    return _build_call(where, reader, _read_arguments(item, reader))


def _read_mcp_result(item: Item) -> Any:
    match item.get("error"):
        case None | "":
            return item.get("output")
        case str(error) | {"message": str(error)}:
            return f"error: {error}"
        case {"content": [{"text": str(error)}]}:
            return f"error: {error}"
        case error:
            return f"error: {json_text(error)}"


def code_interpreter_call(item: Item, reader: ContentReader) -> Steps:
    call = _build_call(
        item, reader, json_text(_select_fields(item, "code")), name="code_interpreter"
    )
    outputs = [each.get("logs", each) for each in mappings(item.get("outputs"))]
    return _build_hosted(call, outputs, reader)


def file_search_call(item: Item, reader: ContentReader) -> Steps:
    results = mappings(item.get("results"))
    if not results:
        return reader.ignore_item("its results are part of the message that follows")
    call = _build_call(item, reader, json_text(_select_fields(item, "queries")), name="file_search")
    return _build_hosted(call, [_format_result(result) for result in results], reader)


def _format_result(result: Mapping[str, Any]) -> str:
    return f"{string(result.get('filename')) or 'file'}: {string(result.get('text')) or ''}"
