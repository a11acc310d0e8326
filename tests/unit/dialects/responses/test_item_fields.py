"""Fields of items of a wrong type are read as if they were missing."""

from __future__ import annotations

import pytest

from antiphon.dialects.responses.items import (
    as_list,
    complete_citation,
    id_of,
    kind_of,
    parts_of,
    phase_of,
    string_of,
)


@pytest.mark.parametrize("document", [None, "message", [], {}, {"type": 5, "id": 5, "phase": 5}])
def test_what_is_not_an_item_has_no_fields(document: object) -> None:
    assert (kind_of(document), id_of(document), phase_of(document)) == ("", None, None)


def test_only_messages_have_a_phase() -> None:
    assert phase_of({"type": "message", "phase": "commentary"}) == "commentary"
    assert phase_of({"type": "reasoning", "phase": "commentary"}) is None


def test_content_may_be_a_string_or_a_list() -> None:
    text = {"type": "output_text", "text": "a"}
    assert list(parts_of("a", "output_text")) == [text]
    assert list(parts_of(["a", {"type": "refusal"}, 5], "output_text")) == [
        text,
        {"type": "refusal"},
    ]
    assert list(parts_of(5, "output_text")) == []
    assert as_list((1,)) == ()
    assert (string_of(text, "text"), string_of(text, "refusal")) == ("a", "")


def test_a_url_citation_gets_the_fields_that_clients_require() -> None:
    citation = {"type": "url_citation", "url": "https://a.example"}
    assert complete_citation(citation) == {
        **citation,
        "title": "",
        "start_index": 0,
        "end_index": 0,
    }
    assert complete_citation({"type": "file_path"}) == {"type": "file_path"}
