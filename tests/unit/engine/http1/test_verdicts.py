"""Our HTTP client and aiohttp's make the same of every response, however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.http_cases import CASES, ENCODINGS
from tests.support.http_verdicts import Ending, Verdict, after_each_head, judge
from tests.support.tables import table

UNDECODABLE = ("no gzip at all", "bytes after gzip")
ENDINGS: tuple[Ending, ...] = ("close", "reset", "open")


@table("ending", ENDINGS)
@table("case", CASES)
def test_both_clients_come_to_the_same_verdict(case: str, ending: Ending) -> None:
    segments = after_each_head(CASES[case])
    ours = judge(segments, ending, use_aiohttp=False)
    theirs = judge(segments, ending, use_aiohttp=True)
    if case in ENCODINGS:  # a body that cannot be decompressed is no reason to close a connection
        ours, theirs = ours.without_reuse(), theirs.without_reuse()
    assert ours == theirs


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("a long body", Verdict(200, b"hel", "complete", b"second", False)),
        ("a size of letters", Verdict(200, b"", "protocol: invalid_chunk", b"second", False)),
        ("more than the size", Verdict(200, b"he", "protocol: invalid_chunk", b"second", False)),
    ],
)
def test_a_head_in_the_segment_of_what_is_refused_is_not_lost(case: str, expected: Verdict) -> None:
    """aiohttp drops it, so that its verdict depends on the cuts."""
    assert judge([CASES[case]], use_aiohttp=False) == expected
    assert judge([CASES[case]], use_aiohttp=True).status is None


def test_a_chunk_extension_has_a_limit() -> None:
    extension = b"5;" + b"a" * 70_000
    data = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + extension
    assert judge([data], "open", use_aiohttp=False).end == "protocol: invalid_chunk"


@st.composite
def _cut_cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[str, list[bytes]]:
    name = draw(st.sampled_from([each for each in CASES if len(CASES[each]) < 2000]))
    data = CASES[name]
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    ends = zip([0, *places], [*places, len(data)], strict=True)
    return name, [data[start:end] for start, end in ends if start < end]


@given(_cut_cases(), st.sampled_from(ENDINGS))
def test_any_cut_of_the_bytes_gives_the_same_body(
    cut: tuple[str, list[bytes]], ending: Ending
) -> None:
    name, segments = cut
    whole, given = (judge(each, ending, use_aiohttp=False) for each in ([CASES[name]], segments))
    assert given.status == whole.status
    if name in UNDECODABLE:  # what comes before the error is read if it arrives before it
        assert b"hello".startswith(given.body)
    else:
        assert given.body == whole.body
    # A stream that is cut after its first part is a fault of its own.
    assert given.end.replace("stream_cut", "connection_failed") == whole.end.replace(
        "stream_cut", "connection_failed"
    )
    assert given.next_body == whole.next_body == b"second"
