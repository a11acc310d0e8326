"""Searches of a translation: which are wanted, and how the response goes on."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.deltas import Delta, Finish, Text, ToolCall
from antiphon.core.events import Event
from antiphon.core.faults.fault import timeout_fault
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.translation.next_step import Calls, Round
from antiphon.core.translation.translation import Translation, make_translation
from antiphon.core.web_search.filter import WebSearchFilter
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from tests.support.machines import (
    NOW,
    Document,
    ScriptedDecoder,
    ScriptedDialect,
    counting_ids,
    documents,
    machine,
)
from tests.support.stream_validator import check

TOOLS = [ToolIdentity("web_search", "web_search", "web_search", "")]
FOUND = SearchOutcome(results=(SearchResult(title="Oslo", url="https://a.example", snippet="x"),))


def script(*deltas: Delta) -> Source:
    return Source(ScriptedDialect(ScriptedDecoder([[delta] for delta in deltas])))


def call(index: int, query: str) -> ToolCall:
    return ToolCall(index, f"call_{index}", "web_search", f'{{"query": "{query}"}}')


def searching(*calls: ToolCall) -> tuple[Translation, list[Event]]:
    """A translation whose first round has made these calls."""
    searches = WebSearchFilter(
        SearchRules(),
        history=(),
        tools=ToolIdentityMap(TOOLS),
        choice=ToolChoice(),
        new_id=counting_ids(),
    )
    translation = Translation(machine(TOOLS), script(*calls, Finish("tool_calls")), [searches])
    events = [event for _ in range(len(calls) + 1) for event in translation.feed(b"x")]
    return translation, events + translation.close()


def response_of(events: Sequence[Event]) -> Document:
    seen = documents(events)
    check(seen)
    response: Document = seen[-1]["response"]
    return response


def test_searches_are_settled_one_by_one_and_their_results_join_the_next_round() -> None:
    translation, events = searching(call(0, "oslo"), call(1, "bergen"))
    assert isinstance(translation.next, Calls)
    assert [each.call_id for each in translation.next.calls] == ["call_0", "call_1"]
    events += translation.settle_call(FOUND)
    assert isinstance(translation.next, Calls)
    assert len(translation.next.calls) == 1
    events += translation.settle_call(FOUND)
    assert isinstance(translation.next, Round)
    assert translation.next.is_required
    translation.begin_round()
    translation.read_from(script(Text("It is warm."), Finish("stop")))
    events += [event for _ in range(2) for event in translation.feed(b"x")] + translation.close()
    output = response_of(events)["output"]
    assert [item["type"] for item in output] == ["web_search_call", "web_search_call", "message"]
    assert translation.machine.snapshot.status == "completed"


def test_a_response_fails_if_its_search_results_can_reach_no_model() -> None:
    translation, events = searching(call(0, "oslo"))
    events += translation.settle_call(FOUND)
    translation.begin_round()
    events += translation.give_up_round(timeout_fault("total"))
    assert response_of(events)["status"] == "failed"


def test_nothing_follows_a_response_that_has_ended_between_searches() -> None:
    translation, events = searching(call(0, "oslo"))
    events += translation.fail(timeout_fault("total"))
    assert translation.settle_call(FOUND) == []
    assert response_of(events)["status"] == "failed"


def test_a_translation_is_made_of_a_plan() -> None:
    plan = Plan(
        provider="p",
        model="m",
        history=(),
        contract=OutputContract(requested="text", asked="text"),
        identities=ToolIdentityMap(()),
    )
    translation = make_translation(
        plan,
        script(Text("caf\u00e9"), Finish("stop")),
        Response(id="resp_1", created_at=NOW, model="m"),
        new_id=counting_ids(),
        now=lambda: NOW,
    )
    events = [*translation.feed(b"\\u00e9"), *translation.feed(b"x"), *translation.close()]
    assert response_of(events)["output"][0]["content"][0]["text"] == "caf\u00e9"
