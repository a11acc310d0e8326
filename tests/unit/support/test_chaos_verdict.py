"""The rules of a chaos run: each is broken once, and reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.runs.recovery import PROCESS_LOST
from tests.support.cluster.chaos.records import Life, Outcome, Records
from tests.support.cluster.chaos.report import make_report
from tests.support.cluster.chaos.verdict import Verdict

LOST = {"code": "server_error", "message": PROCESS_LOST}


def make_outcome(records: Records, *, is_background: bool, **fields: Any) -> Outcome:
    """Make a response that was asked for at 100 s and completed at 102 s, but for `fields`."""
    outcome = records.begin("one", is_background=is_background)
    response = {"status": "completed", "store": True, "error": None}
    given = {"id": "resp_1", "asked_at": 100.0, "ended_at": 102.0, "response": response, **fields}
    for name, value in given.items():
        setattr(outcome, name, value)
    records.calls[outcome.marker].append(("one", 100.5))
    return outcome


def failed(**fields: Any) -> dict[str, Any]:
    return {"response": {"status": "failed", "store": True, "error": LOST}, **fields}


def judge(records: Records, kind: str) -> str:
    """Judge one response; return the violation, which must be the only one, or nothing."""
    verdict = Verdict(lease_s=2.0)
    verdict.judge(records)
    assert kind in {name for _, name in verdict.kinds}
    assert len(records.violations) <= 1
    return records.violations[0] if records.violations else ""


def kill_at(records: Records, killed_at: float) -> None:
    records.timeline.lives["one"].append(Life(90.0, killed_at))


@pytest.mark.parametrize("is_background", [True, False])
def test_an_undisturbed_response_must_be_completed(is_background: bool) -> None:
    records = Records()
    make_outcome(records, is_background=is_background)
    assert judge(records, "completed") == ""
    records = Records()
    make_outcome(records, is_background=is_background, **failed())
    assert "failed" in judge(records, "violation")


def test_a_background_response_of_a_killed_gateway_must_end_as_failed_in_time() -> None:
    records = Records()
    kill_at(records, 101.0)
    make_outcome(records, is_background=True, **failed(ended_at=107.9))
    assert judge(records, "failed: gateway killed") == ""
    records = Records()
    kill_at(records, 101.0)
    make_outcome(records, is_background=True, **failed(ended_at=108.1))
    assert "ended 7.1 s after its gateway was killed" in judge(records, "violation")


def test_the_reason_of_the_failure_must_be_that_the_gateway_stopped() -> None:
    records = Records()
    kill_at(records, 101.0)
    ending = {"status": "failed", "store": True, "error": {**LOST, "message": "Something else."}}
    make_outcome(records, is_background=True, response=ending)
    assert "failed with 'Something else.'" in judge(records, "violation")


def test_time_in_which_the_store_was_away_does_not_count() -> None:
    records = Records()
    kill_at(records, 101.0)
    records.timeline.outages.append((102.0, 110.0))
    make_outcome(records, is_background=True, **failed(ended_at=118.9))
    assert judge(records, "failed: gateway killed") == ""


def test_a_provider_that_is_called_twice_is_a_violation() -> None:
    records = Records()
    outcome = make_outcome(records, is_background=True)
    records.calls[outcome.marker].append(("two", 101.0))
    assert "the provider was called 2 times" in judge(records, "violation")


def test_a_stream_may_be_cut_only_by_a_kill_and_refused_only_in_an_outage() -> None:
    cut = {"response": None, "error": "cut: ClientPayloadError"}
    disturbances: dict[str, Callable[[Records], None]] = {
        "violation": lambda records: None,
        "cut: gateway killed": lambda records: kill_at(records, 101.9),
        "refused: store away": lambda records: records.timeline.outages.append((101.0, 102.0)),
    }
    for kind, disturb in disturbances.items():
        records = Records()
        disturb(records)
        make_outcome(records, is_background=False, **cut)
        assert bool(judge(records, kind)) == (kind == "violation")


def test_an_answer_may_be_without_storage_only_in_an_outage() -> None:
    unstored = {"response": {"status": "completed", "store": False, "error": None}}
    records = Records()
    make_outcome(records, is_background=False, **unstored)
    assert "not stored, although the store was up" in judge(records, "violation")
    records = Records()
    records.timeline.outages.append((101.0, 103.0))
    make_outcome(records, is_background=False, **unstored)
    assert judge(records, "completed, not stored: store away") == ""


@pytest.mark.parametrize(
    ("found", "violation"),
    [
        ((200, {"status": "completed", "store": True, "error": None}), ""),
        ((404, {}), "completed, but found 404"),
        ((200, {"status": "failed", "store": True, "error": LOST}), "completed, but found 200"),
    ],
)
def test_what_a_client_was_told_must_be_found(found: tuple[int, Any], violation: str) -> None:
    records, verdict = Records(), Verdict(lease_s=2.0)
    outcome = make_outcome(records, is_background=True)
    verdict.compare(records, outcome, *found)
    assert violation in "".join(records.violations)
    assert bool(records.violations) == bool(violation)


def test_a_response_whose_client_was_cut_off_must_have_ended() -> None:
    for status, expected in (("failed", 0), ("in_progress", 1)):
        records = Records()
        outcome = make_outcome(records, is_background=False, response=None)
        Verdict(lease_s=2.0).compare(records, outcome, 200, {"status": status})
        assert len(records.violations) == expected


def test_a_gap_in_a_stream_is_noticed() -> None:
    outcome = Records().begin("one", is_background=True)
    frame = b'data: {"type":"response.in_progress","sequence_number":%d}'
    assert outcome.take(frame % 0) is False
    with pytest.raises(AssertionError, match="event 2 came where 1 was expected"):
        outcome.take(frame % 2)


def test_the_report_has_the_share_of_undisturbed_responses_and_the_violations() -> None:
    records, verdict = Records(), Verdict(lease_s=2.0)
    make_outcome(records, is_background=True)
    make_outcome(records, is_background=True, **failed())
    verdict.judge(records)
    report = make_report(records, verdict, 60.0, 7)
    assert "undisturbed, of these completed" in report
    assert "2, 50.00%" in report
    assert "violation: background resp_1: failed, but its gateway was up" in report
