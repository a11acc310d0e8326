"""W3C trace context: valid headers are continued, all others begin a new trace."""

from __future__ import annotations

import pytest

from antiphon.observe.trace_context import take_over
from tests.support.tables import table

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def new_bytes(size: int) -> bytes:
    return bytes([size] * size)


def test_a_trace_is_continued_and_passed_on() -> None:
    context = take_over((f"00-{TRACE}-{PARENT}-01", "vendor=1"), new_bytes)
    assert (f"{context.trace_id:032x}", f"{context.parent_id:016x}") == (TRACE, PARENT)
    assert context.is_sampled
    assert context.begin_attempt() == {
        "traceparent": f"00-{TRACE}-0808080808080808-01",
        "tracestate": "vendor=1",
    }


def test_a_trace_that_is_not_sampled_stays_so() -> None:
    context = take_over((f"00-{TRACE}-{PARENT}-00", ""), new_bytes)
    assert not context.is_sampled
    assert context.begin_attempt() == {"traceparent": f"00-{TRACE}-0808080808080808-00"}


@table(
    "traceparent",
    [
        "",
        "nonsense",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
    ],
)
def test_an_invalid_header_begins_a_new_trace(traceparent: str) -> None:
    context = take_over((traceparent, "vendor=1"), new_bytes)
    assert (context.trace_id, context.parent_id) == (int("10" * 16, 16), None)
    assert context.is_sampled
    assert "tracestate" not in context.begin_attempt()


def test_a_later_version_may_have_further_fields() -> None:
    assert take_over((f"01-{TRACE}-{PARENT}-01-more", ""), new_bytes).parent_id == int(PARENT, 16)


@pytest.mark.parametrize("state", ["x" * 513, "a=\n"])
def test_a_state_that_is_too_long_or_not_printable_is_dropped(state: str) -> None:
    context = take_over((f"00-{TRACE}-{PARENT}-01", state), new_bytes)
    assert context.state == ""


def test_an_attempt_that_failed_before_it_was_sent_has_an_id_of_its_own() -> None:
    ids = iter([b"\0" * 7 + bytes([number]) for number in range(10)])
    context = take_over((f"00-{TRACE}-{PARENT}-01", ""), lambda size: next(ids))
    assert context.span_id == 1  # zero is not an id
    sent = context.begin_attempt()["traceparent"].split("-")[2]
    assert [int(sent, 16), context.end_attempt(), context.end_attempt()] == [1, 1, 2]
