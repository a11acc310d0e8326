"""Lists of tools and results of calls, read from the protocol's JSON and bounded."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpImage, McpResult, McpTool

_MAX_NAME_CHARS = 128
_MAX_DESCRIPTION_BYTES = 32 * 1024
_MAX_SCHEMA_BYTES = 128 * 1024
_MAX_DEPTH = 32


class ReadTools(Struct, frozen=True):
    """The tools of a server that can be used, and the names of those that cannot."""

    tools: tuple[McpTool, ...] = ()
    left_out: tuple[str, ...] = ()
    size: int = 0
    """Bytes of the tools that can be used, as JSON."""


def read_tools(listed: Iterable[Mapping[str, Any]], before: ReadTools | None = None) -> ReadTools:
    """Read one page of tools as a server lists them, after those of the pages before. A tool whose
    name, description or schema exceeds its limit, or whose name another one has, is left out."""
    before = before or ReadTools()
    tools = {tool.name: tool for tool in before.tools}
    left_out = [*before.left_out]
    size = before.size
    for entry in listed:
        tool = McpTool(
            name=entry["name"],
            description=entry.get("description", ""),
            input_schema=entry["inputSchema"],
            annotations=entry.get("annotations"),
        )
        if tool.name in tools or not _fits(tool):
            left_out.append(tool.name[:_MAX_NAME_CHARS])
        else:
            tools[tool.name] = tool
            size += len(msgspec.json.encode(tool))
    return ReadTools(tuple(tools.values()), tuple(left_out), size)


def _fits(tool: McpTool) -> bool:
    document = (tool.input_schema, tool.annotations)
    return (
        0 < len(tool.name) <= _MAX_NAME_CHARS
        and tool.name.isprintable()
        and len(tool.description.encode()) <= _MAX_DESCRIPTION_BYTES
        and not _is_deeper(document, _MAX_DEPTH)
        and len(msgspec.json.encode(document)) <= _MAX_SCHEMA_BYTES
    )


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and arrays are nested deeper than this."""
    level = [value]
    for _ in range(levels + 1):
        inner = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [
            each for group in inner for each in group if isinstance(each, (Mapping, list, tuple))
        ]
        if not level:
            return False
    return True


class _Collected:
    """What a result holds so far, within the limits."""

    def __init__(self, max_bytes: int) -> None:
        self._room = max_bytes
        self.texts: list[str] = []
        self.images: list[McpImage] = []
        self.left_out = 0

    def add_text(self, text: str) -> None:
        encoded = text.encode("utf-8", "surrogatepass")
        kept = encoded[: self._room]
        if len(kept) < len(encoded):
            self.left_out += len(encoded) - len(kept)
            text = kept.decode("utf-8", "ignore")
        self._room -= len(kept)
        if text or not encoded:
            self.texts.append(text)

    def leave_out(self, size: int) -> None:
        self.left_out += size

    def add_image(self, media_type: str, data: str) -> None:
        if len(data) > self._room:
            self.left_out += len(data)
            return
        if not _is_base64(data):
            self.add_text(f"[an image of type {media_type} that cannot be read]")
            return
        self._room -= len(data)
        self.images.append(McpImage(media_type=media_type, data=data))


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def read_result(document: Mapping[str, Any], config: McpConfig) -> McpResult:
    """Read the result of a call; what exceeds the limits is counted in `left_out`."""
    collected = _Collected(config.max_result_bytes)
    parts = document["content"]
    for part in parts[: config.max_result_parts]:
        _add_part(collected, part)
    for part in parts[config.max_result_parts :]:
        collected.leave_out(len(msgspec.json.encode(part)))
    structured = document.get("structuredContent")
    if structured is not None and not _is_repeated(structured, parts):
        collected.add_text(msgspec.json.encode(structured).decode())
    return McpResult(
        text="\n".join(collected.texts),
        images=tuple(collected.images),
        is_error=document.get("isError") is True,
        left_out=collected.left_out,
    )


def _is_repeated(structured: Any, parts: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a text of the result says the same as its structured content, as the protocol
    recommends. A value that is no object is sent as `{"result": …}`."""
    same = [structured]
    if isinstance(structured, Mapping) and [*structured] == ["result"]:
        same.append(structured["result"])
    texts = [part["text"] for part in parts if part["type"] == "text"]
    values = [_decode(text) for text in texts]
    return any(each in values or each in texts for each in same) or _is_list(same[-1], values)


def _is_list(value: Any, values: list[Any]) -> bool:
    """Whether a list was sent as one text for each of its elements."""
    return isinstance(value, list) and value == values


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _add_part(collected: _Collected, part: Mapping[str, Any]) -> None:
    kind = part["type"]
    if kind == "text":
        collected.add_text(part["text"])
    elif kind == "image":
        _add_data(collected, part["mimeType"], part["data"], "image")
    elif kind == "audio":
        _add_data(collected, part["mimeType"], part["data"], "audio")
    elif kind == "resource":
        _add_resource(collected, part["resource"])
    else:  # resource_link
        described = part.get("description")
        text = f"[resource {part['uri']}: {part.get('title') or part['name']}]"
        collected.add_text(f"{text} {described}" if described else text)


def _add_resource(collected: _Collected, resource: Mapping[str, Any]) -> None:
    uri = resource["uri"]
    if "text" in resource:
        collected.add_text(f"[resource {uri}]\n{resource['text']}")
    else:
        media_type = resource.get("mimeType", "application/octet-stream")
        _add_data(collected, media_type, resource["blob"], f"resource {uri}")


def _add_data(collected: _Collected, media_type: str, data: str, name: str) -> None:
    """Add an image; for other data, say that it is left out."""
    if media_type.startswith("image/"):
        collected.add_image(media_type, data)
    else:
        collected.add_text(f"[{name}: data of type {media_type}, which is left out]")
        collected.leave_out(len(data))
