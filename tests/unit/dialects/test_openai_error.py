"""Errors in the shape that two formats share."""

from __future__ import annotations

import json

from antiphon.dialects.client_dialect import Problem
from antiphon.dialects.openai_error import render_error


def test_an_error_has_all_four_keys_and_the_time_to_wait() -> None:
    reply = render_error(Problem(status=429, message="Wait.", code="slow", retry_after_s=1.2))
    assert (reply.status, reply.headers["retry-after"]) == (429, "2")
    assert reply.headers["retry-after-ms"] == "1200"
    assert json.loads(reply.body) == {
        "error": {
            "message": "Wait.",
            "type": "invalid_request_error",
            "param": None,
            "code": "slow",
        }
    }
