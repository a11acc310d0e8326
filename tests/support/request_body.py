"""Request bodies as tests write them: bytes, parsed as the gateway parses them."""

from __future__ import annotations

from antiphon.core.request import Request
from antiphon.dialects.responses.parse import parse_request
from antiphon.server.body import decode_body


def parse_body(body: bytes) -> Request:
    """Decode and validate a body, or raise an `InvalidRequest`."""
    return parse_request(decode_body(body))
