"""Anthropic Messages as a dialect."""

from __future__ import annotations

import json

from antiphon.core.deltas import Start, Text
from antiphon.core.plan.plan import Plan
from antiphon.dialects.anthropic import encode as anthropic_request
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from antiphon.dialects.anthropic.quirks import AnthropicQuirks


def test_the_dialect_encodes_with_its_quirks() -> None:
    plan = Plan(provider="p", model="m")
    quirks = AnthropicQuirks(max_tokens=5, caching="off")
    outbound = AnthropicDialect(quirks=quirks).encode(plan, stream=True)
    assert outbound == anthropic_request.encode(plan, stream=True, quirks=quirks)
    assert json.loads(outbound.body)["max_tokens"] == 5


def test_the_dialect_decodes_streams_and_whole_answers() -> None:
    dialect = AnthropicDialect()
    data = b'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text":"a"}}\n\n'
    [frame] = dialect.framer().feed(data)
    assert dialect.decoder().feed(frame) == [Text("a")]
    assert dialect.decode(b"{}") == [Start()]


def test_the_dialect_classifies_and_describes_errors() -> None:
    dialect = AnthropicDialect()
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"sk-1"}}'
    fault = dialect.classify(529, {}, body)
    assert fault.type == "provider_overloaded"
    for name in ("en", "zh", "xx-YY"):
        assert "sk-1" not in dialect.describe(fault, name)
