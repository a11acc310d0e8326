"""Citations of a Chat Completions answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import Annotation, Delta, Extra, Finish, Start, Text
from antiphon.dialects.chat.decode import ChatDecoder, decode
from antiphon.framing.sse import Frame


def feed(*chunks: object, decoder: ChatDecoder | None = None) -> list[Delta]:
    """The deltas of these chunks, without who is answering."""
    decoder = decoder or ChatDecoder()
    frames = [
        Frame(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()) for chunk in chunks
    ]
    deltas = [delta for frame in frames for delta in decoder.feed(frame)]
    return [delta for delta in deltas if not isinstance(delta, Start)]


def says(**message: Any) -> list[Delta]:
    return feed({"choices": [{"index": 0, "delta": message}]})


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (
            {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "end_index": 4}},
            Annotation(
                {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 4}
            ),
        ),
        (
            {"type": "url_citation", "url_citation": {"url": "u", "title": None}},
            Annotation(
                {"type": "url_citation", "url": "u", "title": "", "start_index": 0, "end_index": 0}
            ),
        ),
        ({"type": "url_citation"}, Extra("annotation", {"type": "url_citation"})),
        ("odd", Extra("annotation", "odd")),
    ],
)
def test_citations_become_annotations(annotation: object, expected: Delta) -> None:
    assert says(annotations=[annotation]) == [expected]


def test_annotations_that_are_not_a_list_are_ignored() -> None:
    assert says(annotations={"x": 1}) == []


@pytest.mark.parametrize(
    "found",
    [
        {"citations": ["u"]},
        {"search_results": [{"url": "u", "title": None}, {"url": "u"}]},
        {"web_search": [{"link": "u"}, {"title": "no address"}, None]},
    ],
)
def test_search_results_are_cited_once(found: dict[str, Any]) -> None:
    cited = Annotation(
        {"type": "url_citation", "url": "u", "title": "", "start_index": 0, "end_index": 0}
    )
    decoder = ChatDecoder()
    frame = Frame(json.dumps({"choices": [], **found}).encode())
    assert decoder.feed(frame) == [cited]
    assert decoder.feed(frame) == []
    whole = json.dumps({"model": "m", "choices": [{"message": {"content": "Hi"}}], **found})
    assert decode(whole.encode()) == [Start("m"), cited, Text("Hi"), Finish(None)]


def test_search_results_that_are_not_a_list_are_ignored() -> None:
    decoder = ChatDecoder()
    assert decoder.feed(Frame(b'{"model": "m", "choices": [], "citations": "u"}')) == [Start("m")]
