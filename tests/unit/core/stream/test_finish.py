"""Finish reasons and the status of the response that each gives."""

from __future__ import annotations

from functools import partial

import pytest

from antiphon.core.deltas import Finish, Text
from antiphon.core.faults.messages import describe
from antiphon.core.stream.finish import FINISH_REASONS, map_finish_reason, name_incomplete
from antiphon.core.stream.machine import ResponseMachine
from tests.support.machines import run
from tests.support.stream_validator import check
from tests.support.tables import table

UNEXPECTED = "The provider sent an unexpected finish reason."
ORIGINAL_TABLE = [
    ("stop", "completed", None, None),
    ("tool_calls", "completed", None, None),
    ("length", "incomplete", "max_output_tokens", None),
    ("model_context_window_exceeded", "incomplete", "max_output_tokens", None),
    ("content_filter", "incomplete", "content_filter", None),
    ("sensitive", "incomplete", "content_filter", None),
    (
        "network_error",
        "failed",
        None,
        "The provider reported a network error. Send the request again.",
    ),
    (None, "failed", None, "The provider returned no finish reason. Send the request again."),
    ("", "failed", None, "The provider returned no finish reason. Send the request again."),
    ("surprise", "failed", None, f"{UNEXPECTED} Reason: surprise."),
]


@table(("reason", "status", "incomplete", "message"), ORIGINAL_TABLE)
def test_a_finish_reason_of_the_original_table(
    reason: str | None, status: str, incomplete: str | None, message: str | None
) -> None:
    events = run([Text("a"), Finish(reason)])
    check(events)
    response = events[-1]["response"]
    assert events[-1]["type"] == f"response.{status}"
    assert response["status"] == status
    assert response["incomplete_details"] == ({"reason": incomplete} if incomplete else None)
    error = {"code": "server_error", "message": message} if message else None
    assert response["error"] == error


@table("reason", FINISH_REASONS)
def test_finish_reasons_are_case_insensitive(reason: str) -> None:
    assert map_finish_reason(reason.upper()) == map_finish_reason(reason) == FINISH_REASONS[reason]


@table("reason", FINISH_REASONS)
def test_every_row_has_the_fields_of_its_status(reason: str) -> None:
    row = FINISH_REASONS[reason]
    assert (row.status == "incomplete") == (row.incomplete_reason is not None)
    assert (row.status == "failed") == (row.error_code is not None) == bool(row.message)


@table(
    ("reason", "status"),
    [
        *((reason, "completed") for reason in ("eos", "end_turn", "tool_use", "STOP")),
        *((reason, "incomplete") for reason in ("max_tokens", "MAX_TOKENS", "SAFETY", "spii")),
        *(
            (reason, "incomplete")
            for reason in ("MODEL_ARMOR", "CONTINUATION", "other_after_output")
        ),
        *((reason, "completed") for reason in ("FINISH", "FINISHED", "endoftext", "normal")),
        *((reason, "completed") for reason in ("end", "tool-calls")),
        *((reason, "incomplete") for reason in ("content-filter", "IMAGE_OTHER", "ESCALATION")),
        *((reason, "incomplete") for reason in ("max_output", "token_limit", "time_limit")),
        ("content_filter: PROHIBITED_CONTENT", "incomplete"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "failed"),
        *((reason, "failed") for reason in ("insufficient_system_resource", "error", "abort")),
        *((reason, "failed") for reason in ("malformed_model_output", "malformed_tool_use")),
    ],
)
def test_vendors_finish_reasons_are_mapped(reason: str, status: str) -> None:
    assert map_finish_reason(reason).status == status


def test_a_call_that_the_provider_could_not_parse_is_reported_as_such() -> None:
    outcome = map_finish_reason("function_call_filter: MALFORMED_FUNCTION_CALL")
    assert outcome == FINISH_REASONS["malformed_tool_use"]


@table(
    ("reason", "shown"),
    [
        ("max_output_tokens", "max_output_tokens"),
        ("server_timeout", "server_timeout"),
        ("CONTENT_FILTER", "content_filter"),
        ("content-filter", "content_filter"),
        ("MAX_TOKENS", "max_output_tokens"),
        ("a sentence", "max_output_tokens"),
        ("x" * 65, "max_output_tokens"),
    ],
)
def test_a_response_that_its_provider_calls_incomplete_is_incomplete(
    reason: str, shown: str
) -> None:
    outcome = map_finish_reason(name_incomplete(reason))
    assert (outcome.status, outcome.incomplete_reason) == ("incomplete", shown)


@table("reason", ["sk-secret https://x", "a b", "x" * 65, "<b>", "1", "ß"])
def test_a_reason_that_is_not_shaped_like_a_code_is_not_shown(reason: str) -> None:
    assert map_finish_reason(reason).message == UNEXPECTED


@table("reason", [None, "surprise", *(r for r in FINISH_REASONS if FINISH_REASONS[r].fault)])
def test_a_failure_by_finish_reason_names_the_provider_in_the_language_of_the_client(
    reason: str | None,
) -> None:
    machine = ResponseMachine(describe=partial(describe, locale="zh", provider="acme"))
    machine.start()
    machine.text("a")
    machine.finish(reason)
    error = machine.snapshot.error
    assert error is not None
    assert error.message.startswith("acme ")
    assert not error.message.isascii()
    assert machine.fault is None, "the provider answered: no attempt has failed"


@pytest.mark.parametrize(
    ("reason", "status"),
    [("surprise", "completed"), ("network_error", "incomplete"), (None, "incomplete")],
)
def test_the_last_item_of_a_failure_is_complete_unless_it_was_cut(
    reason: str | None, status: str
) -> None:
    [message] = run([Text("a"), Finish(reason)])[-1]["response"]["output"]
    assert message["status"] == status
    assert message["content"][0]["text"] == "a"
