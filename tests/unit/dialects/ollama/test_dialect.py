"""The Ollama dialect as a whole."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Text
from antiphon.core.plan.plan import Plan
from antiphon.dialects.ollama.dialect import OllamaDialect
from antiphon.dialects.ollama.encode import encode
from antiphon.dialects.ollama.quirks import OllamaQuirks
from antiphon.framing.ndjson import NDJSONDecoder


def line(message: Any = None, **fields: Any) -> bytes:
    body = fields if message is None else {"message": message, **fields}
    return json.dumps({"done": False, **body}).encode()


def test_the_dialect_decodes_lines_and_encodes_requests() -> None:
    dialect = OllamaDialect(quirks=OllamaQuirks(options={"num_ctx": 8192}))
    [frame] = dialect.framer().feed(line({"content": "a"}) + b"\n")
    assert isinstance(dialect.framer(), NDJSONDecoder)
    assert dialect.decoder().feed(frame) == [Text("a")]
    assert dialect.decode(line({"content": "a"})) == [Text("a")]
    plan = Plan(provider="p", model="m")
    outbound = dialect.encode(plan, stream=True)
    assert outbound == encode(plan, stream=True, quirks=OllamaQuirks(options={"num_ctx": 8192}))
    assert json.loads(outbound.body)["options"] == {"num_ctx": 8192}


def test_an_error_is_classified_and_described() -> None:
    dialect = OllamaDialect()
    fault = dialect.classify(503, {}, b'{"error":"server busy, sk-1"}')
    assert (fault.type, fault.retryable) == ("provider_overloaded", True)
    assert "sk-1" not in dialect.describe(fault)
