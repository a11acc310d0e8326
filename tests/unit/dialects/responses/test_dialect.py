"""The Responses dialect as a whole."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import ToolCall
from antiphon.core.plan.plan import Plan
from antiphon.dialects.responses.dialect import ResponsesDialect
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks
from tests.support.dialect_samples.responses import (
    done,
)
from tests.support.dialect_samples.responses_history import IN_PLAIN

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}


def body(**fields: Any) -> bytes:
    return json.dumps({"object": "response", "id": "resp_1", "model": "m", **fields}).encode()


def test_the_dialect_hides_calls_of_server_tools() -> None:
    dialect = ResponsesDialect(ResponsesQuirks(server_tools=frozenset({"look"})))
    item = CALL | {"arguments": "{}"}
    assert not any(isinstance(d, ToolCall) for d in dialect.decode(body(output=[item])))
    [frame] = dialect.framer().feed(b"data: " + json.dumps(done(0, **item)).encode() + b"\n\n")
    assert not any(isinstance(d, ToolCall) for d in dialect.decoder().feed(frame))


def test_the_dialect_classifies_and_describes_errors() -> None:
    dialect = ResponsesDialect()
    fault = dialect.classify(401, {}, b'{"detail":"Could not parse sk-1"}')
    assert fault.type == "auth"
    assert "sk-1" not in dialect.describe(fault)


def test_the_dialect_encodes_with_its_quirks() -> None:
    plan = Plan(provider="p", model="m", replay_reasoning="always")
    for quirks in (PLAIN, IN_PLAIN):
        written = ResponsesDialect(quirks).encode(plan, stream=True)
        assert written == encode(plan, stream=True, quirks=quirks)
