"""Chat Completions as a client dialect."""

from __future__ import annotations

import json

from antiphon.core.client_profile import OTHER
from antiphon.core.response import Response
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.client_dialect import ClientDialect, Problem
from antiphon.dialects.responses.client import RESPONSES


def test_a_request_is_parsed_rendered_and_answered() -> None:
    dialect: ClientDialect = CHAT
    document = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    request = dialect.parse(document, is_large=True)
    assert (request.model, request.is_large) == ("m", True)
    assert dialect.renderer(request, OTHER).close() == b"data: [DONE]\n\n"
    whole = dialect.whole(Response(id="resp_1", created_at=0, model="m"), request, OTHER)
    assert json.loads(whole)["object"] == "chat.completion"


def test_a_permanent_problem_is_not_retried() -> None:
    for dialect in (CHAT, RESPONSES):
        reply = dialect.error(Problem(status=429, message="No more today.", is_permanent=True))
        assert reply.headers["x-should-retry"] == "false"
        assert json.loads(reply.body)["error"]["message"] == "No more today."
        assert "x-should-retry" not in dialect.error(Problem(status=429, message="Wait.")).headers


def test_a_response_that_failed_is_an_error() -> None:
    """A message that broke off would look like a whole one."""
    failed = Response(id="resp_1", created_at=0, model="m", status="failed")
    assert CHAT.failure(failed).status == 502
