"""Gemini citations: offsets in bytes become offsets in characters."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import Annotation, Extra, Text
from tests.support.dialect_samples.gemini import Document, chunk, decode_parts, feed, text


def cited(url: str, begin: int, end: int, title: str = "") -> Annotation:
    return Annotation(
        {
            "type": "url_citation",
            "url": url,
            "title": title,
            "start_index": begin,
            "end_index": end,
        }
    )


def grounding(*supports: tuple[int, int, list[Any]]) -> Document:
    return {
        "groundingChunks": [
            {"web": {"uri": "https://a.test", "title": "A"}},
            {"retrievedContext": {"text": "no address"}},
            {"maps": {"uri": "https://maps.test", "title": None}},
            "odd",
        ],
        "groundingSupports": [
            {"segment": {"startIndex": begin, "endIndex": end}, "groundingChunkIndices": indices}
            for begin, end, indices in supports
        ],
    }


def test_grounding_cites_its_sources_by_characters() -> None:
    found = grounding((0, 3, [0]), (3, 6, [2, 0]))
    assert decode_parts(text("°a"), text("bcd"), groundingMetadata=found) == [
        *(Text("°a"), Text("bcd")),
        cited("https://a.test", 0, 2, "A"),
        cited("https://maps.test", 2, 5),
        cited("https://a.test", 2, 5, "A"),
        Extra("groundingMetadata", found),
    ]


@pytest.mark.parametrize(
    ("segment", "position"),
    [
        ({"startIndex": 0, "endIndex": 3, "text": "°a"}, (0, 2)),
        ({"startIndex": 0, "endIndex": 2, "text": "cd"}, (3, 5)),
        ({"startIndex": 3, "endIndex": 4, "text": "nowhere"}, (2, 3)),
        ({"startIndex": 3, "endIndex": 4, "text": ""}, (2, 3)),
        ({"startIndex": 3, "endIndex": 4, "text": 5}, (2, 3)),
    ],
)
def test_a_segment_is_located_by_its_quoted_text(
    segment: Document, position: tuple[int, int]
) -> None:
    found: Document = {"groundingChunks": [{"web": {"uri": "https://a.test"}}]}
    found["groundingSupports"] = [{"segment": segment, "groundingChunkIndices": [0]}]
    assert decode_parts(text("°abcd"), groundingMetadata=found)[1] == cited(
        "https://a.test", *position
    )


def test_an_offset_beyond_the_text_is_counted_from_its_end() -> None:
    deltas = decode_parts(text("°a"), groundingMetadata=grounding((3, 10, [0])))
    assert deltas[1] == cited("https://a.test", 2, 9, "A")


def test_sources_without_a_url_become_extras() -> None:
    found = grounding((0, 1, [1, 3, 9, -1, "x"]))
    assert decode_parts(groundingMetadata=found) == [Extra("groundingMetadata", found)]


@pytest.mark.parametrize(
    "odd",
    [
        {"groundingChunks": "odd", "groundingSupports": [{"groundingChunkIndices": [0]}]},
        {"groundingSupports": ["odd", {}, {"groundingChunkIndices": "odd"}]},
        {"groundingSupports": "odd", "webSearchQueries": ["q"]},
    ],
)
def test_malformed_grounding_becomes_an_extra(odd: Document) -> None:
    assert decode_parts(groundingMetadata=odd) == [Extra("groundingMetadata", odd)]


@pytest.mark.parametrize("empty", [{}, None, [], "odd"])
def test_empty_grounding_gives_no_deltas(empty: object) -> None:
    assert decode_parts(groundingMetadata=empty, citationMetadata=empty) == []


def test_repeated_grounding_is_cited_once() -> None:
    found = grounding((0, 1, [0]))
    deltas = feed(chunk(text("a"), groundingMetadata=found), chunk(groundingMetadata=found))
    assert [delta for delta in deltas if isinstance(delta, Annotation)] == [
        cited("https://a.test", 0, 1, "A")
    ]


def test_grounding_without_a_segment_cites_the_start_of_the_text() -> None:
    found: Document = {"groundingChunks": [{"web": {"uri": "https://a.test"}}]}
    found["groundingSupports"] = [{"groundingChunkIndices": [0]}]
    assert decode_parts(text("a"), groundingMetadata=found)[1] == cited("https://a.test", 0, 0)


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_citations_with_a_url_become_annotations(key: str) -> None:
    bare = {"startIndex": 1, "license": "mit"}
    sources = [{"startIndex": 1, "endIndex": 2, "uri": "https://a.test", "title": "A"}, bare, "odd"]
    assert decode_parts(text("abc"), citationMetadata={key: sources}) == [
        Text("abc"),
        cited("https://a.test", 1, 2, "A"),
        Extra("citation", bare),
    ]
