"""Tool call ids in the format that a provider accepts."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from antiphon.dialects.call_ids import CallIdFormat, CallIds

NINE = CallIdFormat("[a-zA-Z0-9]{9}", 9)


def test_without_a_format_every_id_stays() -> None:
    ids = CallIds(None)
    assert [ids.assign(each) for each in ("functions.look:0", "", "functions.look:0")] == [
        "functions.look:0",
        "",
        "functions.look:0",
    ]
    assert ids.find("whatever") == "whatever"


def test_an_id_that_fits_stays_and_another_becomes_a_digest_of_itself() -> None:
    ids = CallIds(NINE)
    assert ids.assign("abcDEF123") == ids.find("abcDEF123") == "abcDEF123"
    made = ids.assign("call_1")
    assert re.fullmatch(NINE.pattern, made)
    assert ids.find("call_1") == made
    assert CallIds(NINE).assign("call_1") == made


def test_a_result_belongs_to_the_latest_call_with_its_id() -> None:
    ids = CallIds(NINE)
    first = ids.assign("look:0")
    assert ids.find("look:0") == first
    second = ids.assign("look:0")
    assert second != first
    assert ids.find("look:0") == second


def test_an_id_that_looks_like_a_digest_in_use_becomes_another() -> None:
    ids = CallIds(NINE)
    made = ids.assign("call_1")
    assert ids.assign(made) not in (made, "call_1")


def test_the_work_is_linear_in_the_calls_with_one_id() -> None:
    ids = CallIds(NINE)
    began = time.process_time()
    assert len({ids.assign("look:0") for _ in range(5000)}) == 5000
    assert time.process_time() - began < 2  # were it quadratic, ten seconds


def test_a_result_without_a_call_keeps_its_id() -> None:
    assert CallIds(NINE).find("call_1") == "call_1"


@given(st.lists(st.text()))
def test_no_two_calls_share_an_id_and_every_id_fits(called: list[str]) -> None:
    ids = CallIds(NINE)
    given = [ids.assign(each) for each in called]
    assert len(set(given)) == len(given)
    assert all(re.fullmatch(NINE.pattern, each) for each in given)
    again = CallIds(NINE)
    assert [again.assign(each) for each in called] == given
