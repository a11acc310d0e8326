"""Output items and their content parts, exactly as clients read them.

A field that the API omits rather than sends as null is `UNSET` here. Items are immutable: a
growing item is a block (`core.block`), and becomes one of these when somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

Document: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]


class OutputText(Struct, frozen=True, tag_field="type", tag="output_text"):
    text: str = ""
    annotations: Sequence[Document] = ()
    logprobs: Sequence[Document] = ()


class RefusalText(Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str = ""


class ReasoningText(Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    text: str = ""


class SummaryText(Struct, frozen=True, tag_field="type", tag="summary_text"):
    text: str = ""


Part: TypeAlias = OutputText | RefusalText | ReasoningText


class Message(Struct, frozen=True, tag_field="type", tag="message", kw_only=True):
    id: str
    status: Status
    role: Literal["assistant"] = "assistant"
    content: Sequence[OutputText | RefusalText] = ()
    phase: str | UnsetType = UNSET
    """Whether it is the answer or a word on the way to it: a label of the provider's."""


class Reasoning(Struct, frozen=True, tag_field="type", tag="reasoning", kw_only=True):
    id: str
    status: Status
    summary: Sequence[SummaryText] = ()
    content: Sequence[ReasoningText] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET


class FunctionCall(Struct, frozen=True, tag_field="type", tag="function_call", kw_only=True):
    id: str
    call_id: str
    name: str
    arguments: str = ""
    status: Status
    namespace: str | UnsetType = UNSET


class CustomToolCall(Struct, frozen=True, tag_field="type", tag="custom_tool_call", kw_only=True):
    id: str
    call_id: str
    name: str
    input: str = ""
    status: Status
    namespace: str | UnsetType = UNSET


class ShellCall(Struct, frozen=True, tag_field="type", tag="shell_call", kw_only=True):
    id: str
    call_id: str
    action: Document
    status: Status


class LocalShellCall(Struct, frozen=True, tag_field="type", tag="local_shell_call", kw_only=True):
    id: str
    call_id: str
    action: Document
    status: Status


class ApplyPatchCall(Struct, frozen=True, tag_field="type", tag="apply_patch_call", kw_only=True):
    id: str
    call_id: str
    operation: Document
    status: Status


class ToolSearchCall(Struct, frozen=True, tag_field="type", tag="tool_search_call", kw_only=True):
    """A search for more tools. Its arguments are an object, not a string of JSON."""

    id: str
    call_id: str
    execution: Literal["client"] = "client"
    arguments: Document
    status: Status


CallItem: TypeAlias = (
    FunctionCall | CustomToolCall | ShellCall | LocalShellCall | ApplyPatchCall | ToolSearchCall
)
Item: TypeAlias = Message | Reasoning | CallItem | Document
"""What stands in `output`; a plain document is an item of a kind that we pass on as it came."""
