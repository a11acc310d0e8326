"""Items in, steps out: every item a client can send, read without ever refusing one.

A row of `_ITEMS` says what each type becomes. What has no meaning for a provider leaves a
diagnostic, and its readable essence stays as text. Reading an item never looks at another one, so
a longer history only adds steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history import read_tool_items as tool_item
from antiphon.core.history.content import (
    ANY_MEDIA,
    NOTHING_SEEN,
    Item,
    Reader,
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
    ToolResultStep,
)

Steps: TypeAlias = Sequence[Step]
ItemReader: TypeAlias = Callable[[Item, Reader], Steps]

_ROLES: Mapping[object, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}


def read_items(
    items: Sequence[Item],
    *,
    inputs: frozenset[str],
    tool_output_images: bool,
    media: MediaSupport = ANY_MEDIA,
    param: str = "input",
    descriptions: Mapping[str, str] = NOTHING_SEEN,
) -> tuple[tuple[Step, ...], tuple[Diagnostic, ...]]:
    """The steps that a list of items amounts to, and what had to change on the way.

    `inputs` are the kinds of content the model takes: text, image, file, audio, and file_url where
    a file may be given by its address alone; `media` says which of them. `descriptions` are of
    images, by their URLs.
    """
    reader = Reader(
        inputs, tool_output_images=tool_output_images, media=media, descriptions=descriptions
    )
    steps: list[Step] = []
    for position, item in enumerate(items):
        kind = _kind(item)
        reader.turn_to(position, param, kind)
        steps.extend(_ITEMS.get(kind, _unknown)(mapping(item), reader))
    return tuple(steps), tuple(reader.diagnostics)


def image_urls(items: Sequence[Item]) -> list[str]:
    """Where the images in these items are, each once, as a model that takes them would see them."""
    steps, _ = read_items(items, inputs=frozenset({"image"}), tool_output_images=True)
    parts = (
        part
        for step in steps
        if isinstance(step, MessageStep | ToolResultStep)
        for part in step.parts
    )
    return [*dict.fromkeys(part.url for part in parts if isinstance(part, ImagePart))]


def _kind(item: Any) -> str:
    """The type of an item; messages and references may come without one."""
    match item:
        case {"type": str(kind)} if kind:
            return kind
        case {"role": _}:
            return "message"
        case {"id": _}:
            return "item_reference"
    return "unknown"


# --- what was said and thought --------------------------------------------------------------------


def _said(
    role: Role,
    content: Any,
    reader: Reader,
    title: str | None = None,
    phase: str | None = None,
) -> Steps:
    parts = reader.parts(content)
    if not parts:
        return reader.leave_out("There is nothing in it to read.")
    if title is not None:
        parts = (TextPart(title), *parts)
    if role == "user":
        return [MessageStep(role, parts)]
    kept, moved = reader.text_only(parts)
    return [MessageStep(role, kept, phase), *moved]


def _message(item: Item, reader: Reader) -> Steps:
    role = _ROLES.get(string(item.get("role")))
    if role is None:
        message = "A message of an unknown role is read as the user's."
        reader.note(HistoryCode.ROLE_REPLACED, Decision.DEGRADED, message)
    phase = string(item.get("phase")) if role == "assistant" else None
    known = phase if phase in PHASES else None
    return _said(role or "user", item.get("content"), reader, phase=known)


def _agent_message(item: Item, reader: Reader) -> Steps:
    author, recipient = string(item.get("author")), string(item.get("recipient"))
    towards = f" to {recipient}" if recipient else ""
    title = f"[message from {author or 'another agent'}{towards}]"
    return _said("user", item.get("content"), reader, title)


def _unknown(item: Item, reader: Reader) -> Steps:
    steps = _said("user", item.get("content"), reader, f"[{reader.subject}]")
    if steps:
        _degrade(reader, f"An item of the unknown type {reader.subject!r} is read as the user's.")
    return steps


def _reasoning(item: Item, reader: Reader) -> Steps:
    thought = ReasoningStep(
        text="".join(_texts(item.get("content"))),
        summary="\n\n".join(_texts(item.get("summary"))),
        encrypted=string(item.get("encrypted_content")),
    )
    return [thought] if thought != ReasoningStep() else []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in mappings(value):
        if text := string(part.get("text")):
            yield text


# --- what only text can keep ----------------------------------------------------------------------


def _degrade(reader: Reader, message: str) -> None:
    reader.note(HistoryCode.ITEM_DEGRADED, Decision.DEGRADED, message)


def _marker(role: Role, text: str) -> Steps:
    return [MessageStep(role, (TextPart(f"[{text}]"),))]


def _image_generation(item: Item, reader: Reader) -> Steps:
    _degrade(reader, "An image that the model made is mentioned, not shown.")
    if item.get("status") == "failed":
        return _marker("assistant", "image generation failed")
    prompt = string(item.get("revised_prompt"))
    return _marker("assistant", f"image generated: {prompt}" if prompt else "image generated")


def _approval_request(item: Item, reader: Reader) -> Steps:
    _degrade(reader, "A request for approval is kept as text.")
    tool = string(item.get("name")) or "unknown"
    arguments = string(item.get("arguments")) or "{}"
    return _marker("assistant", f"approval asked for calling {tool} with {arguments}")


def _approval_response(item: Item, reader: Reader) -> Steps:
    _degrade(reader, "An answer to a request for approval is kept as text.")
    decision = "approved" if item.get("approve") is True else "not approved"
    reason = string(item.get("reason"))
    return _marker("user", f"{decision}: {reason}" if reason else decision)


# --- what says nothing to a provider --------------------------------------------------------------


def _ignored(why: str, code: HistoryCode = HistoryCode.ITEM_IGNORED) -> ItemReader:
    return lambda item, reader: reader.leave_out(why, code)


def _read_by_plan(item: Item, reader: Reader) -> Steps:
    """Tools and settings are the plan's to decide, and to say what became of them."""
    return ()


_sealed = _ignored("Its content is sealed.", HistoryCode.COMPACTION_IGNORED)

_ITEMS: Mapping[str, ItemReader] = {
    "message": _message,
    "agent_message": _agent_message,
    "reasoning": _reasoning,
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
    "mcp_approval_request": _approval_request,
    "mcp_approval_response": _approval_response,
    "mcp_list_tools": _ignored("Its tools cannot be called from here."),
    "code_interpreter_call": tool_item.code_interpreter_call,
    "file_search_call": tool_item.file_search_call,
    "web_search_call": _ignored("What was found stands in the answer that follows."),
    "image_generation_call": _image_generation,
    "additional_tools": _read_by_plan,
    "configuration_update": _read_by_plan,
    "compaction": _sealed,
    "compaction_summary": _sealed,
    "context_compaction": _sealed,
    "compaction_trigger": _ignored("The history was not compacted."),
    "item_reference": _ignored("Its item is not known.", HistoryCode.REFERENCE_UNRESOLVED),
}
