"""The client half of Messages."""

from __future__ import annotations

import json

from antiphon.core.client_profile import OTHER
from antiphon.core.response import Response
from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.client_dialect import ClientDialect, EventBatch, Problem

BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def test_it_is_a_client_dialect() -> None:
    dialect: ClientDialect = MESSAGES
    assert dialect.name == "messages"


def test_a_body_is_parsed_with_its_headers() -> None:
    request = MESSAGES.parse(BODY, headers={"anthropic-beta": "a"}, is_large=True)
    assert (request.betas, request.is_large) == (("a",), True)
    assert MESSAGES.parse(BODY, is_count=True).betas is None


def test_responses_and_errors_are_rendered() -> None:
    request = MESSAGES.parse(BODY)
    renderer = MESSAGES.renderer(request, OTHER)
    assert renderer.feed(EventBatch(0, [])) == b""
    response = Response(id="resp_1", created_at=0, model="m", status="completed")
    assert json.loads(MESSAGES.whole(response, request, OTHER))["id"] == "msg_1"
    assert MESSAGES.failure(response).status == 502
    assert MESSAGES.error(Problem(status=404, message="m")).status == 404
