"""The desk that takes searches off the stream: what passes, what is asked, what is remembered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.core.filters.web_search import WebSearchFilter
from antiphon.core.history.steps import Answered, Called, Said, Step, TextPart
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan, ToolChoice
from antiphon.core.stream.deltas import (
    Delta,
    Finish,
    Reasoning,
    ReasoningState,
    SearchBegun,
    SearchEnded,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.web_search.memory import recalled
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from tests.support.machines import counting_ids

OURS = ToolIdentity("web_search", "web_search", "web_search", "")
THEIRS = ToolIdentity("read", "read")
PREFIX = ToolIdentity("web", "web")
DONE = Finish("tool_calls")
BERLIN = SearchResult(title="Berlin", url="https://a.example/berlin", snippet="A city.")
PARIS = SearchResult(title="Paris", url="https://b.example/paris", snippet="Another.")


def desk(
    *tools: ToolIdentity,
    choice: ToolChoice | None = None,
    history: tuple[Step, ...] = (),
    **rules: Any,
) -> WebSearchFilter:
    plan = Plan(
        provider="p",
        model="m",
        history=history,
        identities=ToolIdentityMap(tools or (OURS, THEIRS)),
        tool_choice=choice or ToolChoice(),
    )
    return WebSearchFilter(plan, SearchRules(**rules), counting_ids())


def search(query: str = "berlin", index: int = 0, call_id: str | None = None) -> ToolCall:
    arguments = msgspec.json.encode({"query": query}).decode()
    return ToolCall(index, call_id or f"call_{index}", "web_search", arguments)


def heard(at: WebSearchFilter, *deltas: Delta, final: bool = True) -> list[Delta]:
    """One round: what is passed on."""
    return [*(out for delta in deltas for out in at.feed(delta)), *at.close(final=final)]


def settled(at: WebSearchFilter, *results: SearchResult, failed: bool = False) -> list[Delta]:
    """Every pending search, with the same outcome."""
    told: list[Delta] = []
    while at.pending:
        told += at.begin_next()
        told += at.settle(SearchOutcome(results=results, failed=failed))
    return told


def asked(at: WebSearchFilter) -> FollowUp:
    assert at.follow_up is not None
    return at.follow_up


def answers(at: WebSearchFilter) -> list[str]:
    parts = [step.parts[0] for step in asked(at).steps if isinstance(step, Answered)]
    return [part.text for part in parts if isinstance(part, TextPart)]


def queries(at: WebSearchFilter) -> list[tuple[str, ...]]:
    return [call.queries for call in at.pending]


# --- one round ------------------------------------------------------------------------------------


def test_what_is_not_a_search_passes_untouched() -> None:
    at = desk()
    deltas: list[Delta] = [
        Text("hi"),
        ToolCall(0, "c", "read", "{}"),
        ToolCall(0, arguments=" "),
        ToolEnd(0),
    ]
    assert heard(at, *deltas, DONE) == [*deltas, DONE]
    assert (at.pending, at.follow_up) == ([], None)


def test_a_search_is_taken_off_the_stream_and_waits() -> None:
    at = desk()
    assert heard(at, Text("Wait. "), search(), ToolEnd(0), DONE) == [Text("Wait. "), DONE]
    [call] = at.pending
    assert (call.call_id, call.queries) == ("call_0", ("berlin",))
    assert (call.arguments, call.rules) == ('{"query":"berlin"}', SearchRules())
    assert at.follow_up is None


def test_a_search_that_found_something_asks_again_with_numbered_sources() -> None:
    at = desk()
    heard(at, search(), DONE)
    told = settled(at, BERLIN, PARIS)
    text = "[1] Berlin\nhttps://a.example/berlin\nA city.\n\n[2] Paris\nhttps://b.example/paris\n"
    action = {"type": "search", "query": "berlin", "queries": ["berlin"]}
    assert told[:2] == [SearchBegun(action), SearchEnded(action, "completed")]
    assert asked(at) == FollowUp(
        steps=(
            Called("call_0", "web_search", '{"query":"berlin"}'),
            Answered("call_0", (TextPart(f"{text}Another."),), "web_search"),
        )
    )


def test_what_is_remembered_is_what_the_next_round_is_asked_with() -> None:
    at = desk()
    heard(at, search(), search("paris", 1), DONE)
    *_, state = settled(at, BERLIN)
    assert isinstance(state, ReasoningState)
    assert (state.scheme, state.attach) == ("search", "turn")
    steps, others = recalled([state])
    assert others == ()
    assert [(step.call_id, step.parts) for step in steps if isinstance(step, Answered)] == [
        (step.call_id, step.parts) for step in asked(at).steps if isinstance(step, Answered)
    ]
    assert [(step.arguments, step.namespace) for step in steps if isinstance(step, Called)] == [
        ('{"query":"berlin"}', ""),
        ('{"query":"paris"}', ""),
    ]


def test_several_searches_of_a_round_are_told_one_by_one_and_remembered_once() -> None:
    at = desk()
    heard(at, search(), search("paris", 1), DONE)
    kinds = [type(delta) for delta in settled(at)]
    assert kinds == [SearchBegun, SearchEnded, SearchBegun, SearchEnded, ReasoningState]
    assert [type(step) for step in asked(at).steps] == [Called, Called, Answered, Answered]


def test_numbers_go_on_over_rounds_and_stay_with_their_address() -> None:
    at = desk()
    heard(at, search(), DONE)
    settled(at, BERLIN)
    heard(at, search("paris", call_id="call_9"), DONE)
    settled(at, PARIS, BERLIN)
    [text] = answers(at)
    assert text.startswith("[2] Paris")
    assert "\n\n[1] Berlin" in text


def test_numbers_of_earlier_turns_are_not_given_again() -> None:
    found = Answered(
        "old", (TextPart("[3] Berlin\nhttps://a.example/berlin\nA city."),), "web_search"
    )
    at = desk(history=(Called("old", "web_search", "{}", ""), found))
    heard(at, search(), DONE)
    settled(at, PARIS)
    assert answers(at) == ["[4] Paris\nhttps://b.example/paris\nAnother."]


def test_nothing_found_is_an_answer() -> None:
    at = desk()
    heard(at, search(), DONE)
    settled(at)
    assert answers(at) == ["Nothing was found."]


@pytest.mark.parametrize("tells", [True, False])
def test_sources_are_told_to_a_client_that_asked_for_them(tells: bool) -> None:
    at = desk(tells_sources=tells)
    heard(at, search(), DONE)
    _, ended, _ = settled(at, BERLIN)
    assert isinstance(ended, SearchEnded)
    sources = [{"type": "url", "url": BERLIN.url}]
    assert ended.action.get("sources") == (sources if tells else None)


def test_a_search_that_fails_is_told_to_client_and_model() -> None:
    at = desk()
    heard(at, search(), DONE)
    _, ended, _ = settled(at, failed=True)
    assert isinstance(ended, SearchEnded)
    assert ended.status == "failed"
    assert "failed" in answers(at)[0]
    [diagnostic] = at.diagnostics
    assert (diagnostic.code, diagnostic.subject) == ("search.failed", "web_search")


def test_why_a_search_failed_is_told_to_whoever_reads_diagnostics() -> None:
    at = desk()
    heard(at, search(), DONE)
    at.settle(SearchOutcome(failed=True, problem="It took too long."))
    assert at.diagnostics[0].message.endswith("It took too long.")


# --- names and pieces -----------------------------------------------------------------------------


def test_a_search_in_any_pieces_is_one_search() -> None:
    at = desk()
    pieces = [
        ToolCall(0, "c"),
        ToolCall(0, name="web_"),
        ToolCall(0, name="search", arguments='{"que'),
        ToolCall(0, arguments='ry":"x"}'),
    ]
    assert heard(at, *pieces, DONE) == [DONE]
    assert queries(at) == [("x",)]


def test_a_name_may_come_again_or_grow() -> None:
    at = desk()
    names = ["web", "web_search", "web_search"]
    assert heard(at, *(ToolCall(0, "c", name) for name in names), search(index=1), DONE) == [DONE]
    assert [call.call_id for call in at.pending] == ["call_1"]


def test_a_tool_whose_name_only_begins_like_ours_is_not_ours() -> None:
    at = desk(OURS, THEIRS, ToolIdentity("web_search_more", "web_search_more"))
    pieces = [ToolCall(0, "c", "web_search"), ToolCall(0, name="_more", arguments="{}")]
    assert at.feed(pieces[0]) == []
    assert at.feed(pieces[1]) == pieces
    assert at.close(final=True) == []


def test_a_tool_whose_name_ours_begins_with_is_not_held_back() -> None:
    at = desk(OURS, PREFIX)
    assert at.feed(ToolCall(0, "c", "web", "{}")) == [ToolCall(0, "c", "web", "{}")]


def test_a_call_that_never_got_its_name_passes_when_the_round_is_over() -> None:
    at = desk()
    nameless: list[Delta] = [ToolCall(0, "c", arguments="{}"), ToolEnd(0)]
    assert heard(at, *nameless, search(index=1), DONE) == [DONE, *nameless]
    assert len(at.pending) == 1


def test_a_clients_function_of_the_same_name_is_left_alone() -> None:
    """GodeX took such a function for its own."""
    marked = ToolIdentity("web_search_1a2b", "web_search", "web_search", "")
    at = desk(ToolIdentity("web_search", "web_search"), marked)
    theirs = ToolCall(0, "c0", "web_search", '{"query":"x"}')
    ours = ToolCall(1, "c1", "web_search_1a2b", '{"query":"y"}')
    assert heard(at, theirs, ours, DONE) == [theirs, DONE]
    assert queries(at) == [("y",)]


def test_a_plan_that_does_not_know_the_search_knows_its_usual_name() -> None:
    at = desk(THEIRS)
    assert heard(at, search(), DONE) == [DONE]
    assert queries(at) == [("berlin",)]


@pytest.mark.parametrize("given", [None, ""])
def test_a_call_without_an_id_gets_one(given: str | None) -> None:
    at = desk()
    heard(at, ToolCall(0, given, "web_search", '{"query":"x"}'), DONE)
    assert [call.call_id for call in at.pending] == ["call_n1"]


def test_an_id_is_used_once_in_an_answer() -> None:
    at = desk()
    heard(at, search(call_id="c"), search(index=1, call_id="c"), DONE)
    assert [call.call_id for call in at.pending] == ["c", "call_n1"]
    settled(at)
    heard(at, search(call_id="c"), DONE)
    assert [call.call_id for call in at.pending] == ["call_n2"]


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"query": " two  words "}', ("two  words",)),
        ('{"query": "a", "queries": ["b", "a", " ", 7]}', ("a", "b")),
        ('{"queries": ["a", "b", "c", "d", "e"]}', ("a", "b", "c", "d")),
        ('{"query": "a", "queries": "b"}', ("a",)),
    ],
)
def test_queries_are_read_with_good_will(arguments: str, expected: tuple[str, ...]) -> None:
    at = desk()
    heard(at, ToolCall(0, "c", "web_search", arguments), DONE)
    assert queries(at) == [expected]


def test_a_query_without_end_is_cut() -> None:
    at = desk()
    heard(at, search("x" * 1000), DONE)
    assert queries(at) == [("x" * 400,)]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ("", "{}"),
        ("{}", "{}"),
        ('{"query": 7}', '{"query": 7}'),
        ('{"query": "a', '{"_malformed":"{\\"query\\": \\"a"}'),
        ("[1]", '{"_malformed":"[1]"}'),
        ("[" * 100_000, None),
    ],
)
def test_bad_arguments_are_told_to_the_model_and_nobody_else(
    arguments: str, kept: str | None
) -> None:
    at = desk()
    [_, state] = heard(at, ToolCall(0, "c", "web_search", arguments), DONE)
    assert isinstance(state, ReasoningState)
    [called, answered] = asked(at).steps
    assert isinstance(called, Called)
    assert isinstance(msgspec.json.decode(called.arguments), dict)
    assert kept in (None, called.arguments)
    assert '{"query": "some words"}' in answers(at)[0]
    assert isinstance(answered, Answered)
    assert at.pending == []


# --- beside the client's calls --------------------------------------------------------------------


def test_beside_a_clients_call_there_is_a_search_but_no_further_round() -> None:
    """GodeX left the sibling's block open, and the next turn's call was made of both."""
    at = desk()
    theirs = ToolCall(1, "c1", "read", "{}")
    assert heard(at, search(), theirs, DONE) == [theirs, DONE]
    told = settled(at, BERLIN)
    assert [type(delta) for delta in told] == [SearchBegun, SearchEnded, ReasoningState]
    assert at.follow_up is None


def test_where_another_round_comes_anyway_the_search_joins_it() -> None:
    at = desk()
    heard(at, search(), ToolCall(1, "c1", "read", "{}"), DONE, final=False)
    settled(at, BERLIN)
    assert [step.call_id for step in asked(at).steps if isinstance(step, Called)] == ["call_0"]


def test_siblings_of_one_round_do_not_stop_the_next() -> None:
    at = desk()
    heard(at, ToolCall(0, "c1", "read", "{}"), DONE)
    heard(at, search(), DONE)
    settled(at)
    assert at.follow_up is not None


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", None])
def test_an_answer_that_was_cut_off_is_not_searched_for(reason: str | None) -> None:
    at = desk()
    assert heard(at, Reasoning("hm"), search(), Finish(reason)) == [Reasoning("hm"), Finish(reason)]
    assert (at.pending, at.follow_up) == ([], None)


def test_an_empty_word_does_not_replace_why_the_provider_stopped() -> None:
    at = desk()
    heard(at, search(), DONE, Finish(None))
    assert len(at.pending) == 1


# --- budgets --------------------------------------------------------------------------------------


def test_a_search_beyond_the_budget_is_not_made_but_answered() -> None:
    at = desk(max_calls=1)
    heard(at, search(), search("paris", 1), DONE)
    assert queries(at) == [("berlin",)]
    settled(at, BERLIN)
    assert "limit" in answers(at)[1]
    assert asked(at).tool_choice is None
    assert [each.code for each in at.diagnostics] == ["search.limited"]


def test_a_model_that_goes_on_is_forbidden_to_and_then_not_asked_again() -> None:
    at = desk(max_calls=0)
    choices = []
    for _ in range(2):
        heard(at, search(), DONE)
        choices.append(asked(at).tool_choice)
    assert choices == [None, ToolChoice("none")]
    assert heard(at, search(), DONE) == [DONE]
    assert (at.pending, at.follow_up) == ([], None)


@pytest.mark.parametrize("arguments", ['{"query":"x"}', "not even JSON"])
def test_no_answer_takes_rounds_without_end(arguments: str) -> None:
    at = desk()
    rounds = 0
    for _ in range(100):
        heard(at, ToolCall(0, "c", "web_search", arguments), DONE)
        settled(at)
        rounds += at.follow_up is not None
    assert 10 < rounds < 15


def test_searches_are_limited_whatever_the_client_allows() -> None:
    at = desk(max_calls=1000)
    heard(at, *(search(index=index) for index in range(50)), DONE)
    assert len(at.pending) == 20


@pytest.mark.parametrize(
    ("mode", "following"),
    [("auto", None), ("required", ToolChoice("auto")), ("function", ToolChoice("auto"))],
)
def test_what_had_to_be_called_need_not_be_called_twice(
    mode: Any, following: ToolChoice | None
) -> None:
    at = desk(choice=ToolChoice(mode))
    heard(at, search(), DONE)
    settled(at)
    assert asked(at).tool_choice == following


def test_a_later_round_without_a_search_asks_for_nothing() -> None:
    at = desk(history=(Said("user", (TextPart("hello"),)),))
    heard(at, search(), DONE)
    settled(at)
    assert at.follow_up is not None
    assert heard(at, Text("So."), Finish("stop")) == [Text("So."), Finish("stop")]
    assert at.follow_up is None


def test_a_search_is_settled_once() -> None:
    at = desk()
    heard(at, search(), DONE)
    at.settle(SearchOutcome())
    assert at.pending == []


def test_a_search_that_cannot_be_followed_up_is_dropped() -> None:
    at = desk()
    heard(at, search(), DONE)
    assert at.wants_round
    assert at.give_up() == []
    assert not at.wants_round
