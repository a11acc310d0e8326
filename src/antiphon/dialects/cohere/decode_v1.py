"""The first version of Cohere's chat, read only: old recordings and proxies still speak it.

Events have an `event_type`; text comes in pieces, calls come whole, and a text beside calls is the
plan that led to them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.stream.deltas import Delta, Extra, Finish, Start, Text, ToolCall, ToolEnd
from antiphon.dialects.cohere.reasoning_state import TOOL_PLAN, Thoughts
from antiphon.dialects.cohere.usage import read_usage
from antiphon.dialects.json_input import NULL, read, string, surprise
from antiphon.dialects.tool_call_json import NativeCall, read_calls


class _Reply(Struct):
    """A whole answer, which also ends a stream; an event has some of its fields."""

    event_type: Any = None
    generation_id: Any = None
    text: Any = None
    tool_calls: Raw = NULL
    citations: Any = None
    finish_reason: Any = None
    meta: Any = None
    response: Any = None


_read_reply = msgspec.json.Decoder(_Reply).decode


class CohereV1Decoder:
    """The events of one streamed answer, or one whole answer → deltas."""

    def __init__(self) -> None:
        self._thoughts = Thoughts()
        self._planned = False
        self.ended = False

    def feed(self, data: bytes) -> list[Delta]:
        """What an event says; raises one of `UNREADABLE` if that cannot be read."""
        reply = read(_read_reply, data)
        match reply.event_type:
            case None:
                return self._whole(reply)
            case "stream-start":
                return [Start(None, string(reply.generation_id))]
            case "text-generation":
                return [*self._text(reply)]
            case "tool-calls-chunk":
                return self._plan(reply)  # its pieces of calls come again, as a whole
            case "tool-calls-generation":
                return self._calls(reply)
            case "stream-end":
                return self._end(reply)
            case _:
                return surprise(data)

    def _whole(self, reply: _Reply) -> list[Delta]:
        said = self._calls(reply) or self._text(reply)
        cited = [Extra("citations", reply.citations)] if reply.citations else []
        start = Start(None, string(reply.generation_id))
        finish = Finish(string(reply.finish_reason))
        return [start, *said, *cited, *read_usage(reply.meta), finish]

    def _text(self, reply: _Reply) -> list[Delta]:
        text = string(reply.text)
        return [] if text is None else [Text(text)]

    def _plan(self, reply: _Reply) -> list[Delta]:
        text = string(reply.text)
        if text is None:
            return []
        self._planned = True
        return self._thoughts.grow(TOOL_PLAN, 0, text)

    def _calls(self, reply: _Reply) -> list[Delta]:
        calls = read_calls(reply.tool_calls)
        if not calls:
            return []
        deltas = [] if self._planned else self._plan(reply)
        deltas += self._thoughts.end()
        for index, call in enumerate(calls):
            if isinstance(call, NativeCall):
                deltas.append(ToolCall(index, call.call_id, call.name, call.arguments or "{}"))
                deltas.append(ToolEnd(index))
            else:
                deltas.append(call)
        return deltas

    def _end(self, reply: _Reply) -> list[Delta]:
        self.ended = True
        response = reply.response if isinstance(reply.response, dict) else {}
        return [*read_usage(response.get("meta")), Finish(string(reply.finish_reason))]
