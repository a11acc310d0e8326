"""Diagnostics stage: one log entry with the diagnostics of an answer."""

from __future__ import annotations

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.events import Completed
from antiphon.core.response import Response
from antiphon.stages.builtin import DiagnosticsStage
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Batch

ENDING = Completed(Response(id="resp_1", created_at=0, model="m"))
IGNORED = Diagnostic(
    code=Code.PARAM_IGNORED, decision=Decision.IGNORED, param="top_p", message="The text."
)
UNUSED = Diagnostic(
    code=Code.CAPSULE_UNUSED, decision=Decision.DEGRADED, param="input", message="The text."
)
FACTS = {"request_id": "req_1"}


def entry(*found: str) -> Entry:
    return Entry("response.diagnostics", "info", {**FACTS, "diagnostics": list(found)})


def test_diagnostics_are_logged_once_by_code_and_parameter() -> None:
    log: list[Entry] = []
    stage = DiagnosticsStage(log.append)
    batch = Batch([ENDING], diagnostics=(IGNORED, UNUSED), facts=FACTS)
    assert stage.on_terminal(batch) is batch
    stage.close(batch)
    assert log == [entry("param.ignored:top_p", "capsule.unused:input")]


def test_an_answer_without_diagnostics_logs_nothing() -> None:
    log: list[Entry] = []
    stage = DiagnosticsStage(log.append)
    stage.close(stage.on_terminal(Batch([ENDING], facts=FACTS)))
    assert log == []


def test_diagnostics_are_logged_when_the_client_disconnects() -> None:
    log: list[Entry] = []
    DiagnosticsStage(log.append).close(Batch([], diagnostics=(IGNORED,), facts=FACTS))
    assert log == [entry("param.ignored:top_p")]


def test_diagnostics_found_after_the_end_are_logged_with_the_others() -> None:
    log: list[Entry] = []
    stage = DiagnosticsStage(log.append)
    stage.on_terminal(Batch([ENDING], diagnostics=(IGNORED,), facts=FACTS))
    stage.close(Batch([], diagnostics=(IGNORED, UNUSED), facts=FACTS))
    assert log == [
        entry("param.ignored:top_p"),
        entry("param.ignored:top_p", "capsule.unused:input"),
    ]
