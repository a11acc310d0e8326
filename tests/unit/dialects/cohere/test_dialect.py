"""The Cohere dialect as a whole."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Text
from antiphon.core.plan.plan import Plan
from antiphon.dialects.cohere.dialect import CohereDialect
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.framing.sse import SSEDecoder

TOKENS = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2}


USAGE = {"billed_units": {"input_tokens": 1}, "tokens": TOKENS, "cached_tokens": 4}


PIECE = {"type": "content-delta", "delta": {"message": {"content": {"text": "a"}}}}


def whole(finish: Any = "COMPLETE", **message: Any) -> bytes:
    body = {"id": "r", "message": message, "finish_reason": finish, "usage": USAGE}
    return json.dumps(body).encode()


def test_the_dialect_decodes_events_and_encodes_requests() -> None:
    dialect = CohereDialect(quirks=CohereQuirks(fields={"safety_mode": "OFF"}))
    [frame] = dialect.framer().feed(b"data: %b\n\n" % json.dumps(PIECE).encode())
    assert isinstance(dialect.framer(), SSEDecoder)
    assert dialect.decoder().feed(frame) == [Text("a")]
    assert Text("a") in dialect.decode(whole(content="a"))
    plan = Plan(provider="p", model="m")
    outbound = dialect.encode(plan, stream=True)
    assert outbound == encode(plan, stream=True, quirks=CohereQuirks(fields={"safety_mode": "OFF"}))
    assert json.loads(outbound.body)["safety_mode"] == "OFF"


def test_an_error_is_classified_and_described() -> None:
    dialect = CohereDialect()
    fault = dialect.classify(429, {}, b'{"message":"slow down, sk-1"}')
    assert (fault.type, fault.retryable) == ("rate_limit", True)
    assert "sk-1" not in dialect.describe(fault)
