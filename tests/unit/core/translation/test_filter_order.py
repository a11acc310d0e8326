"""Which filters the response to a request passes, and in which order."""

from __future__ import annotations

from antiphon.core.client_profile import PROFILES
from antiphon.core.deltas import Finish, Text
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.translation.filters import make_filters
from antiphon.core.web_search.rules import SearchRules
from tests.support.machines import counting_ids


def names(plan: Plan, profile: str = "other") -> list[str]:
    filters = make_filters(plan, PROFILES[profile], counting_ids())
    return [type(each).__name__ for each in filters]


def test_a_plain_request_needs_one_filter() -> None:
    assert names(Plan(provider="p", model="m")) == ["EmptyAnswerFilter"]


def test_filters_that_want_rounds_come_before_those_that_need_a_complete_answer() -> None:
    plan = Plan(
        provider="p",
        model="m",
        include_reasoning_summary=True,
        search=SearchRules(),
        contract=OutputContract(requested="json_object"),
        single_call=True,
    )
    assert names(plan, "codex") == [
        "EmptyAnswerFilter",
        "ReasoningSummaryFilter",
        "WebSearchFilter",
        "StructuredOutputFilter",
        "SingleCallFilter",
        "CitationFilter",
        "RefusalTextFilter",
    ]


def test_only_a_request_with_an_output_format_has_its_filter() -> None:
    json_object = OutputContract(requested="json_object")
    assert "StructuredOutputFilter" not in names(Plan(provider="p", model="m"))
    assert "StructuredOutputFilter" in names(Plan(provider="p", model="m", contract=json_object))


def test_with_web_search_even_native_structured_output_is_held_back() -> None:
    native = OutputContract(requested="json_object", asked="json_object")
    plan = Plan(provider="p", model="m", contract=native, search=SearchRules())
    [*_, structured, _] = make_filters(plan, PROFILES["other"], counting_ids())
    assert structured.feed(Text("{}")) == []
    assert structured.feed(Finish("stop")) == [Finish("stop")]
    assert structured.close(final=True).deltas == [Text("{}")]
