"""Decode version 1 of Cohere's chat API, for recordings and proxies that still use it.

Events have an `event_type`; text is streamed, calls come whole, and text beside calls is the tool
plan that led to them. Requests are never sent in this version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.deltas import Delta, Extra, Finish, Start, Text, ToolCall, ToolEnd
from antiphon.dialects.cohere.reasoning_state import TOOL_PLAN, ReasoningBlocks
from antiphon.dialects.cohere.usage import read_usage
from antiphon.dialects.content_blocks import url_citation
from antiphon.dialects.json_input import NULL, decode_lenient, decode_unexpected, nonempty_string
from antiphon.dialects.tool_call_json import NativeCall, read_calls
from antiphon.dialects.usage import count


class _V1Reply(Struct):
    """A whole response, which also ends a stream; an event has some of its fields."""

    event_type: Any = None
    generation_id: Any = None
    text: Any = None
    tool_calls: Raw = NULL
    citations: Any = None
    documents: Any = None
    finish_reason: Any = None
    meta: Any = None
    response: Any = None


_read_reply = msgspec.json.Decoder(_V1Reply).decode


class CohereV1Decoder:
    """Events of one streamed response, or one whole response → deltas."""

    def __init__(self) -> None:
        self._reasoning = ReasoningBlocks()
        self._has_plan = False
        self.ended = False

    def feed(self, data: bytes) -> list[Delta]:
        """Decode an event; raises one of `UNREADABLE` if it cannot be read."""
        reply = decode_lenient(_read_reply, data)
        match reply.event_type:
            case None:
                return self._read_whole(reply)
            case "stream-start":
                return [Start(None, nonempty_string(reply.generation_id))]
            case "text-generation":
                return self._read_text(reply)
            case "tool-calls-chunk":
                return self._read_plan(reply)  # the calls in it come again, whole
            case "tool-calls-generation":
                return self._read_calls(reply)
            case "stream-end":
                return self._read_end(reply)
            case _:
                return decode_unexpected(data)

    def _read_whole(self, reply: _V1Reply) -> list[Delta]:
        start = Start(None, nonempty_string(reply.generation_id))
        output = self._read_calls(reply) or self._read_text(reply)
        cited = _cite(reply.citations, reply.documents)
        # A whole response of February 2024 has no finish reason.
        reason = nonempty_string(reply.finish_reason) or ("COMPLETE" if output else None)
        return [start, *output, *cited, *read_usage(reply.meta), Finish(reason)]

    def _read_text(self, reply: _V1Reply) -> list[Delta]:
        text = nonempty_string(reply.text)
        return [] if text is None else [Text(text)]

    def _read_plan(self, reply: _V1Reply) -> list[Delta]:
        text = nonempty_string(reply.text)
        if text is None:
            return []
        self._has_plan = True
        return self._reasoning.add(TOOL_PLAN, 0, text)

    def _read_calls(self, reply: _V1Reply) -> list[Delta]:
        calls = read_calls(reply.tool_calls)
        if not calls:
            return []
        deltas = [] if self._has_plan else self._read_plan(reply)
        deltas += self._reasoning.end()
        for index, call in enumerate(calls):
            if isinstance(call, NativeCall):
                deltas.append(ToolCall(index, call.call_id, call.name, call.arguments or "{}"))
                deltas.append(ToolEnd(index))
            else:
                deltas.append(call)
        return deltas

    def _read_end(self, reply: _V1Reply) -> list[Delta]:
        self.ended = True
        response = reply.response if isinstance(reply.response, dict) else {}
        cited = _cite(response.get("citations"), response.get("documents"))
        finish = Finish(nonempty_string(reply.finish_reason))
        return [*cited, *read_usage(response.get("meta")), finish]


def _cite(citations: Any, documents: Any) -> Iterator[Delta]:
    """Citations of the whole text. They name documents by id, of which those of a search have a
    URL; one without any is an `Extra`."""
    pages = {each["id"]: each for each in _list(documents) if _is_page(each)}
    for citation in _list(citations):
        ids = citation.get("document_ids") if isinstance(citation, dict) else None
        found = [pages[each] for each in _list(ids) if isinstance(each, str) and each in pages]
        if not found:
            yield Extra("citation", citation)
        for page in found:
            start, end = count(citation.get("start")), count(citation.get("end"))
            yield url_citation(page["url"], page.get("title"), start, end)


def _is_page(document: Any) -> bool:
    match document:
        case {"id": str(), "url": str(url)}:
            return url != ""
    return False


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
