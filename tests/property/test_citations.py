"""Citations do not depend on how the text is cut, and each has the right position."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.deltas import Annotation, Delta, Text
from antiphon.core.web_search.citations import CitationFilter
from antiphon.core.web_search.sources import NumberedSources, SearchResult

URL = "https://a.example/(x)"
pieces = st.sampled_from(
    [*"[]()`1a †\n", "```", "[1]", "[2]", "[9]", "[1, 2]", "【1】", "](", "é😀", URL, f"[x]({URL})"]
)
texts = st.lists(pieces, max_size=30).map("".join)


def subject() -> CitationFilter:
    sources = NumberedSources()
    sources.add(SearchResult(title="One", url=URL))
    sources.add(SearchResult(title="Two", url="https://b.example/"))
    return CitationFilter(sources)


def feed_all(texts: list[str]) -> list[Delta]:
    at = subject()
    return [out for text in texts for out in at.feed(Text(text))]


def citations(deltas: list[Delta]) -> list[dict[str, object]]:
    return [dict(delta.annotation) for delta in deltas if isinstance(delta, Annotation)]


@given(texts, st.lists(st.integers(0, 200)))
def test_citations_do_not_depend_on_how_the_text_is_cut(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[a:b] for a, b in pairwise(places)]
    assert (
        citations(feed_all(chunks))
        == citations(feed_all([text]))
        == citations(feed_all(list(text)))
    )


@given(texts)
def test_a_citation_marks_brackets_and_follows_the_text_that_completes_it(text: str) -> None:
    text = ""
    for delta in feed_all(list(text)):
        if isinstance(delta, Text):
            text += delta.text
        elif isinstance(delta, Annotation):
            start, end = delta.annotation["start_index"], delta.annotation["end_index"]
            assert end == len(text)
            assert text[start] in "[【"
            assert text[end - 1] in "])】"
    assert text == text
