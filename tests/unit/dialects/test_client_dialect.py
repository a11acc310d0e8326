"""What a client dialect is given: batches of events, and problems."""

from __future__ import annotations

from antiphon.core.events import Keepalive
from antiphon.core.faults.fault import connection_fault
from antiphon.dialects.client_dialect import (
    EventBatch,
    Problem,
    fault_problem,
    request_problem,
    whole_seconds,
)
from antiphon.errors import InvalidRequest, LimitExceeded


def test_a_batch_knows_the_numbers_of_its_events() -> None:
    batch = EventBatch(7, [Keepalive(), Keepalive()])
    assert (batch.first, batch.last) == (7, 8)
    assert EventBatch(0, []).last == -1


def test_an_invalid_request_is_a_problem_with_its_parameter() -> None:
    error = InvalidRequest("Bad.", param="tools", code="invalid_value", status=422, kind="other")
    assert request_problem(error) == Problem(
        status=422, message="Bad.", kind="other", code="invalid_value", param="tools"
    )


def test_a_limit_is_a_problem_with_its_headers() -> None:
    error = LimitExceeded(
        "Too much.", code="insufficient_quota", kind="quota", headers={"a": "b"}, permanent=True
    )
    problem = request_problem(error)
    assert (problem.status, problem.headers, problem.is_permanent) == (429, {"a": "b"}, True)


def test_a_fault_is_a_problem_with_the_words_for_the_client() -> None:
    fault = connection_fault("reset by peer")
    problem = fault_problem(fault, "The provider cannot be reached.")
    assert problem.message == "The provider cannot be reached."
    assert (problem.status, problem.fault) == (fault.http_status, fault)


def test_a_delay_is_rounded_up_to_whole_seconds() -> None:
    assert [whole_seconds(delay_s) for delay_s in (0.0, 0.2, 1.0, 1.01)] == ["1", "1", "1", "2"]
