"""Frames that clients send: `response.create`, with the body of a request, and `response.steer`."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.items import Document
from antiphon.dialects.validate import boolean, enum, missing_parameter
from antiphon.errors import InvalidRequest

_STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_TYPE = enum("response.create", "response.steer")
_ENVELOPE = frozenset({"type", "stream_id", "generate", "stream", "background"})
"""Fields that belong to the connection. A response is always streamed, whatever `stream` says."""


class CreateFrame(Struct, frozen=True, kw_only=True):
    """A request for a response, not validated yet."""

    stream_id: str | None
    """The lane; None for the default lane."""
    document: Document

    @property
    def parent_id(self) -> str | None:
        """The response that this one continues."""
        parent_id = self.document.get("previous_response_id")
        return parent_id if isinstance(parent_id, str) else None

    def read_generate(self) -> bool:
        """Whether output is requested; without it, the request prepares the history of others."""
        generate = self.document.get("generate")
        return generate is None or boolean(generate, "generate")

    @property
    def body(self) -> Document:
        """The request as `POST /v1/responses` would have it."""
        fields = self.document.items()
        body = {name: value for name, value in fields if name not in _ENVELOPE}
        return {**body, "stream": True}

    def check(self) -> None:
        """Raise `InvalidRequest` for fields that are not supported over a WebSocket."""
        if self.document.get("background"):
            raise InvalidRequest(
                "'background' is not supported over a WebSocket: use POST /v1/responses.",
                param="background",
                code="unsupported_parameter",
            )


class SteerFrame(Struct, frozen=True, kw_only=True):
    """Further input for a response that is being generated."""

    response_id: Any
    input: Any


ClientFrame: TypeAlias = CreateFrame | SteerFrame


def read_frame(document: Document) -> ClientFrame:
    """Read what a frame is, and for which lane; raises `InvalidRequest`."""
    if document.get("type") is None:
        raise missing_parameter("type", " ('response.create')")
    if _TYPE(document["type"], "type") == "response.create":
        return CreateFrame(stream_id=read_stream_id(document), document=document)
    return SteerFrame(response_id=document.get("previous_response_id"), input=document.get("input"))


def read_stream_id(document: Document) -> str | None:
    """Read the name of the lane; raises `InvalidRequest`."""
    stream_id = document.get("stream_id")
    if stream_id is None:
        return None
    if isinstance(stream_id, str) and _STREAM_ID.fullmatch(stream_id):
        return stream_id
    raise InvalidRequest(
        "'stream_id' must have 1 to 256 letters, digits, underscores, hyphens or periods.",
        param="stream_id",
        code="invalid_stream_id",
    )


def binary_frame_error() -> InvalidRequest:
    return InvalidRequest("A frame must be text, with a JSON object; this one is binary.")
