"""The source of `antiphon/types.py`: typed dictionaries made of the structs of the vocabulary.

`make types` writes the file; a test compares it with what would be written now. The structs of
`core/items.py`, `core/response.py` and `core/events.py` are the table: a field that the API leaves
out (`UNSET`) may be missing in the dictionary, every other field is always there.
"""

from __future__ import annotations

import types as builtin_types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType

import antiphon
from antiphon.core import events, items, response

PATH = Path(antiphon.__file__).with_name("types.py")

_HEADER = '''"""Types of requests, responses and events, for editors and type checkers.

The dictionaries are those of the wire: `create` returns a `Response`, a stream yields an `Event`.
Test `item["type"]` or `"delta" in event` to narrow a union. `make types` writes this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, final
'''

# Fields of a request, in the order of the documentation. The names are those that the parser knows.
REQUEST_FIELDS: Mapping[str, str] = {
    "model": "str",
    "input": "str | Sequence[Mapping[str, Any]]",
    "instructions": "str | None",
    "previous_response_id": "str | None",
    "conversation": "str | Mapping[str, Any] | None",
    "prompt": "Mapping[str, Any] | None",
    "tools": "Sequence[Mapping[str, Any]]",
    "tool_choice": "str | Mapping[str, Any]",
    "parallel_tool_calls": "bool | None",
    "max_tool_calls": "int | None",
    "reasoning": "Mapping[str, Any] | None",
    "text": "Mapping[str, Any]",
    "max_output_tokens": "int | None",
    "stop": "str | Sequence[str] | None",
    "temperature": "float | None",
    "top_p": "float | None",
    "top_k": "int | None",
    "seed": "int | None",
    "logit_bias": "Mapping[str, float] | None",
    "top_logprobs": "int | None",
    "presence_penalty": "float | None",
    "frequency_penalty": "float | None",
    "truncation": 'Literal["auto", "disabled"] | None',
    "context_management": "Sequence[Mapping[str, Any]] | None",
    "include": "Sequence[str] | None",
    "store": "bool | None",
    "background": "bool | None",
    "stream": "bool | None",
    "stream_options": "Mapping[str, Any] | None",
    "metadata": "Mapping[str, str] | None",
    "service_tier": "str | None",
    "prompt_cache_key": "str",
    "prompt_cache_options": "Mapping[str, Any] | None",
    "prompt_cache_retention": "str | None",
    "safety_identifier": "str",
    "user": "str",
    "moderation": "Mapping[str, Any] | None",
    "access_programs": "Mapping[str, Any] | None",
    "image": "Mapping[str, Any] | None",
    "multi_agent": "Mapping[str, Any] | None",
    "client_metadata": "Mapping[str, Any] | None",
}

# Items and events of tools that a server runs. They pass through as their provider sent them.
HOSTED_ITEMS = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "compaction",
    "shell_call_output",
    "apply_patch_call_output",
    "tool_search_output",
    "program",
    "program_output",
)
HOSTED_FIELDS: Mapping[str, str] = {
    "status": "str",
    "action": "dict[str, Any]",
    "queries": "list[str]",
    "results": "list[dict[str, Any]] | None",
    "code": "str | None",
    "container_id": "str",
    "outputs": "list[dict[str, Any]] | None",
    "result": "str | None",
    "call_id": "str",
    "server_label": "str",
    "name": "str",
    "arguments": "str",
    "output": "Any",
    "error": "Any",
    "tools": "list[dict[str, Any]]",
    "encrypted_content": "str",
}
HOSTED_EVENTS = (
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
    "response.web_search_call.completed",
    "response.file_search_call.in_progress",
    "response.file_search_call.searching",
    "response.file_search_call.completed",
    "response.code_interpreter_call.in_progress",
    "response.code_interpreter_call.interpreting",
    "response.code_interpreter_call.completed",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.generating",
    "response.image_generation_call.partial_image",
    "response.image_generation_call.completed",
    "response.mcp_call.in_progress",
    "response.mcp_call.completed",
    "response.mcp_call.failed",
    "response.mcp_list_tools.in_progress",
    "response.mcp_list_tools.completed",
    "response.mcp_list_tools.failed",
    "response.shell_call_command.added",
    "response.shell_call_command.delta",
    "response.shell_call_command.done",
    "response.shell_call_output_content.delta",
    "response.shell_call_output_content.done",
    "response.compaction.compacting",
)
HOSTED_EVENT_FIELDS: Mapping[str, str] = {
    "item_id": "str",
    "delta": "Any",
    "code": "str",
    "command": "str",
    "command_index": "int",
    "partial_image_b64": "str",
    "partial_image_index": "int",
}

# Events with the same fields: one dictionary type has all of their names.
LIFECYCLE: tuple[type[Struct], ...] = (
    events.Created,
    events.Queued,
    events.InProgress,
    events.Completed,
    events.Incomplete,
    events.Failed,
)

# The gateway's own web search: its events are those of any tool that a server runs.
SEARCH = (events.SearchInProgress, events.Searching, events.SearchCompleted)


_OWN_MEMBERS = "extra"
"""Members of a provider's own format, which only clients of that format get."""


def render() -> str:
    """The text of `antiphon/types.py`."""
    parts = [_HEADER, *_item_classes(), *_response_classes(), *_event_classes(), _request_class()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _item_classes() -> Iterator[str]:
    for kind in (*_members(items.Part), items.SummaryText, *_members(items.Item)):
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield _class_of(kind)
    yield _class(
        "HostedToolItem",
        "An item of a tool that a server runs; its fields depend on the tool.",
        {"type": _literal(HOSTED_ITEMS), "id": "str"} | _optional(HOSTED_FIELDS),
    )
    names = [_name(kind) for kind in _members(items.Item) if _is_struct(kind)]
    yield _alias("Item", [*names, "HostedToolItem"], "An element of `output`.")


def _response_classes() -> Iterator[str]:
    for kind in (
        response.InputTokensDetails,
        response.OutputTokensDetails,
        response.ResponseUsage,
        response.ResponseError,
        response.IncompleteDetails,
        response.Response,
    ):
        yield _class_of(kind)


def _event_classes() -> Iterator[str]:
    others = {*LIFECYCLE, *SEARCH, events.HostedToolEvent}
    kinds = [kind for kind in _members(events.Event) if kind not in others]
    for kind in kinds:
        yield _class_of(kind, sequence_number="int")
    tags = [str(kind.__struct_config__.tag) for kind in LIFECYCLE]
    yield _class(
        "ResponseEvent",
        "The beginning, progress or end of a response.",
        {"type": _literal(tags), "sequence_number": "int", "response": "Response"},
    )
    yield _class(
        "HostedToolEvent",
        "Progress of a tool that a server runs.",
        {"type": _literal(HOSTED_EVENTS), "sequence_number": "int", "output_index": "int"}
        | _optional(HOSTED_EVENT_FIELDS),
    )
    names = [*map(_name, kinds), "ResponseEvent", "HostedToolEvent"]
    yield _alias("Event", names, "An event of a stream.")


def _request_class() -> str:
    about = (
        "The fields of a request. None of them is required here: a document may have the others."
    )
    return _class("CreateRequest", about, REQUEST_FIELDS, total=False)


# Text of one definition


def _class_of(kind: Any, **more: str) -> str:
    fields = {"type": f'Literal["{kind.__struct_config__.tag}"]'} if _has_tag(kind) else {}
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        if name != _OWN_MEMBERS:
            fields[name] = _field_text(hints[name])
    return _class(_name(kind), "", fields | more)


def _class(name: str, about: str, fields: Mapping[str, str], *, total: bool = True) -> str:
    head = f"class {name}(TypedDict):" if total else f"class {name}(TypedDict, total=False):"
    doc = [f'    """{about}"""', ""] if about else []
    return "\n".join(
        ["@final", head, *doc, *(f"    {field}: {text}" for field, text in fields.items())]
    )


def _alias(name: str, members: Sequence[str], about: str) -> str:
    joined = "\n    | ".join(members)
    return f'{name}: TypeAlias = (\n    {joined}\n)\n"""{about}"""'


def _optional(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: f"NotRequired[{text}]" for name, text in fields.items()}


def _literal(values: Sequence[str]) -> str:
    lines = "".join(f'        "{value}",\n' for value in values)
    return f"Literal[\n{lines}    ]"


def _field_text(hint: Any) -> str:
    members = _members(hint)
    kept = [member for member in members if member is not UnsetType]
    text = _union_text(kept)
    return text if len(kept) == len(members) else f"NotRequired[{text}]"


def _union_text(members: Sequence[Any]) -> str:
    if items.Document in members and any(map(_is_struct, members)):
        return "Item"
    return " | ".join(dict.fromkeys(map(_type_text, members)))


def _type_text(hint: Any) -> str:
    origin = get_origin(hint)
    if hint is type(None):
        return "None"
    if hint is Any:
        return "Any"
    if origin is Literal:
        return f"Literal[{', '.join(map(_quote, get_args(hint)))}]"
    if origin in (Sequence, tuple, list):
        return f"list[{_union_text(_members(get_args(hint)[0]))}]"
    if origin in (Mapping, dict):
        return "dict[str, Any]"
    return _name(hint)


def _quote(value: object) -> str:
    return f'"{value}"'


def _members(hint: Any) -> tuple[Any, ...]:
    is_union = get_origin(hint) in (Union, builtin_types.UnionType)
    return get_args(hint) if is_union else (hint,)


def _name(kind: Any) -> str:
    return str(kind.__name__)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _has_tag(kind: Any) -> bool:
    return kind.__struct_config__.tag is not None


if __name__ == "__main__":
    PATH.write_text(render())
