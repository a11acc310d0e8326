"""The client half of Chat Completions: what clients of `/v1/chat/completions` send and receive."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.core.client_profile import Profile
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.chat.errors import render_error, render_failure
from antiphon.dialects.chat.own_names import own_name
from antiphon.dialects.chat.parse import parse_chat
from antiphon.dialects.chat.render import ChatRenderer, render_whole
from antiphon.dialects.client_dialect import NO_HEADERS, ErrorReply, Problem


class ChatClient:
    """The Chat Completions format for clients; implements `ClientDialect`."""

    name = "chat"
    id_header = "x-request-id"
    streams_overflow = False

    def parse(
        self,
        document: Document,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        is_large: bool = False,
        is_count: bool = False,
    ) -> Request:
        return parse_chat(document, is_large=is_large)

    def own_name(self, path: str, request: Request) -> str:
        return own_name(path, request)

    def renderer(self, request: Request, profile: Profile) -> ChatRenderer:
        return ChatRenderer(request, profile)

    def whole(self, response: Response, request: Request, profile: Profile) -> bytes:
        return render_whole(response, request, profile)

    def failure(self, response: Response) -> ErrorReply:
        """A message that broke off would look like a whole one."""
        return render_failure(response)

    def error(self, problem: Problem) -> ErrorReply:
        return render_error(problem)


CHAT = ChatClient()
