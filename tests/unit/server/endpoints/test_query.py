"""Query parameters: what is accepted, and the error that names a bad one."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.endpoints.query import Query
from tests.support.tables import table


def read(query: Query) -> None:
    query.boolean("stream", False)
    query.integer("limit", 20, minimum=1, maximum=100)
    query.choice("order", "desc", ("asc", "desc"))
    query.choices("include", ("a", "b", "c"))


def test_absent_parameters_have_their_defaults() -> None:
    query = Query("")
    assert query.text("after") is None
    assert query.choices("include", ("a",)) == []
    assert query.boolean("stream", False) is False
    assert query.integer("limit", 20, minimum=1) == 20
    assert query.choice("order", "desc", ("asc", "desc")) == "desc"


def test_parameters_are_decoded_and_the_last_one_counts() -> None:
    query = Query("after=a%20b&stream=false&stream=true&limit=7&order=asc&starting_after=-1")
    assert query.text("after") == "a b"
    assert query.boolean("stream", False) is True
    assert query.integer("limit", 20, minimum=1, maximum=100) == 7
    assert query.integer("starting_after", 0, minimum=-1) == -1
    assert query.choice("order", "desc", ("asc", "desc")) == "asc"


def test_a_list_is_written_with_or_without_brackets() -> None:
    query = Query("include=a&include%5B%5D=b&include[]=c")
    assert query.choices("include", ("a", "b", "c")) == ["a", "b", "c"]


@table(
    ("text", "message"),
    [
        ("stream=1", "`stream` must be `true` or `false`, not '1'."),
        ("limit=x", "`limit` must be an integer, not 'x'."),
        ("limit=²", "`limit` must be an integer, not '²'."),
        ("limit=0", "`limit` must be at least 1 and at most 100, not '0'."),
        ("limit=" + "9" * 50, f"`limit` must be an integer, not '{'9' * 40}…'."),
        ("include=a&include=d", "`include` must be `a`, `b` or `c`, not 'd'."),
        ("order=up", "`order` must be `asc` or `desc`, not 'up'."),
    ],
)
def test_a_bad_parameter_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(Query(text))
    assert caught.value.message == message
    assert caught.value.param == text.partition("=")[0]


def test_a_number_without_a_maximum() -> None:
    with pytest.raises(InvalidRequest, match="`starting_after` must be at least -1, not '-2'"):
        Query("starting_after=-2").integer("starting_after", -1, minimum=-1)
