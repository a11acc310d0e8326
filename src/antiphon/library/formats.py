"""Client formats by name: what the library parses requests with, and renders events to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from antiphon.core.client_profile import OTHER, PROFILES, Profile
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Created, Event
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.client_dialect import ClientDialect, EventBatch
from antiphon.dialects.own_names import rename_diagnostic
from antiphon.dialects.responses.client import RESPONSES
from antiphon.errors import InvalidRequest
from antiphon.framing.sse import SSEDecoder

Format: TypeAlias = Literal["responses", "messages", "chat"]
"""The name of a client format."""
_DIALECTS: Mapping[str, ClientDialect] = {
    dialect.name: dialect for dialect in (RESPONSES, MESSAGES, CHAT)
}
_END = b"[DONE]"


def find_format(name: str) -> ClientDialect:
    """Return the client dialect of a format; raises `InvalidRequest`."""
    if name not in _DIALECTS:
        known = ", ".join(map(repr, _DIALECTS))
        raise InvalidRequest(f"The format {name!r} is unknown; use one of {known}.", param="format")
    return _DIALECTS[name]


def render(events: Iterable[Event], format: Format, *, client: str = OTHER.name) -> bytes:
    """Render events as the body of a stream, as a client of this format reads it.

    The events are those of `ResponseStream.typed` or of a `ResponseMachine`, from the first one on.
    `client` is the name of a client profile. The usage is always part of the stream.
    """
    given = [*events]
    request = _request_of(given)
    renderer = find_format(format).renderer(request, PROFILES.get(client, OTHER))
    return renderer.feed(EventBatch(0, given)) + renderer.close()


def render_documents(events: Sequence[Event], format: Format) -> list[Document]:
    """Return the documents of all events of a response."""
    return RenderedDocuments(find_format(format), _request_of(events), OTHER).feed(events)


def _request_of(events: Sequence[Event]) -> Request:
    """Make a request that events could have come of."""
    model = events[0].response.model if events and isinstance(events[0], Created) else ""
    options = {"include_usage": True}
    return Request(raw={}, model=model, stream=True, stream_options=options)


class RenderedDocuments:
    """Events of one response as the documents that a client of a format parses."""

    def __init__(self, dialect: ClientDialect, request: Request, profile: Profile) -> None:
        self._dialect = dialect
        self._request = request
        self._profile = profile
        self._renderer = dialect.renderer(request, profile)
        self._frames = SSEDecoder()
        self._count = 0

    def rename(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return a diagnostic with the names that the format has for what it is about."""
        own_name = partial(self._dialect.own_name, request=self._request)
        return rename_diagnostic(diagnostic, own_name)

    def feed(self, events: Sequence[Event]) -> list[Document]:
        """Return the documents of the next events."""
        data = self._renderer.feed(EventBatch(self._count, events))
        self._count += len(events)
        return [
            msgspec.json.decode(frame.data)
            for frame in self._frames.feed(data)
            if frame.data != _END
        ]

    def whole(self, response: Response) -> Document:
        """Return a response that is not streamed, or the error in its place."""
        failed = self._dialect.failure(response) if response.status == "failed" else None
        body = self._dialect.whole(response, self._request, self._profile)
        document: Document = msgspec.json.decode(body if failed is None else failed.body)
        return document
