"""Citation marks in an answer become annotations, at the right position, however it is cut."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import (
    Annotation,
    BlockStart,
    Delta,
    Finish,
    ItemEnd,
    RawItem,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    SearchStarted,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.web_search.citations import CitationFilter
from antiphon.core.web_search.sources import NumberedSources, SearchResult
from tests.support.filters import DrivenFilter
from tests.support.tables import table

URLS = ["https://a.example/1", "https://b.example/x_(y)"]


def sources() -> NumberedSources:
    known = NumberedSources()
    for number, url in enumerate(URLS, 1):
        known.add(SearchResult(title=f"Source {number}", url=url))
    return known


def citations(deltas: list[Delta]) -> list[Any]:
    return [delta.annotation for delta in deltas if isinstance(delta, Annotation)]


def find_citations(*texts: str) -> list[tuple[str, str]]:
    """What is marked in a text, and which source it cites."""
    subject = DrivenFilter(CitationFilter(sources()))
    whole = "".join(texts)
    deltas = [out for text in texts for out in subject.feed(Text(text))]
    assert "".join(delta.text for delta in deltas if isinstance(delta, Text)) == whole
    return [
        (whole[each["start_index"] : each["end_index"]], each["url"]) for each in citations(deltas)
    ]


def test_a_citation_mark_becomes_a_url_citation_annotation() -> None:
    subject = DrivenFilter(CitationFilter(sources()))
    citation = {
        "type": "url_citation",
        "start_index": 9,
        "end_index": 12,
        "url": URLS[0],
        "title": "Source 1",
    }
    assert subject.feed(Text("It rains.[1] So.")) == [
        Text("It rains.[1] So."),
        Annotation(citation),
    ]


@table(
    ("text", "expected"),
    [
        ("a [1] b [2].", [("[1]", 0), ("[2]", 1)]),
        ("both [1, 2]", [("[1, 2]", 0), ("[1, 2]", 1)]),
        ("both [1][2]", [("[1]", 0), ("[2]", 1)]),
        ("wide 【1】 and 【2†source】", [("【1】", 0), ("【2†source】", 1)]),
        (f"see [the page]({URLS[0]})!", [(f"[the page]({URLS[0]})", 0)]),
        (f"see [x]({URLS[1]})", [(f"[x]({URLS[1]})", 1)]),
        (f'see [x]({URLS[0]} "A title")', [(f'[x]({URLS[0]} "A title")', 0)]),
        (f"see [x](<{URLS[0]}>)", [(f"[x](<{URLS[0]}>)", 0)]),
        (f"[2]({URLS[1]})", [("[2]", 1)]),
        (f"[7]({URLS[0]})", [(f"[7]({URLS[0]})", 0)]),
        (f"[[1]]({URLS[0]})", [("[1]", 0)]),
        ("code `a[1]` and [1]", [("[1]", 0)]),
        ("```\na[1]\n\nb[2]\n```\n[2]", [("[2]", 1)]),
        ("`` ` a[1] `` [1]", [("[1]", 0)]),
        ("a tick ` alone\n\nthen [1]", [("[1]", 0)]),
        ("[not `closed [1]` yet]", []),
    ],
)
def test_numbers_in_brackets_and_links_become_citations(
    text: str, expected: list[tuple[str, int]]
) -> None:
    assert find_citations(text) == [(mark, URLS[number]) for mark, number in expected]


@table(
    "text",
    [
        "nothing here",
        "[0] [3] [99999] [x] [] [1 2] [-1]",
        "[1",
        "1]",
        "[1\n]",
        "[a](https://elsewhere.example/)",
        f"[a] ({URLS[0]})",
        f"[a]\n({URLS[0]})",
        f"[a]({URLS[0]}",
        f"[a]({URLS[0]}\n)",
        f"({URLS[0]})",
        f"[{'x' * 400}]({URLS[0]})",
        f"[a]({URLS[0]}{'x' * 3000})",
    ],
)
def test_other_brackets_are_text(text: str) -> None:
    assert find_citations(text) == []


def test_a_mark_that_begins_a_message_may_be_cut_anywhere() -> None:
    text = f"[x]({URLS[0]}) [1]"
    assert find_citations(*text) == find_citations(text) != []


ENDINGS: list[Delta] = [
    Reasoning("hm"),
    Refusal("no"),
    ToolCall(0),
    RawItem({"type": "x"}),
    RawItemStarted(0, {"type": "x"}),
    ItemEnd(),
    SearchStarted({}),
    BlockStart("text", {}),
]
BESIDES: list[Delta] = [
    Usage(),
    Finish("stop"),
    ReasoningState("s", 1),
    Reasoning(""),
    Refusal(""),
]


@table("between", ENDINGS, ids=lambda delta: type(delta).__name__)
def test_positions_count_from_the_start_of_the_message(between: Delta) -> None:
    subject = DrivenFilter(CitationFilter(sources()))
    deltas = [out for delta in (Text("ab["), between, Text("1][1]")) for out in subject.feed(delta)]
    assert between in deltas
    assert [each["start_index"] for each in citations(deltas)] == [2]


@table("between", BESIDES, ids=lambda delta: type(delta).__name__)
def test_deltas_that_make_no_item_do_not_end_a_message(between: Delta) -> None:
    subject = DrivenFilter(CitationFilter(sources()))
    deltas = [out for delta in (Text("ab["), between, Text("1]")) for out in subject.feed(delta)]
    assert [each["start_index"] for each in citations(deltas)] == [2]


def test_the_end_of_a_round_ends_its_message() -> None:
    subject = DrivenFilter(CitationFilter(sources()))
    subject.feed(Text("Let me see."))
    assert subject.close(final=True) == []
    [citation] = citations(subject.feed(Text("[1]")))
    assert citation["start_index"] == 0
    assert (subject.follow_up, subject.diagnostics) == (None, ())


def test_a_source_that_is_found_later_can_be_cited_from_then_on() -> None:
    known = sources()
    subject = DrivenFilter(CitationFilter(known))
    assert citations(subject.feed(Text("[3]"))) == []
    known.add(SearchResult(title="Third", url="https://c.example/"))
    [citation] = citations(subject.feed(Text("[3]")))
    assert (citation["start_index"], citation["title"]) == (3, "Third")
