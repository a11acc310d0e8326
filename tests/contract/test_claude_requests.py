"""Every captured request of Claude Code is parsed, and reaches Anthropic as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.request import Request
from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.dialects.dialect import build
from antiphon.providers.registry import SPECS
from tests.support import captured_messages as captured
from tests.support.captured_messages import CapturedRequest
from tests.support.plans import make_plan
from tests.support.tables import table

Document = dict[str, Any]

REQUESTS = captured.requests()

pytestmark = pytest.mark.skipif(not REQUESTS, reason=captured.ABSENT)
every_request = table("sent", REQUESTS.values(), ids=REQUESTS.keys())


def parsed(sent: CapturedRequest) -> Request:
    count = "count_tokens" in sent.path
    return parse_messages(sent.body, headers=sent.headers, is_count=count)


def test_all_captured_requests_are_here() -> None:
    assert len(REQUESTS) == 31  # of 32: one lists models, and has no body


@every_request
def test_a_captured_request_is_parsed(sent: CapturedRequest) -> None:
    request = parsed(sent)
    assert request.raw == sent.body
    assert request.model == sent.body["model"]


# --- the same format on both sides ----------------------------------------------------------------


def plan_for_anthropic(sent: CapturedRequest) -> Plan:
    """The plan for a model of the generation that the client took its model for."""
    known = sent.body["model"] if sent.body["model"].startswith("claude-") else "claude-opus-5-5"
    can = SPECS["anthropic"].capabilities_of(known)
    return make_plan(parsed(sent), provider="anthropic", model=known, capabilities=can)


def encoded(sent: CapturedRequest) -> Outbound:
    dialect = build("anthropic", quirks=SPECS["anthropic"].quirks)
    return dialect.encode(plan_for_anthropic(sent), stream=sent.body.get("stream", False))


def received(sent: CapturedRequest) -> Document:
    """The body that Anthropic gets."""
    body: Document = json.loads(encoded(sent).body)
    return body


def normalised(body: Document) -> Document:
    """The body that the client sent, with the allowed differences, and no others."""
    expected = {
        name: value
        for name, value in body.items()
        # A thread of the server is one of the gateway's store.
        if name != "thread" and (name, value) not in DEFAULTS
    }
    expected["messages"] = [
        {**message, "content": blocks(message["content"])} for message in body["messages"]
    ]
    return expected


DEFAULTS: list[tuple[str, Any]] = [
    ("tools", []),
    ("tool_choice", {"type": "auto"}),
    ("stream", False),
]
"""Members whose value is the same as leaving them out."""


def blocks(content: Any) -> list[Document]:
    """A string is one block of text: Claude Code sends the same content in both forms."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    results = (
        {**each, "content": blocks(each["content"])} for each in content if "tool_use_id" in each
    )
    return [next(results) if "tool_use_id" in each else each for each in content]


WITHOUT_THINKING = {"06-followup-edit-defaults-filled", "07-followup-parallel-results"}
"""Requests to a model with a thinking budget whose calls had no thinking before them: the API would
refuse them, so thinking is disabled, and with it the edit that clears thinking."""
CONTINUED = "32-sdk-tool-runner-thread-continue"
"""It has only the result of a call; the call itself is in the store."""


@table("name", [name for name in REQUESTS if name != CONTINUED])
def test_a_claude_code_request_reaches_anthropic_as_it_was(name: str) -> None:
    sent = REQUESTS[name]
    expected = normalised(sent.body)
    found = received(sent)
    expected["model"] = found["model"]
    expected.setdefault("max_tokens", found["max_tokens"])
    if name in WITHOUT_THINKING:
        expected["thinking"] = {"type": "disabled"}
        [edit] = expected.pop("context_management")["edits"]
        assert edit["type"].startswith("clear_thinking")
    assert found == expected


@every_request
def test_the_betas_of_the_client_reach_anthropic(sent: CapturedRequest) -> None:
    outbound = encoded(sent)
    assert outbound.headers.get("anthropic-beta") == sent.headers.get("anthropic-beta")


def test_a_thread_of_the_sdk_is_a_chain_of_stored_responses() -> None:
    request = parsed(REQUESTS[CONTINUED])
    previous = REQUESTS[CONTINUED].body["thread"]["previous_message_id"]
    assert request.store
    assert request.previous_response_id == previous.replace("msg_", "resp_")
