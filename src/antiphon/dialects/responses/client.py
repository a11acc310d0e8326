"""The client half of the Responses format: what clients of `/v1/responses` send and receive."""

from __future__ import annotations

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.openai_error import render_error
from antiphon.dialects.responses.parse import parse_request
from antiphon.dialects.responses.render import make_renderer


class ResponsesClient:
    """The Responses format for clients; implements `ClientDialect`."""

    name = "responses"
    id_header = "x-request-id"
    streams_overflow = True  # Codex compacts a thread only then

    parse = staticmethod(parse_request)
    renderer = staticmethod(make_renderer)
    error = staticmethod(render_error)

    def own_name(self, path: str, request: Request) -> str:
        return path

    def whole(self, response: Response, request: Request, profile: Profile) -> bytes:
        return msgspec.json.encode(response)

    def failure(self, response: Response) -> None:
        return None


RESPONSES = ResponsesClient()
