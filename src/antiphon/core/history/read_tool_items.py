"""Calls of tools and what came of them, as items tell it, and the steps they become.

A call of any tool type mirrors the function that the tool is declared as (`core.offer`), and its
arguments are always the text of a JSON object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from antiphon.core.diagnostic import Decision
from antiphon.core.history.content import Item, Reader, json_text, mapping, mappings, string
from antiphon.core.history.steps import HistoryCode, Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.tools.naming import provider_name

Steps: TypeAlias = Sequence[Step]

_NO_OUTPUT = TextPart("[no output]")  # strict providers refuse an empty answer
_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _given(source: Item, *names: str) -> dict[str, Any]:
    """The named fields, in this order, without those that say nothing."""
    return {name: source[name] for name in names if source.get(name) not in (None, {}, [])}


# --- what was called ------------------------------------------------------------------------------


def _called(item: Item, reader: Reader, arguments: str, *, name: str | None = None) -> ToolCallStep:
    call_id = string(item.get("call_id")) or string(item.get("id")) or f"call_{reader.position}"
    return ToolCallStep(
        call_id=call_id,
        name=name or string(item.get("name")) or "unknown",
        arguments=arguments,
        namespace=string(item.get("namespace")),
    )


def _arguments(item: Item, reader: Reader) -> str:
    """The text of a JSON object: one call that is not would poison every later turn."""
    value = item.get("arguments")
    text = value if isinstance(value, str) else json_text(value)
    if text.strip() in ("", "null"):
        return "{}"
    try:
        _read_object(text)
    except (msgspec.DecodeError, RecursionError):
        message = "The arguments of a call are not a JSON object; they are wrapped in one."
        reader.note(HistoryCode.ARGUMENTS_MALFORMED, Decision.DEGRADED, message)
        return json_text({"_malformed": text})
    return text


def function_call(item: Item, reader: Reader) -> Steps:
    return [_called(item, reader, _arguments(item, reader))]


def tool_search_call(item: Item, reader: Reader) -> Steps:
    return [_called(item, reader, _arguments(item, reader), name="tool_search")]


def custom_call(item: Item, reader: Reader) -> Steps:
    given = item.get("input")
    text = given if isinstance(given, str) else "" if given is None else json_text(given)
    return [_called(item, reader, json_text({"input": text}))]


def shell_call(item: Item, reader: Reader) -> Steps:
    action = _given(mapping(item.get("action")), "commands", "timeout_ms", "max_output_length")
    return [_called(item, reader, json_text({"commands": [], **action}), name="shell")]


def local_shell_call(item: Item, reader: Reader) -> Steps:
    names = ("command", "env", "timeout_ms", "user", "working_directory")
    action = _given(mapping(item.get("action")), *names)
    return [_called(item, reader, json_text({"command": [], **action}), name="local_shell")]


def apply_patch_call(item: Item, reader: Reader) -> Steps:
    operation = {"operation": mapping(item.get("operation"))}
    return [_called(item, reader, json_text(operation), name="apply_patch")]


def computer_call(item: Item, reader: Reader) -> Steps:
    return [_called(item, reader, json_text(_given(item, "action", "actions")), name="computer")]


def program(item: Item, reader: Reader) -> Steps:
    return [_called(item, reader, json_text(_given(item, "code")), name="program")]


# --- what was answered ----------------------------------------------------------------------------


def _answered(item: Item, content: Any, reader: Reader) -> Steps:
    """An answer without an id is paired by its place, if only one call can be meant."""
    kept, moved = reader.tool_output(reader.parts(content))
    call_id, name = string(item.get("call_id")) or "", string(item.get("name"))
    return [ToolResultStep(call_id, kept or (_NO_OUTPUT,), name), *moved]


def output(item: Item, reader: Reader) -> Steps:
    return _answered(item, item.get("output"), reader)


def local_shell_output(item: Item, reader: Reader) -> Steps:
    """Its `id` is, by the API's word, the id of the call."""
    call_id = string(item.get("call_id")) or item.get("id")
    return _answered({"call_id": call_id}, item.get("output"), reader)


def program_output(item: Item, reader: Reader) -> Steps:
    return _answered(item, item.get("result"), reader)


def apply_patch_output(item: Item, reader: Reader) -> Steps:
    told = filter(None, (string(item.get("status")), string(item.get("output"))))
    return _answered(item, ": ".join(told), reader)


def shell_output(item: Item, reader: Reader) -> Steps:
    given = item.get("output")
    text = "\n".join(_shell_lines(given)) if isinstance(given, list) else given
    return _answered(item, text, reader)


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


def tool_search_output(item: Item, reader: Reader) -> Steps:
    """The tools themselves are declared with the plan; the model reads which they are."""
    found = "\n".join(_tool_lines(item.get("tools")))
    text = f"Tools found, callable from now on:\n{found}" if found else "No tools found."
    return _answered(item, text, reader)


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


# --- what a server called and answered by itself --------------------------------------------------


def _hosted(called: ToolCallStep, result: Any, reader: Reader) -> Steps:
    message = "A call that another server ran is kept as a function call and its result."
    reader.note(HistoryCode.ITEM_DEGRADED, Decision.DEGRADED, message)
    return [called, *_answered({"call_id": called.call_id}, result, reader)]


def mcp_call(item: Item, reader: Reader) -> Steps:
    where: Item = {"namespace": item.get("server_label"), **item}
    return _hosted(_called(where, reader, _arguments(item, reader)), _mcp_result(item), reader)


def _mcp_result(item: Item) -> Any:
    match item.get("error"):
        case None | "":
            return item.get("output")
        case str(error) | {"message": str(error)}:
            return f"error: {error}"
        case error:
            return f"error: {json_text(error)}"


def code_interpreter_call(item: Item, reader: Reader) -> Steps:
    called = _called(item, reader, json_text(_given(item, "code")), name="code_interpreter")
    outputs = [each.get("logs", each) for each in mappings(item.get("outputs"))]
    return _hosted(called, outputs, reader)


def file_search_call(item: Item, reader: Reader) -> Steps:
    results = mappings(item.get("results"))
    if not results:
        return reader.leave_out("What was found stands in the answer that follows.")
    called = _called(item, reader, json_text(_given(item, "queries")), name="file_search")
    return _hosted(called, [_found(result) for result in results], reader)


def _found(result: Mapping[str, Any]) -> str:
    return f"{string(result.get('filename')) or 'file'}: {string(result.get('text')) or ''}"
