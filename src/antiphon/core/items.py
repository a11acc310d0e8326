"""Output items and their content parts, as the API sends them.

A field that the API omits rather than sends as null is `UNSET` by default. Items are immutable; one
that is still being generated is a block (`core.stream.blocks`), which builds these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

Document: TypeAlias = dict[str, Any]
"""A JSON object. The only alias of this name."""
Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]


class CacheBreakpoint(Struct, frozen=True):
    """The client wants the prompt to be cached up to here. A hint: other providers ignore it."""

    ttl: str | None = None
    scope: str | None = None


class OutputText(Struct, frozen=True, tag_field="type", tag="output_text"):
    text: str = ""
    annotations: Sequence[Document] = ()
    logprobs: Sequence[Document] = ()
    extra: Document | UnsetType = UNSET
    """`{"format": …, "members": {…}}`: members of the provider's own content block that have no
    name here, for a client of the same format. Other clients get none. Not in the API."""


class RefusalText(Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str = ""


class ReasoningText(Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    text: str = ""


class SummaryText(Struct, frozen=True, tag_field="type", tag="summary_text"):
    text: str = ""


Part: TypeAlias = OutputText | RefusalText | ReasoningText


class Message(Struct, frozen=True, tag_field="type", tag="message"):
    id: str
    status: Status
    role: Literal["assistant"] = "assistant"
    content: Sequence[OutputText | RefusalText] = ()
    phase: str | UnsetType = UNSET
    """The provider's label: commentary, or the final answer."""


class ReasoningItem(Struct, frozen=True, tag_field="type", tag="reasoning", kw_only=True):
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
    extra: Document | UnsetType = UNSET
    """As `OutputText.extra`."""


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
    """A search for further tools. Its arguments are an object, not a JSON string."""

    id: str
    call_id: str
    execution: Literal["client"] = "client"
    arguments: Document
    status: Status


CallItem: TypeAlias = (
    FunctionCall | CustomToolCall | ShellCall | LocalShellCall | ApplyPatchCall | ToolSearchCall
)
Item: TypeAlias = Message | ReasoningItem | CallItem | Document
"""An element of `output`; a plain object is an item of a type that passes through unchanged."""
