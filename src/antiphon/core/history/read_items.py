"""Reading of items into steps: every item that a client can send, without rejecting any.

`_ITEMS` has the reader of each item type. An item without a meaning for a provider is reported, and
its text is kept if it has any. An item is read without looking at others, so a longer history only
adds steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import structs

from antiphon.core.deltas import ReasoningState
from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history import read_tool_items as tool_item
from antiphon.core.history.client_format import RESPONSES, FormatSupport, read_extra, read_place
from antiphon.core.history.content import (
    ANY_MEDIA,
    NO_DESCRIPTIONS,
    NO_TEXTS,
    TEXT_MEMBERS,
    TEXT_TYPES,
    ContentReader,
    Item,
    mapping,
    mappings,
    string,
)
from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import (
    PHASES,
    HistoryCode,
    ImagePart,
    MessageStep,
    ReasoningStep,
    Role,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)

Steps: TypeAlias = Sequence[Step]
ItemReader: TypeAlias = Callable[[Item, ContentReader], Steps]

UNREADABLE_COMPACTION = (
    "an earlier part of this conversation was compacted elsewhere and cannot be read"
)
_MESSAGE_TYPES = (None, "message")
_ROLES: Mapping[object, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}


_PLAIN_ROLES = tuple(_ROLES.values())
_PLAIN_MEMBERS = frozenset({"type", "role", "content", "id", "status"})


class OpenedCompaction(dict[str, Any]):
    """A compaction item of the provider that gets the request. `core.compaction` has opened it: an
    item that a client sends is never of this class."""


def read_items(
    items: Sequence[Item],
    *,
    inputs: frozenset[str],
    tool_output_images: bool,
    media: MediaSupport = ANY_MEDIA,
    param: str = "input",
    descriptions: Mapping[str, str] = NO_DESCRIPTIONS,
    file_texts: Mapping[str, str] = NO_TEXTS,
    model_name: str = "this model",
    support: FormatSupport = RESPONSES,
) -> tuple[tuple[Step, ...], tuple[Diagnostic, ...]]:
    """Read items into steps, and report what had to change.

    `inputs` are the kinds of content that the model supports: text, image, file, audio, and
    file_url if a file may be sent as a URL; `media` are the supported types. `descriptions` are of
    images, by their URLs; `file_texts` are of PDF files, by their content. `support` is what the
    provider accepts of members that only some client formats have.
    """
    reader = ContentReader(
        inputs,
        tool_output_images=tool_output_images,
        media=media,
        descriptions=descriptions,
        file_texts=file_texts,
        model_name=model_name,
        support=support,
    )
    steps: list[Step] = []
    joins = False
    for position, item in enumerate(items):
        kind = _item_type(item)
        reader.diagnostics.begin_item(position, param, kind)
        found = _ITEMS.get(kind, _read_unknown)(mapping(item), reader)
        if joins and found and isinstance(found[0], ToolCallStep):
            tool_item.join_calls(steps, found)
            continue
        steps.extend(found)
        joins = support.approvals is not None and _ends_server_call(kind, item)
    return tuple(steps), tuple(reader.diagnostics.found)


def _ends_server_call(kind: str, item: Item) -> bool:
    """Whether an item is a call of an MCP server with its result, or a block with the result."""
    if kind == "client_block":
        return mapping(item.get("instead")).get("type") == "function_call_output"
    return kind == "mcp_call"


def has_only_messages(items: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all items are messages: no calls, reasoning, references or added tools."""
    return all(item.get("type") in _MESSAGE_TYPES and "role" in item for item in items)


def read_plain_messages(items: Iterable[Item]) -> tuple[MessageStep, ...] | None:
    """Return the steps of items that are nothing but messages of text, as those of most requests;
    None if one is more than that. `read_items` would return the same, and report nothing: texts
    are the same for every model."""
    steps: list[MessageStep] = []
    for item in items:
        role = item.get("role")
        if item.get("type") not in _MESSAGE_TYPES or role not in _PLAIN_ROLES:
            return None
        parts = _read_plain_parts(item.get("content"))
        if not parts or not item.keys() <= _PLAIN_MEMBERS:
            return None
        steps.append(MessageStep(role, parts))
    return tuple(steps)


def _read_plain_parts(content: Any) -> tuple[TextPart, ...]:
    """Return content that is nothing but text; empty if it is more than that, or less."""
    if type(content) is str:
        return (TextPart(content),) if content else ()
    if type(content) is not list:
        return ()
    parts: list[TextPart] = []
    for value in content:
        if type(value) is not dict or value.keys() != TEXT_MEMBERS:
            return ()
        text = value["text"]
        if value["type"] not in TEXT_TYPES or type(text) is not str or not text:
            return ()
        parts.append(TextPart(text))
    return tuple(parts)


def image_urls(items: Sequence[Item]) -> list[str]:
    """The URLs of all images in these items, each once, as a model with image input gets them."""
    steps, _ = read_items(items, inputs=frozenset({"image"}), tool_output_images=True)
    parts = (
        part
        for step in steps
        if isinstance(step, MessageStep | ToolResultStep)
        for part in step.parts
    )
    return [*dict.fromkeys(part.url for part in parts if isinstance(part, ImagePart))]


def _item_type(item: Any) -> str:
    """The type of an item; messages and references may be sent without one."""
    if type(item) is dict and type(kind := item.get("type")) is str and kind:
        return kind
    match item:
        case {"type": str(kind)} if kind:
            return kind
        case {"role": _}:
            return "message"
        case {"id": _}:
            return "item_reference"
    return "unknown"


# --- messages and reasoning -----------------------------------------------------------------------


def _build_message(
    role: Role,
    content: Any,
    reader: ContentReader,
    title: str | None = None,
    phase: str | None = None,
) -> Steps:
    parts = reader.read_parts(content)
    if not parts:
        return reader.ignore_item("it is empty")
    if title is not None:
        parts = (TextPart(title), *parts)
    if role == "user":
        return [MessageStep(role, parts)]
    kept, moved = reader.move_media(parts)
    return [MessageStep(role, kept, phase), *moved]


def _read_message(item: Item, reader: ContentReader) -> Steps:
    role = _ROLES.get(string(item.get("role")))
    if role is None:
        message = "The `role` of a message is unknown; sent as 'user'."
        reader.diagnostics.report(HistoryCode.ROLE_REPLACED, Decision.DEGRADED, message)
    phase = string(item.get("phase")) if role == "assistant" else None
    known = phase if phase in PHASES else None
    steps = _build_message(role or "user", item.get("content"), reader, phase=known)
    return _placed(steps, item, reader) if steps and "place" in item else steps


def _placed(steps: Steps, item: Item, reader: ContentReader) -> Steps:
    """A message with its place in the client's request; media that moved behind it has none."""
    message, *moved = steps
    assert isinstance(message, MessageStep)
    extra = read_extra(item, reader.support)
    return [structs.replace(message, place=read_place(item), extra=extra), *moved]


def _read_client_block(item: Item, reader: ContentReader) -> Steps:
    """Read a content block of the client's own format that has no canonical form. Other providers
    may get a call, or the result of one, instead."""
    instead = mapping(item.get("instead"))
    reads = _INSTEAD.get(string(instead.get("type")) or "")
    if reads is not None and item.get("format") != reader.support.client_blocks:
        return reads(instead, reader)
    part = reader.read_client_block(item)
    role = _ROLES.get(string(item.get("role"))) or "user"
    return [] if part is None else [MessageStep(role, (part,), place=read_place(item))]


def _read_agent_message(item: Item, reader: ContentReader) -> Steps:
    author = string(item.get("author"))
    recipient = string(item.get("recipient"))
    towards = f" to {recipient}" if recipient else ""
    title = f"[message from {author or 'another agent'}{towards}]"
    return _build_message("user", item.get("content"), reader, title)


def _read_unknown(item: Item, reader: ContentReader) -> Steps:
    steps = _build_message("user", item.get("content"), reader, f"[{reader.diagnostics.subject}]")
    if steps:
        _report_degraded(
            reader, f"Item type {reader.diagnostics.subject!r} is unknown; sent as a user message."
        )
    return steps


def _read_reasoning(item: Item, reader: ContentReader) -> Steps:
    step = ReasoningStep(
        text="".join(_read_texts(item.get("content"))),
        summary="\n\n".join(_read_texts(item.get("summary"))),
        encrypted=string(item.get("encrypted_content")),
        states=tuple(_read_states(item.get("states"))),
        place=read_place(item),
    )
    return [step] if step != ReasoningStep(place=step.place) else []


def _read_states(value: Any) -> Iterator[ReasoningState]:
    """Provider state that was not sealed: signatures of another server of the client's format."""
    for state in mappings(value):
        if scheme := string(state.get("scheme")):
            attach: Literal["block", "tool"] = "tool" if state.get("attach") == "tool" else "block"
            yield ReasoningState(scheme, state.get("value"), attach)


def _read_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in mappings(value):
        if text := string(part.get("text")):
            yield text


# --- items that are kept as text ------------------------------------------------------------------


def _report_degraded(reader: ContentReader, message: str) -> None:
    reader.diagnostics.report(HistoryCode.ITEM_DEGRADED, Decision.DEGRADED, message)


def _build_marker(role: Role, text: str) -> Steps:
    return [MessageStep(role, (TextPart(f"[{text}]"),))]


def _read_image_generation(item: Item, reader: ContentReader) -> Steps:
    _report_degraded(
        reader, "An item of type 'image_generation_call' is sent as text, without its image."
    )
    if item.get("status") == "failed":
        return _build_marker("assistant", "image generation failed")
    prompt = string(item.get("revised_prompt"))
    return _build_marker("assistant", f"image generated: {prompt}" if prompt else "image generated")


def _read_approval_request(item: Item, reader: ContentReader) -> Steps:
    if reader.support.approvals is not None:
        made = string(item.get("id")) in reader.support.approvals
        return [] if made else tool_item.unapproved_call(item, reader)
    _report_degraded(reader, "An item of type 'mcp_approval_request' is sent as text.")
    tool = string(item.get("name")) or "unknown"
    arguments = string(item.get("arguments")) or "{}"
    return _build_marker("assistant", f"approval asked for calling {tool} with {arguments}")


def _read_approval_response(item: Item, reader: ContentReader) -> Steps:
    if reader.support.approvals is not None:
        return [] if item.get("approve") is True else tool_item.refusal_of_call(item, reader)
    _report_degraded(reader, "An item of type 'mcp_approval_response' is sent as text.")
    decision = "approved" if item.get("approve") is True else "not approved"
    reason = string(item.get("reason"))
    return _build_marker("user", f"{decision}: {reason}" if reason else decision)


# --- items that are ignored -----------------------------------------------------------------------


def _ignore(reason: str, code: HistoryCode = HistoryCode.ITEM_IGNORED) -> ItemReader:
    return lambda item, reader: reader.ignore_item(reason, code)


def _read_tool_list(item: Item, reader: ContentReader) -> Steps:
    if reader.support.approvals is not None:  # its tools are declared
        return ()
    return reader.ignore_item("the gateway asks no MCP server for this request")


def _skip(item: Item, reader: ContentReader) -> Steps:
    """Tools, settings and triggers: other parts of the gateway read these items."""
    return ()


def _read_compaction(item: Item, reader: ContentReader) -> Steps:
    text = TextPart(f"[{UNREADABLE_COMPACTION}]")
    if isinstance(item, OpenedCompaction):
        return [MessageStep("user", (text,), native=dict(item))]
    message = f"Item of type {reader.diagnostics.subject!r} cannot be read. A note takes its place."
    reader.diagnostics.report(HistoryCode.COMPACTION_IGNORED, Decision.IGNORED, message)
    return [MessageStep("user", (text,))]


_INSTEAD: Mapping[str, ItemReader] = {
    "function_call": tool_item.function_call,
    "function_call_output": tool_item.output,
    "mcp_list_tools": _read_tool_list,
}
_ITEMS: Mapping[str, ItemReader] = {
    "message": _read_message,
    "agent_message": _read_agent_message,
    "reasoning": _read_reasoning,
    "function_call": tool_item.function_call,
    "function_call_output": tool_item.output,
    "custom_tool_call": tool_item.custom_call,
    "custom_tool_call_output": tool_item.output,
    "shell_call": tool_item.shell_call,
    "shell_call_output": tool_item.shell_output,
    "local_shell_call": tool_item.local_shell_call,
    "local_shell_call_output": tool_item.local_shell_output,
    "apply_patch_call": tool_item.apply_patch_call,
    "apply_patch_call_output": tool_item.apply_patch_output,
    "computer_call": tool_item.computer_call,
    "computer_call_output": tool_item.output,
    "tool_search_call": tool_item.tool_search_call,
    "tool_search_output": tool_item.tool_search_output,
    "program": tool_item.program,
    "program_output": tool_item.program_output,
    "mcp_call": tool_item.mcp_call,
    "mcp_approval_request": _read_approval_request,
    "mcp_approval_response": _read_approval_response,
    "mcp_list_tools": _read_tool_list,
    "code_interpreter_call": tool_item.code_interpreter_call,
    "file_search_call": tool_item.file_search_call,
    "web_search_call": _ignore("its results are part of the message that follows"),
    "image_generation_call": _read_image_generation,
    "additional_tools": _skip,
    "configuration_update": _skip,
    "client_block": _read_client_block,
    "compaction": _read_compaction,
    "compaction_summary": _read_compaction,
    "context_compaction": _read_compaction,
    "compaction_trigger": _skip,
    "item_reference": _ignore("no item with this id is stored", HistoryCode.REFERENCE_UNRESOLVED),
}
