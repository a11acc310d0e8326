"""Content blocks of a Messages request as canonical items.

1. Every item has the `place` of its first block, so that a provider of the same format gets the
   blocks in the order of the client.
2. `cache_control` and members that the canonical form has no name for stay with their block.
3. A block of a type without a canonical form is an item of type `client_block`, with its text if it
   has any.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.core.history.capsule import is_capsule
from antiphon.core.items import Document
from antiphon.dialects.anthropic.blocks import REDACTED, THINKING
from antiphon.dialects.anthropic.kept_blocks import CITED, echoed_block, is_own_citation
from antiphon.dialects.anthropic.message_ids import unwrap_call_id
from antiphon.dialects.anthropic.parse_errors import invalid, mapping, type_name
from antiphon.dialects.anthropic.parse_mcp import FORMAT
from antiphon.dialects.anthropic.parse_types import BLOCKS, check_members
from antiphon.dialects.data_url import PDF

_SYSTEM = -1
"""The number of the message that the `system` member is read as."""
_BILLING = "x-anthropic-billing-header:"
_ROLES = ("user", "assistant", "system")


def with_extra(item: Document, block: Mapping[str, Any], *known: str) -> Document:
    """The item with the cache breakpoint of its block, and with the members that are not known."""
    control = block.get("cache_control")
    is_breakpoint = isinstance(control, dict) and control.get("type") == "ephemeral"
    if is_breakpoint:
        item["cache_control"] = control
    names = {*known, "type", *(["cache_control"] if is_breakpoint or control is None else [])}
    members = {name: value for name, value in block.items() if name not in names}
    if members:
        item["extra"] = {"format": FORMAT, "members": members}
    return item


def _client_block(block: Document, text: str = "") -> Document:
    about = {"text": text} if text else {}
    return {"type": "client_block", "format": FORMAT, "block": block, **about}


# --- the system prompt ----------------------------------------------------------------------------


def read_system(system: Any) -> Iterator[Document]:
    """One message for each block of `system`."""
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    if blocks is None:
        return
    if not isinstance(blocks, list):
        raise invalid("system", f"Input should be a string or a list, not {type_name(system)}")
    for index, block in enumerate(blocks):
        place = [_SYSTEM, index]
        part = _read_part(block, f"system.{index}", "input_text")
        if part.get("text", "").startswith(_BILLING):
            # It differs from request to request: other providers would cache nothing.
            yield {**_client_block(block), "role": "system", "hint": True, "place": place}
        else:
            yield {"type": "message", "role": "system", "content": [part], "place": place}


# --- messages -------------------------------------------------------------------------------------


def read_messages(messages: list[Any]) -> Iterator[Document]:
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        if not isinstance(message, dict):
            raise invalid(path, f"Input should be an object, not {type_name(message)}")
        role = message.get("role")
        if role not in _ROLES:
            raise invalid(f"{path}.role", "Input should be 'user', 'assistant' or 'system'")
        reader = _MessageReader(index, role)
        yield from reader.read(message)


class _MessageReader:
    """Reads the blocks of one message into items."""

    def __init__(self, index: int, role: str) -> None:
        self._index = index
        self._role = role
        self._items: list[Document] = []
        self._parts: list[Document] = []
        self._parts_at = 0
        self._thoughts: list[str] = []
        self._thoughts_at = 0

    def read(self, message: Document) -> list[Document]:
        for position, block in enumerate(_content_blocks(message, f"messages.{self._index}")):
            self._read_block(block, position)
        self._end_thoughts()
        self._end_parts()
        extra = with_extra({}, message, "role", "content")
        for item in self._items[:1]:
            if extra and item["type"] == "message":
                item.update(extra)
        return self._items

    def _read_block(self, block: Any, position: int) -> None:
        path = f"messages.{self._index}.content.{position}"
        kind = _block_type(block, path)
        if kind == "thinking":
            self._end_parts()
            self._read_thinking(block, position)
            return
        self._end_thoughts()
        if kind in _ITEMS and (kind != "compaction" or is_own_compaction(block)):
            self._end_parts()
            self._add(_ITEMS[kind](block, path), position)
        elif self._role == "assistant" and kind != "text" and kind not in _PARTS:
            self._end_parts()
            self._add(echoed_block(block), position)
        else:
            self._add_part(_read_part(block, path, self._text_type), position)

    @property
    def _text_type(self) -> str:
        return "output_text" if self._role == "assistant" else "input_text"

    def _add(self, item: Document, position: int) -> None:
        self._items.append({**item, "place": [self._index, position]})

    def _add_part(self, part: Document, position: int) -> None:
        if not self._parts:
            self._parts_at = position
        self._parts.append(part)

    def _end_parts(self) -> None:
        if self._parts:
            item = {"type": "message", "role": self._role, "content": self._parts}
            self._add(item, self._parts_at)
        self._parts = []

    # Thinking

    def _read_thinking(self, block: Document, position: int) -> None:
        """A thought that was rendered in several blocks has its capsule in the last of them."""
        text = _string(block.get("thinking"))
        signature = _string(block.get("signature"))
        if not self._thoughts:
            self._thoughts_at = position
        if is_capsule(signature):
            thoughts, self._thoughts = [*self._thoughts, text], []
            item = {**_reasoning(thoughts), "encrypted_content": signature}
            self._add(item, self._thoughts_at)
        elif signature:
            self._end_thoughts()
            state = {"scheme": THINKING, "value": block}
            self._add({**_reasoning([text]), "states": [state]}, position)
        else:
            self._thoughts.append(text)

    def _end_thoughts(self) -> None:
        """Add thoughts without a signature: no provider gets them back as its own."""
        thoughts, self._thoughts = self._thoughts, []
        if thoughts:
            self._add(_reasoning(thoughts), self._thoughts_at)


def _content_blocks(message: Document, path: str) -> list[Any]:
    content = message.get("content")
    if content is None:
        raise invalid(f"{path}.content", "Field required")
    if not isinstance(content, str | list):
        raise invalid(f"{path}.content", "Input should be a string or a list")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block_type(block: Any, path: str) -> str:
    if not isinstance(block, dict):
        raise invalid(path, f"Input should be an object, not {type_name(block)}")
    kind = block.get("type")
    if not isinstance(kind, str):
        raise invalid(f"{path}.type", "Field required")
    if (shapes := BLOCKS.get(kind)) is not None:
        check_members(block, shapes, path)
    return kind


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reasoning(thoughts: list[str]) -> Document:
    content = [{"type": "reasoning_text", "text": text} for text in thoughts if text]
    return {"type": "reasoning", "summary": [], "content": content}


def _read_redacted(block: Document, path: str) -> Document:
    data = _string(block.get("data"))
    if is_capsule(data):
        return {**_reasoning([]), "encrypted_content": data}
    return {**_reasoning([]), "states": [{"scheme": REDACTED, "value": block}]}


def _read_call(block: Document, path: str) -> Document:
    for name in ("id", "name"):
        if not _string(block.get(name)):
            raise invalid(f"{path}.{name}", "Field required")
    item = {
        "type": "function_call",
        "call_id": unwrap_call_id(block["id"]),
        "name": block["name"],
        "arguments": msgspec.json.encode(block.get("input") or {}).decode(),
    }
    return with_extra(item, block, "id", "name", "input")


def _read_result(block: Document, path: str) -> Document:
    call_id = _string(block.get("tool_use_id"))
    if not call_id:
        raise invalid(f"{path}.tool_use_id", "Field required")
    content = block.get("content")
    if content is not None and not isinstance(content, str | list):
        raise invalid(f"{path}.content", "Input should be a string or a list")
    if isinstance(content, list):
        parts = enumerate(content)
        content = [_read_part(part, f"{path}.content.{at}", "input_text") for at, part in parts]
    item: Document = {
        "type": "function_call_output",
        "call_id": unwrap_call_id(call_id),
        "output": content,
    }
    if block.get("is_error") is not None:
        item["is_error"] = block["is_error"]
    return with_extra(item, block, "tool_use_id", "content", "is_error")


def is_own_compaction(block: Document) -> bool:
    """Whether a compaction was made by the gateway, and not by a provider."""
    return is_capsule(_string(block.get("encrypted_content")))


def _read_compaction(block: Document, path: str) -> Document:
    return {"type": "compaction", "encrypted_content": block["encrypted_content"]}


_ITEMS = {
    "compaction": _read_compaction,
    "redacted_thinking": _read_redacted,
    "tool_use": _read_call,
    "tool_result": _read_result,
}

# --- parts ----------------------------------------------------------------------------------------


def _read_part(block: Any, path: str, text_type: str) -> Document:
    kind = _block_type(block, path)
    if kind == "text":
        if block.get("text") is None:
            raise invalid(f"{path}.text", "Field required")
        return _read_text(block, text_type)
    reader = _PARTS.get(kind)
    part = reader(block) if reader is not None else None
    return _client_block(block, _text_of(block)) if part is None else part


def _read_text(block: Document, text_type: str) -> Document:
    """Text without the citations that the renderer has made of another format: no provider accepts
    them."""
    cited = block.get(CITED)
    if isinstance(cited, list) and any(map(is_own_citation, cited)):
        others = [citation for citation in cited if not is_own_citation(citation)]
        block = {name: value for name, value in block.items() if name != CITED}
        block |= {CITED: others} if others else {}
    return with_extra({"type": text_type, "text": block["text"]}, block, "text")


def _read_image(block: Document) -> Document | None:
    match block.get("source"):
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            url = f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)}:
            pass
        case _:
            return None
    return with_extra({"type": "input_image", "image_url": url}, block, "source")


def _read_document(block: Document) -> Document | None:
    file: Document = {"type": "input_file"}
    match block.get("source"):
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            file["file_data"] = f"data:{kind};base64,{data}"
        case {"type": "text", "data": str(text)}:
            data = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
            file["file_data"] = f"data:text/plain;base64,{data}"
        case {"type": "url", "url": str(url)}:
            file |= {"file_url": url, "media_type": PDF}  # the API fetches no other files
        case {"type": "file", "file_id": str(file_id)}:
            file["file_id"] = file_id
        case _:
            return None
    known = ["source", "title", "context"]
    for name, member in (("filename", "title"), ("context", "context")):
        if block.get(member) is not None:
            file[name] = block[member]
    match block.get("citations"):
        case {"enabled": bool(enabled)}:
            file["citations"] = enabled
            known.append("citations")
    return with_extra(file, block, *known)


def _read_reference(block: Document) -> Document | None:
    name = _string(block.get("tool_name"))
    return {"type": "tool_reference", "name": name} if name else None


_PARTS = {
    "image": _read_image,
    "document": _read_document,
    "tool_reference": _read_reference,
}


def _text_of(block: Document) -> str:
    """The text of a block of another type, for providers that do not know it: a search result, or
    a document of several blocks."""
    content = mapping(block.get("source")).get("content", block.get("content"))
    texts = [_string(block.get("title")), *_texts(content)]
    return "\n".join(text for text in texts if text)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield _string(mapping(part).get("text"))
