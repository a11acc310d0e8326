"""Every captured Codex request, over HTTP and in WebSocket frames, is parsed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from openai.types.responses import Response as OfficialResponse

from antiphon.dialects.responses.create_response import create_response
from tests.support import captured_requests as captured
from tests.support.request_body import parse_body
from tests.support.tables import table

BODIES = captured.bodies()

pytestmark = pytest.mark.skipif(not BODIES, reason=captured.ABSENT)
every_body = table("body", BODIES.values(), ids=BODIES.keys())


@every_body
def test_a_codex_request_is_parsed_without_loss(body: dict[str, Any]) -> None:
    request = parse_body(json.dumps(body).encode())
    assert request.raw == body
    assert list(request.input) == body["input"]
    assert list(request.tools) == body.get("tools", [])
    assert request.unknown == ()


@every_body
def test_fields_of_a_codex_request_are_typed(body: dict[str, Any]) -> None:
    request = parse_body(json.dumps(body).encode())
    assert (request.stream, request.store) == (True, False)
    assert request.include == {"reasoning.encrypted_content"}
    assert request.parallel_tool_calls is body["parallel_tool_calls"]
    assert request.effort == body["reasoning"].get("effort")
    assert request.summary == body["reasoning"].get("summary")
    assert request.verbosity == body.get("text", {}).get("verbosity")
    assert request.previous_response_id == body.get("previous_response_id")


@every_body
def test_the_response_to_codex_is_one_the_official_client_accepts(body: dict[str, Any]) -> None:
    request = parse_body(json.dumps(body).encode())
    response = create_response(request, response_id="resp_1", created_at=1)
    document = msgspec.json.decode(msgspec.json.encode(response))
    accepted = OfficialResponse.model_validate(document)
    assert [tool.type for tool in accepted.tools] == [each["type"] for each in request.tools]


def test_an_output_schema_is_the_text_format() -> None:
    body = BODIES["15-image-input-and-output-schema"]
    request = parse_body(json.dumps(body).encode())
    assert request.text_format == body["text"]["format"]
    assert request.text_format["name"] == "codex_output_schema"
