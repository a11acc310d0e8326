"""The client half of Messages: what clients of `/v1/messages` send and receive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.core.stream.usage import estimate_tokens
from antiphon.dialects.anthropic.errors import render_error, render_failure
from antiphon.dialects.anthropic.own_names import own_name
from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.dialects.anthropic.parse_mcp import LISTING_BETA
from antiphon.dialects.anthropic.render import MessagesRenderer
from antiphon.dialects.anthropic.render_message import render_whole
from antiphon.dialects.client_dialect import NO_HEADERS, ErrorReply, Problem

_TEXTS = ("text", "arguments", "output", "name")


class MessagesClient:
    """The Messages format for clients; implements `ClientDialect`."""

    name = "messages"
    id_header = "request-id"
    streams_overflow = False

    def parse(
        self,
        document: Document,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        is_large: bool = False,
        is_count: bool = False,
    ) -> Request:
        return parse_messages(document, headers=headers, is_large=is_large, is_count=is_count)

    def own_name(self, path: str, request: Request) -> str:
        return own_name(path, request)

    def renderer(self, request: Request, profile: Profile) -> MessagesRenderer:
        return MessagesRenderer(
            estimate_input(request),
            ends_with_text=profile.ends_with_text,
            lists_tools=_lists_tools(request),
        )

    def whole(self, response: Response, request: Request, profile: Profile) -> bytes:
        return render_whole(
            response, ends_with_text=profile.ends_with_text, lists_tools=_lists_tools(request)
        )

    def failure(self, response: Response) -> ErrorReply:
        return render_failure(response)

    def error(self, problem: Problem) -> ErrorReply:
        return render_error(problem)


MESSAGES = MessagesClient()


def _lists_tools(request: Request) -> bool:
    return request.betas is not None and LISTING_BETA in request.betas


def estimate_input(request: Request) -> int:
    """Estimate the input tokens of a request, for the start of a stream: text, calls, results and
    tools; media count nothing.

    The API tells them with the first event, most providers with the last one. Clients show the
    number, and some decide by it when to compact a conversation; the end of the stream has the
    exact one."""
    length = sum(len(text) for item in request.input for text in _texts(item))
    if request.tools:
        length += len(msgspec.json.encode(request.tools))
    return estimate_tokens(length)


def _texts(value: Any) -> Iterator[str]:
    """The texts of an item and its content parts."""
    for name in _TEXTS:
        text = value.get(name)
        if isinstance(text, str):
            yield text
    for name in ("content", "output", "summary"):
        parts = value.get(name)
        for part in parts if isinstance(parts, list) else ():
            yield from _texts(part)
