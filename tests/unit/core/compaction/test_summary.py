"""Summaries: read from what a model wrote, sealed as state, rendered for the next model."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.compaction.summary import Summary, read_state, read_summary, summary_of
from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Capsule, Unopened
from tests.support.tables import table

WHOLE = Summary(
    goal="Ship the parser.",
    decisions=("Use a table.",),
    open_work=("Write the tests.",),
    files_touched=("src/parser.py: created",),
    facts=("The port is 8123.",),
    last_user_wishes=("Go on.",),
    open_calls=("shell (c1): ls",),
)


def capsule(*states: ReasoningState) -> Capsule:
    return Capsule(issuer="i", model="m", sealed_at=0, states=states)


def test_the_fields_of_a_written_summary_are_read() -> None:
    text = json.dumps({"goal": "Ship it.", "facts": ["The port is 8123."]})
    found = read_summary(text, ("shell (c1): ls",))
    assert found == Summary(
        goal="Ship it.", facts=("The port is 8123.",), open_calls=("shell (c1): ls",)
    )


@table("text", ["The port is 8123.", '{"goal": 3}', '{"goal": "cut', "[]"])
def test_what_is_no_summary_in_json_is_kept_as_plain_text(text: str) -> None:
    assert read_summary(f" {text}\n", ("c",)) == Summary(text=text, open_calls=("c",))


def test_fields_that_only_the_gateway_writes_are_not_read_from_a_model() -> None:
    assert read_summary('{"goal": "a", "open_calls": ["x"], "text": "y"}') == Summary(goal="a")


@table("text", ["", "  ", "{}", '{"goal": "", "facts": []}'])
def test_a_summary_without_content_is_empty(text: str) -> None:
    assert read_summary(text, ("shell (c1): ls",)).is_empty
    assert not read_summary("A fact.").is_empty


def test_every_field_is_rendered_under_its_title() -> None:
    title, *paragraphs = WHOLE.render().split("\n\n")
    assert title.startswith("[Summary of the conversation so far.")
    assert paragraphs == [
        "Goal: Ship the parser.",
        "Decisions:\n- Use a table.",
        "Open work:\n- Write the tests.",
        "Files touched:\n- src/parser.py: created",
        "Facts:\n- The port is 8123.",
        "What the user asked for last:\n- Go on.",
        "Tool calls without a result:\n- shell (c1): ls",
    ]
    assert Summary(text="Plain.").render().endswith("\n\nPlain.")


def test_a_sealed_summary_is_read_back() -> None:
    state = ReasoningState("compaction", WHOLE.to_state())
    found = read_state(capsule(ReasoningState("signed", "x"), state))
    assert summary_of(found) == WHOLE


@table(
    "opened",
    [
        Unopened.TAMPERED,
        capsule(),
        capsule(ReasoningState("signed", {"summary": {}})),
        capsule(ReasoningState("compaction", "text")),
    ],
)
def test_a_capsule_without_a_compaction_has_no_state(opened: Any) -> None:
    assert read_state(opened) is None


@table("state", [None, {"item": {}}, {"summary": 3}, {"summary": {"goal": 3}}])
def test_a_state_without_a_valid_summary_has_none(state: Any) -> None:
    assert summary_of(state) is None
