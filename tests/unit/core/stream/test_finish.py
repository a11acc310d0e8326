"""Finish reasons and the status of the response that each gives."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Finish, Text
from antiphon.core.stream.finish import FINISH_REASONS, map_finish_reason
from tests.support.machines import run
from tests.support.stream_validator import check
from tests.support.tables import table

ORIGINAL_TABLE = [
    ("stop", "completed", None, None),
    ("tool_calls", "completed", None, None),
    ("length", "incomplete", "max_output_tokens", None),
    ("model_context_window_exceeded", "incomplete", "max_output_tokens", None),
    ("content_filter", "incomplete", "content_filter", None),
    ("sensitive", "incomplete", "content_filter", None),
    ("network_error", "failed", None, "The provider reported a network error."),
    (None, "failed", None, "Provider returned no finish reason."),
    ("", "failed", None, "Provider returned no finish reason."),
    ("surprise", "failed", None, "Unexpected finish reason: surprise."),
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
        *((reason, "completed") for reason in ("FINISH", "endoftext")),
        *((reason, "failed") for reason in ("insufficient_system_resource", "error", "abort")),
        *((reason, "failed") for reason in ("malformed_model_output", "malformed_tool_use")),
    ],
)
def test_vendors_finish_reasons_are_mapped(reason: str, status: str) -> None:
    assert map_finish_reason(reason).status == status


@table("reason", ["sk-secret https://x", "a b", "x" * 65, "<b>", "1", "ß"])
def test_a_reason_that_is_not_shaped_like_a_code_is_not_shown(reason: str) -> None:
    assert map_finish_reason(reason).message == "Unexpected finish reason."


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
