"""A replayed answer: plan, filters and stages of the request, without further rounds."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from antiphon.core.client_profile import OTHER, PROFILES
from antiphon.core.plan.plan import Capabilities
from antiphon.dialects.dialect import resolve
from antiphon.errors import InvalidRequest
from antiphon.pipeline.replayed_answer import ReplayedAnswer
from tests.support.machines import documents

REQUEST = {"model": "up/m", "input": "Hi"}
SEARCH: dict[str, Any] = {"tools": [{"type": "web_search"}]}


def answer(client: str = OTHER.name, web_search: Any = "ignore", **fields: Any) -> ReplayedAnswer:
    numbers = count()
    capabilities = Capabilities(web_search=web_search)
    return ReplayedAnswer(
        REQUEST | fields,
        resolve("chat"),
        capabilities,
        PROFILES[client],
        lambda prefix: f"{prefix}_{next(numbers)}",
    )


def replayed(subject: ReplayedAnswer, **message: Any) -> dict[str, Any]:
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    events = subject.finish(subject.bridge.feed_whole(json.dumps(body).encode()))
    response: dict[str, Any] = documents(events)[-1]["response"]
    return response


def test_the_response_repeats_the_request() -> None:
    response = replayed(answer(instructions="Be kind."), content="Hello")
    assert (response["model"], response["instructions"]) == ("up/m", "Be kind.")
    assert response["created_at"] == 0


def test_the_profile_of_the_client_applies() -> None:
    assert replayed(answer(), refusal="No.")["output"][0]["content"][0]["type"] == "refusal"
    codex = replayed(answer("codex"), refusal="No.")
    assert codex["output_text"] == "No."


def test_an_answer_that_breaks_its_contract_has_failed() -> None:
    response = replayed(answer(text={"format": {"type": "json_object"}}), content="Hello")
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")


def test_an_answer_whose_further_round_is_not_recorded_ends() -> None:
    arguments = json.dumps({"query": "rain"})
    call = {"id": "c", "function": {"name": "web_search", "arguments": arguments}}
    subject = answer(web_search="managed", **SEARCH)
    response = replayed(subject, content="Let me look.", tool_calls=[call])
    assert response["status"] in ("completed", "failed")
    assert response["output_text"] == "Let me look."


def test_a_request_that_the_gateway_would_reject_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="temperature"):
        answer(temperature=5)
