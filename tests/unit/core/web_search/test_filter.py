"""Managed web search: which calls pass, which searches are made, and what is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.deltas import (
    Delta,
    Finish,
    Reasoning,
    ReasoningState,
    SearchEnded,
    SearchStarted,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.core.filters.filter import FollowUp
from antiphon.core.history.steps import MessageStep, Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.web_search.filter import WebSearchFilter
from antiphon.core.web_search.memory import decode_past_searches
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from tests.support.filters import DrivenFilter
from tests.support.machines import counting_ids
from tests.support.tables import table

HOSTED_SEARCH = ToolIdentity("web_search", "web_search", "web_search", "")
CLIENT_TOOL = ToolIdentity("read", "read")
PREFIX = ToolIdentity("web", "web")
DONE = Finish("tool_calls")
BERLIN = SearchResult(title="Berlin", url="https://a.example/berlin", snippet="A city.")
PARIS = SearchResult(title="Paris", url="https://b.example/paris", snippet="Another.")


def make_filter(
    *tools: ToolIdentity,
    choice: ToolChoice | None = None,
    history: tuple[Step, ...] = (),
    **rules: Any,
) -> DrivenFilter:
    return DrivenFilter(
        WebSearchFilter(
            SearchRules(**rules),
            history=history,
            tools=ToolIdentityMap(tools or (HOSTED_SEARCH, CLIENT_TOOL)),
            choice=choice or ToolChoice(),
            new_id=counting_ids(),
        )
    )


def search(query: str = "berlin", index: int = 0, call_id: str | None = None) -> ToolCall:
    arguments = msgspec.json.encode({"query": query}).decode()
    return ToolCall(index, call_id or f"call_{index}", "web_search", arguments)


def run_round(subject: DrivenFilter, *deltas: Delta, final: bool = True) -> list[Delta]:
    """One round: what is passed on."""
    return [*(out for delta in deltas for out in subject.feed(delta)), *subject.close(final=final)]


def settle_all(subject: DrivenFilter, *results: SearchResult, failed: bool = False) -> list[Delta]:
    """Every pending search, with the same outcome."""
    deltas: list[Delta] = []
    while subject.searches:
        deltas += subject.settle(SearchOutcome(results=results, failed=failed))
    return deltas


def follow_up_of(subject: DrivenFilter) -> FollowUp:
    assert subject.follow_up is not None
    return subject.follow_up


def answers(subject: DrivenFilter) -> list[str]:
    parts = [
        step.parts[0] for step in follow_up_of(subject).steps if isinstance(step, ToolResultStep)
    ]
    return [part.text for part in parts if isinstance(part, TextPart)]


def queries(subject: DrivenFilter) -> list[tuple[str, ...]]:
    return [call.queries for call in subject.searches]


# --- one round ------------------------------------------------------------------------------------


def test_other_deltas_pass_unchanged() -> None:
    subject = make_filter()
    deltas: list[Delta] = [
        Text("hi"),
        ToolCall(0, "c", "read", "{}"),
        ToolCall(0, arguments=" "),
        ToolEnd(0),
    ]
    assert run_round(subject, *deltas, DONE) == [*deltas, DONE]
    assert subject.wish is None


def test_a_search_call_is_removed_from_the_stream_and_pending() -> None:
    subject = make_filter()
    assert run_round(subject, Text("Wait. "), search(), ToolEnd(0), DONE) == [Text("Wait. "), DONE]
    [call] = subject.searches
    assert (call.call_id, call.queries) == ("call_0", ("berlin",))
    assert (call.arguments, call.rules) == ('{"query":"berlin"}', SearchRules())
    assert subject.follow_up is None


def test_results_are_sent_in_the_follow_up_as_numbered_sources() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    deltas = settle_all(subject, BERLIN, PARIS)
    text = "[1] Berlin\nhttps://a.example/berlin\nA city.\n\n[2] Paris\nhttps://b.example/paris\n"
    action = {"type": "search", "query": "berlin", "queries": ["berlin"]}
    assert deltas[:2] == [SearchStarted(action), SearchEnded(action, "completed")]
    assert follow_up_of(subject) == FollowUp(
        steps=(
            ToolCallStep("call_0", "web_search", '{"query":"berlin"}'),
            ToolResultStep("call_0", (TextPart(f"{text}Another."),), "web_search"),
        )
    )


def test_the_stored_state_holds_the_same_searches_as_the_follow_up() -> None:
    subject = make_filter()
    run_round(subject, search(), search("paris", 1), DONE)
    *_, state = settle_all(subject, BERLIN)
    assert isinstance(state, ReasoningState)
    assert (state.scheme, state.attach) == ("search", "turn")
    steps, others = decode_past_searches([state])
    assert others == ()
    assert [(step.call_id, step.parts) for step in steps if isinstance(step, ToolResultStep)] == [
        (step.call_id, step.parts)
        for step in follow_up_of(subject).steps
        if isinstance(step, ToolResultStep)
    ]
    assert [
        (step.arguments, step.namespace) for step in steps if isinstance(step, ToolCallStep)
    ] == [
        ('{"query":"berlin"}', ""),
        ('{"query":"paris"}', ""),
    ]


def test_several_searches_are_shown_one_by_one_and_stored_once() -> None:
    subject = make_filter()
    run_round(subject, search(), search("paris", 1), DONE)
    kinds = [type(delta) for delta in settle_all(subject)]
    assert kinds == [SearchStarted, SearchEnded, SearchStarted, SearchEnded, ReasoningState]
    assert [type(step) for step in follow_up_of(subject).steps] == [
        ToolCallStep,
        ToolCallStep,
        ToolResultStep,
        ToolResultStep,
    ]


def test_source_numbers_continue_over_rounds_and_stay_with_their_url() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    settle_all(subject, BERLIN)
    run_round(subject, search("paris", call_id="call_9"), DONE)
    settle_all(subject, PARIS, BERLIN)
    [text] = answers(subject)
    assert text.startswith("[2] Paris")
    assert "\n\n[1] Berlin" in text


def test_source_numbers_of_earlier_turns_are_not_reused() -> None:
    found = ToolResultStep(
        "old", (TextPart("[3] Berlin\nhttps://a.example/berlin\nA city."),), "web_search"
    )
    subject = make_filter(history=(ToolCallStep("old", "web_search", "{}", ""), found))
    run_round(subject, search(), DONE)
    settle_all(subject, PARIS)
    assert answers(subject) == ["[4] Paris\nhttps://b.example/paris\nAnother."]


def test_a_search_without_results_has_not_failed() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    settle_all(subject)
    assert answers(subject) == ["Nothing was found."]


@table(
    ("rules", "sources"),
    [
        ({}, None),
        ({"include_sources": True}, [{"type": "url", "url": BERLIN.url}]),
        (
            {"include_sources": True, "include_titles": True},
            [{"type": "url", "url": BERLIN.url, "title": BERLIN.title}],
        ),
    ],
)
def test_sources_are_sent_to_a_client_that_includes_them(rules: Any, sources: Any) -> None:
    subject = make_filter(**rules)
    run_round(subject, search(), DONE)
    _, ended, _ = settle_all(subject, BERLIN)
    assert isinstance(ended, SearchEnded)
    assert ended.action.get("sources") == sources


def test_a_failed_search_is_reported_to_client_and_model() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    _, ended, _ = settle_all(subject, failed=True)
    assert isinstance(ended, SearchEnded)
    assert ended.status == "failed"
    assert "failed" in answers(subject)[0]
    [diagnostic] = subject.diagnostics
    assert (diagnostic.code, diagnostic.subject) == ("search.failed", "web_search")


def test_the_diagnostic_says_why_a_search_failed() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    subject.settle(SearchOutcome(failed=True, problem="It took too long."))
    assert subject.diagnostics[0].message.endswith("It took too long.")


# --- names and pieces -----------------------------------------------------------------------------


def test_a_search_in_any_pieces_is_one_search() -> None:
    subject = make_filter()
    pieces = [
        ToolCall(0, "c"),
        ToolCall(0, name="web_"),
        ToolCall(0, name="search", arguments='{"que'),
        ToolCall(0, arguments='ry":"x"}'),
    ]
    assert run_round(subject, *pieces, DONE) == [DONE]
    assert queries(subject) == [("x",)]


def test_the_name_of_the_search_may_be_repeated_or_grow() -> None:
    subject = make_filter()
    names = ["web", "web_search", "web_search"]
    assert run_round(
        subject, *(ToolCall(0, "c", name) for name in names), search(index=1), DONE
    ) == [DONE]
    assert [call.call_id for call in subject.searches] == ["call_1"]


def test_a_tool_whose_name_begins_with_that_of_the_search_is_another_tool() -> None:
    subject = make_filter(
        HOSTED_SEARCH, CLIENT_TOOL, ToolIdentity("web_search_more", "web_search_more")
    )
    pieces = [ToolCall(0, "c", "web_search"), ToolCall(0, name="_more", arguments="{}")]
    assert subject.feed(pieces[0]) == []
    assert subject.feed(pieces[1]) == pieces
    assert subject.close(final=True) == []


def test_a_tool_whose_name_is_the_beginning_of_the_search_is_not_held_back() -> None:
    subject = make_filter(HOSTED_SEARCH, PREFIX)
    assert subject.feed(ToolCall(0, "c", "web", "{}")) == [ToolCall(0, "c", "web", "{}")]


def test_a_call_without_a_name_passes_when_the_round_is_over() -> None:
    subject = make_filter()
    nameless: list[Delta] = [ToolCall(0, "c", arguments="{}"), ToolEnd(0)]
    assert run_round(subject, *nameless, search(index=1), DONE) == [DONE, *nameless]
    assert len(subject.searches) == 1


def test_a_clients_function_of_the_same_name_is_left_alone() -> None:
    """GodeX took such a function for its own."""
    marked = ToolIdentity("web_search_1a2b", "web_search", "web_search", "")
    subject = make_filter(ToolIdentity("web_search", "web_search"), marked)
    client_call = ToolCall(0, "c0", "web_search", '{"query":"x"}')
    search_call = ToolCall(1, "c1", "web_search_1a2b", '{"query":"y"}')
    assert run_round(subject, client_call, search_call, DONE) == [client_call, DONE]
    assert queries(subject) == [("y",)]


def test_without_an_identity_the_search_has_its_default_name() -> None:
    subject = make_filter(CLIENT_TOOL)
    assert run_round(subject, search(), DONE) == [DONE]
    assert queries(subject) == [("berlin",)]


@table("given", [None, ""])
def test_a_call_without_an_id_gets_one(given: str | None) -> None:
    subject = make_filter()
    run_round(subject, ToolCall(0, given, "web_search", '{"query":"x"}'), DONE)
    assert [call.call_id for call in subject.searches] == ["call_n1"]


def test_an_id_is_used_once_in_an_answer() -> None:
    subject = make_filter()
    run_round(subject, search(call_id="c"), search(index=1, call_id="c"), DONE)
    assert [call.call_id for call in subject.searches] == ["c", "call_n1"]
    settle_all(subject)
    run_round(subject, search(call_id="c"), DONE)
    assert [call.call_id for call in subject.searches] == ["call_n2"]


# --- arguments ------------------------------------------------------------------------------------


@table(
    ("arguments", "expected"),
    [
        ('{"query": " two  words "}', ("two  words",)),
        ('{"query": "a", "queries": ["b", "a", " ", 7]}', ("a", "b")),
        ('{"queries": ["a", "b", "c", "d", "e"]}', ("a", "b", "c", "d")),
        ('{"query": "a", "queries": "b"}', ("a",)),
    ],
)
def test_queries_are_read_from_either_field(arguments: str, expected: tuple[str, ...]) -> None:
    subject = make_filter()
    run_round(subject, ToolCall(0, "c", "web_search", arguments), DONE)
    assert queries(subject) == [expected]


def test_a_long_query_is_truncated() -> None:
    subject = make_filter()
    run_round(subject, search("x" * 1000), DONE)
    assert queries(subject) == [("x" * 400,)]


@table(
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
def test_malformed_arguments_are_reported_to_the_model_only(
    arguments: str, kept: str | None
) -> None:
    subject = make_filter()
    [_, state] = run_round(subject, ToolCall(0, "c", "web_search", arguments), DONE)
    assert isinstance(state, ReasoningState)
    [called, answered] = follow_up_of(subject).steps
    assert isinstance(called, ToolCallStep)
    assert isinstance(msgspec.json.decode(called.arguments), dict)
    assert kept in (None, called.arguments)
    assert '{"query": "some words"}' in answers(subject)[0]
    assert isinstance(answered, ToolResultStep)
    assert subject.searches == ()


# --- beside the client's calls --------------------------------------------------------------------


def test_beside_a_clients_call_there_is_a_search_but_no_further_round() -> None:
    """GodeX left the sibling's block open, and the next turn's call was made of both."""
    subject = make_filter()
    client_call = ToolCall(1, "c1", "read", "{}")
    assert run_round(subject, search(), client_call, DONE) == [client_call, DONE]
    deltas = settle_all(subject, BERLIN)
    assert [type(delta) for delta in deltas] == [SearchStarted, SearchEnded, ReasoningState]
    assert subject.follow_up is None


def test_in_a_round_that_another_filter_wants_the_results_are_included() -> None:
    subject = make_filter()
    run_round(subject, search(), ToolCall(1, "c1", "read", "{}"), DONE, final=False)
    settle_all(subject, BERLIN)
    assert [
        step.call_id for step in follow_up_of(subject).steps if isinstance(step, ToolCallStep)
    ] == ["call_0"]


def test_client_calls_of_an_earlier_round_do_not_prevent_a_follow_up() -> None:
    subject = make_filter()
    run_round(subject, ToolCall(0, "c1", "read", "{}"), DONE)
    run_round(subject, search(), DONE)
    settle_all(subject)
    assert subject.follow_up is not None


@table("reason", ["length", "content_filter", "error", None])
def test_an_answer_that_was_cut_off_is_not_searched_for(reason: str | None) -> None:
    subject = make_filter()
    assert run_round(subject, Reasoning("hm"), search(), Finish(reason)) == [
        Reasoning("hm"),
        Finish(reason),
    ]
    assert subject.wish is None


def test_an_empty_finish_reason_does_not_replace_an_earlier_one() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE, Finish(None))
    assert len(subject.searches) == 1


# --- budgets --------------------------------------------------------------------------------------


def test_a_search_beyond_the_budget_is_not_made_but_answered() -> None:
    subject = make_filter(max_calls=1)
    run_round(subject, search(), search("paris", 1), DONE)
    assert queries(subject) == [("berlin",)]
    settle_all(subject, BERLIN)
    assert "limit" in answers(subject)[1]
    assert follow_up_of(subject).tool_choice is None
    assert [each.code for each in subject.diagnostics] == ["search.limited"]


def test_a_model_over_the_budget_gets_tool_choice_none_and_then_no_round() -> None:
    subject = make_filter(max_calls=0)
    choices = []
    for _ in range(2):
        run_round(subject, search(), DONE)
        choices.append(follow_up_of(subject).tool_choice)
    assert choices == [None, ToolChoice("none")]
    assert run_round(subject, search(), DONE) == [DONE]
    assert subject.wish is None


@table("arguments", ['{"query":"x"}', "not even JSON"])
def test_the_number_of_rounds_is_limited(arguments: str) -> None:
    subject = make_filter()
    rounds = 0
    for _ in range(100):
        run_round(subject, ToolCall(0, "c", "web_search", arguments), DONE)
        settle_all(subject)
        rounds += subject.follow_up is not None
    assert 10 < rounds < 15


def test_searches_are_limited_whatever_the_client_allows() -> None:
    subject = make_filter(max_calls=1000)
    run_round(subject, *(search(index=index) for index in range(50)), DONE)
    assert len(subject.searches) == 20


@table(
    ("mode", "following"),
    [("auto", None), ("required", ToolChoice("auto")), ("function", ToolChoice("auto"))],
)
def test_a_forced_tool_choice_is_auto_in_later_rounds(
    mode: Any, following: ToolChoice | None
) -> None:
    subject = make_filter(choice=ToolChoice(mode))
    run_round(subject, search(), DONE)
    settle_all(subject)
    assert follow_up_of(subject).tool_choice == following


def test_a_later_round_without_a_search_has_no_follow_up() -> None:
    subject = make_filter(history=(MessageStep("user", (TextPart("hello"),)),))
    run_round(subject, search(), DONE)
    settle_all(subject)
    assert subject.follow_up is not None
    assert run_round(subject, Text("So."), Finish("stop")) == [Text("So."), Finish("stop")]
    assert subject.follow_up is None


def test_a_search_is_settled_once() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    subject.settle(SearchOutcome())
    assert subject.searches == ()


def test_giving_up_drops_the_pending_searches() -> None:
    subject = make_filter()
    run_round(subject, search(), DONE)
    assert subject.searches
    assert subject.give_up() == subject.close(final=True) == []
    assert subject.wish is None


def test_a_search_that_could_not_be_made_has_a_failed_outcome() -> None:
    call = SearchCall(call_id="c", arguments="{}", queries=("berlin",), rules=SearchRules())
    assert call.fail() == SearchOutcome(failed=True)
