"""Golden transcripts of MCP: what clients get of a list, a call, an approval and their failures.

`tests/golden_mcp/NAME.jsonl` has the events of each case, in full. Ids and times are counted, so
the bytes are stable; `make golden` rewrites them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from antiphon.core.client_profile import OTHER
from antiphon.core.deltas import Delta, Finish, Text, ToolCall
from antiphon.core.events import Event
from antiphon.core.items import Document
from antiphon.core.mcp.values import McpProblem, McpResult, McpTool, McpToolList
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.filters import make_filters
from antiphon.core.translation.next_step import Calls, Round
from antiphon.core.translation.translation import Replanned, Translation, make_translation
from tests.support.machines import (
    NOW,
    ScriptedDecoder,
    ScriptedDialect,
    counting_ids,
    documents,
)
from tests.support.mcp.value_servers import CITY, ValueRules
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.stream_validator import check

HERE = Path(__file__).parents[3] / "golden_mcp"
TARGET = ModelTarget("p", "m")
Outcome: TypeAlias = McpToolList | McpResult
WEATHER = McpToolList(
    tools=(McpTool(name="weather", description="The weather of a city.", input_schema=CITY),)
)
DOWN = McpToolList(problem=McpProblem(type="http_error", message="HTTP 401", code=401))
SUNNY = McpResult(text="Sunny.")
NAME = "sky__weather"
ASKED: Sequence[Delta] = (
    Text("Let me look."),
    ToolCall(0, "call_1", NAME),
    ToolCall(0, arguments='{"city": '),
    ToolCall(0, arguments='"Ulm"}'),
    Finish("tool_calls"),
)
TWICE: Sequence[Delta] = (
    ToolCall(0, "call_1", NAME, '{"city": "Ulm"}'),
    ToolCall(1, "call_2", NAME, '{"city": "Bonn"}'),
    Finish("tool_calls"),
)
SAID: Sequence[Delta] = (Text("It is "), Text("sunny."), Finish("stop"))
USER: Document = {"type": "message", "role": "user", "content": "What is the weather in Ulm?"}
REQUESTED: Document = {
    "type": "mcp_approval_request",
    "id": "mcpr_9",
    "server_label": "sky",
    "name": "weather",
    "arguments": '{"city": "Ulm"}',
}
APPROVED: Document = {
    "type": "mcp_approval_response",
    "approval_request_id": "mcpr_9",
    "approve": True,
}


class Case:
    """One response: what servers return, in order, and what the model says in each round."""

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        *rounds: Sequence[Delta],
        approval: str = "never",
        more: Sequence[Document] = (),
    ) -> None:
        tool = {"type": "mcp", "server_label": "sky", "require_approval": approval}
        request = Request(raw={}, model="m", input=(USER, *more), tools=(tool,))
        policy = HostedToolPolicy(mcp=ValueRules())
        self._planner = Planner(request, PlanInputs(hosted_tools=policy))
        self._outcomes = iter(outcomes)
        self._rounds = iter(rounds)
        self._new_id = counting_ids()

    def events(self) -> list[Event]:
        translation = make_translation(
            self._planner.plan(TARGET),
            _source(()),
            Response(id="resp_1", created_at=NOW, model="m"),
            new_id=self._new_id,
            now=lambda: NOW,
        )
        events = translation.open_calls()
        while isinstance(translation.next, Calls | Round):
            if isinstance(translation.next, Calls):
                events += translation.settle_call(next(self._outcomes))
            else:
                events += self._next_round(translation, translation.next)
        return events

    def _next_round(self, translation: Translation, wanted: Round) -> list[Event]:
        translation.begin_round()
        deltas = next(self._rounds)
        replanned = None
        if translation.rounds == 1:
            plan = self._planner.continue_with(wanted.items).plan(TARGET)
            replanned = Replanned(plan.identities, make_filters(plan, OTHER, self._new_id))
        translation.read_from(_source(deltas), replanned)
        return [event for _ in deltas for event in translation.feed(b"x")] + translation.close()


def _source(deltas: Sequence[Delta]) -> Source:
    return Source(ScriptedDialect(ScriptedDecoder([[delta] for delta in deltas])))


CASES: dict[str, Callable[[], Case]] = {
    "call": lambda: Case([WEATHER, SUNNY], ASKED, SAID),
    "parallel_calls": lambda: Case([WEATHER, SUNNY, SUNNY], TWICE, SAID),
    "error_of_a_tool": lambda: Case(
        [WEATHER, McpResult(text="No such city.", is_error=True)], ASKED, SAID
    ),
    "error_of_a_server": lambda: Case(
        [WEATHER, McpResult(problem=McpProblem(type="http_error", message="HTTP 500", code=500))],
        ASKED,
        SAID,
    ),
    "list_failed": lambda: Case([DOWN]),
    "approval_requested": lambda: Case([WEATHER], ASKED, approval="always"),
    "approved_call": lambda: Case(
        [WEATHER, SUNNY], SAID, approval="always", more=(REQUESTED, APPROVED)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_response_with_mcp_servers_gives_these_events(
    name: str, pytestconfig: pytest.Config
) -> None:
    golden = HERE / f"{name}.jsonl"
    seen = documents(CASES[name]().events())
    check(seen)
    check_with_sdk(seen)
    text = "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in seen)
    if pytestconfig.getoption("update_golden"):
        golden.write_bytes(text.encode())
    assert text == golden.read_bytes().decode()


def test_every_transcript_belongs_to_a_case() -> None:
    assert {path.stem for path in HERE.iterdir()} == set(CASES)
