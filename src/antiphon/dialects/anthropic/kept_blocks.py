"""Content blocks that are kept as they are, for a client of the same format.

A block that no other format has (of tools that the provider runs, or of an unknown type) is an item
of type `client_block`, the same that such a block of a client's history is read as. Other blocks
keep the members that have no canonical name as `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon.core.deltas import (
    BlockMembers,
    BlockStart,
    Delta,
    RawItem,
    RawItemEvent,
    RawItemStarted,
)
from antiphon.core.items import Document
from antiphon.dialects.anthropic.parse_mcp import FORMAT, call_of_block
from antiphon.dialects.content_blocks import Annotate, OpaqueBlock, TextBlock

CLIENT_BLOCK = "client_block"
OWN_SEARCH = "srvtoolu_ap1"
"""The begin of the ids of searches that were not made by a provider of this format. Their blocks
were written by the renderer, and no provider accepts them: it would miss its own encrypted
content. The results are in the sealed state of the thread."""
BLOCK_DELTA = "response.client_block.delta"
"""The event of a piece of such a block."""
_MODEL_TYPES = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_SEARCH = "web_search"
_SEARCH_RESULT = "web_search_tool_result"
CITED = "citations"
"""The member of a text that has its citations."""


def client_block(block: Document) -> Document:
    """The item of a block of the assistant. Other providers may get a call, or its result, instead
    of it."""
    item: Document = {"type": CLIENT_BLOCK, "role": "assistant", "format": FORMAT, "block": block}
    call = call_of_block(block) or _hosted_call(block)
    return item if call is None else item | {"instead": call}


def echoed_block(block: Document) -> Document:
    """The item of a block that a client sends back. One that the renderer has made is for no
    provider."""
    call_id = block.get("tool_use_id" if block.get("type") == _SEARCH_RESULT else "id")
    is_own = isinstance(call_id, str) and call_id.startswith(OWN_SEARCH)
    return client_block(block) | ({"format": "", "hint": True} if is_own else {})


def _hosted_call(block: Document) -> Document | None:
    """The call or the result of a tool that the provider runs: code, a page that it fetches. What
    a search has found is part of the text after it, and the rest of it is encrypted."""
    match block:
        case {"type": "server_tool_use", "id": str(call_id), "name": str(name)}:
            arguments = msgspec.json.encode(block.get("input") or {}).decode()
            call = {"type": "function_call", "call_id": call_id, "name": name}
            return None if name == _SEARCH else call | {"arguments": arguments}
        case {"type": str(kind), "tool_use_id": str(call_id)} if kind.endswith("_tool_result"):
            output = msgspec.json.encode(block.get("content")).decode()
            result = {"type": "function_call_output", "call_id": call_id, "output": output}
            return None if kind == _SEARCH_RESULT else result
    return None


def is_server_block(block: Any) -> bool:
    """Whether an assistant's block is one of the provider's own tools, or what it has made of the
    context."""
    return isinstance(block, dict) and block.get("type") not in _MODEL_TYPES


def is_own_citation(citation: Any) -> bool:
    """Whether the renderer has made a citation: of a result that the provider cannot know."""
    return isinstance(citation, dict) and citation.get("encrypted_index") == ""


def make_extra(members: Mapping[str, Any]) -> Document:
    return {"format": FORMAT, "members": dict(members)}


def other_members(block: Mapping[str, Any], *known: str) -> Document:
    """The members of a block that have no canonical name."""
    return {name: value for name, value in block.items() if name not in known and name != "type"}


class KeptBlock(OpaqueBlock):
    """A block that is passed on as it is; its input may come in pieces."""

    def __init__(self, number: int, block: Document) -> None:
        """`number` is that of the raw item."""
        self._number = number
        self._block = block
        self._input: list[str] = []

    def open(self) -> list[Delta]:
        return [RawItemStarted(self._number, client_block(self._block))]

    def write(self, delta: Document) -> list[Delta]:
        match delta:
            case {"type": "input_json_delta", "partial_json": str(fragment)}:
                self._input.append(fragment)
            case _:  # such as the content of a compaction
                self._block = self._block | other_members(delta)
        return [RawItemEvent(self._number, BLOCK_DELTA, {"delta": delta})]

    def close(self) -> list[Delta]:
        return [RawItem(client_block(self._block | self._whole_input()), self._number)]

    def _whole_input(self) -> Document:
        """The input that came in pieces; one that was cut off is not JSON, and left out."""
        try:
            return {"input": msgspec.json.decode("".join(self._input))}
        except (msgspec.DecodeError, RecursionError):
            return {}


class KeptText(TextBlock):
    """Text that is a part of its own, and has the members of its block. Citations count from its
    first character."""

    def __init__(self, annotate: Annotate, citations: Sequence[Any], members: Document) -> None:
        super().__init__(0, annotate, citations)
        self._members = members
        self._opened: BlockStart | None = BlockStart("text", make_extra(members))

    def write(self, text: Any) -> list[Delta]:
        """An empty block begins no item."""
        deltas = super().write(text)
        if self._opened is None or not deltas:
            return deltas
        opened, self._opened = self._opened, None
        return [opened, *deltas]

    def close(self) -> list[Delta]:
        annotations = super().close()
        if CITED not in self._members or not self._citations:
            return annotations
        whole = self._members | {CITED: self._citations}
        return [*annotations, BlockMembers(make_extra(whole))]
