"""Gemini recordings: citations, server-side tools, signed parts."""

from __future__ import annotations

import json

import pytest

from antiphon.core.deltas import Extra, Failure
from antiphon.core.plan.plan import Plan
from antiphon.dialects.gemini.dialect import GeminiDialect
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.quirks import GeminiQuirks
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import Document, answers, deltas_of, every, history_of, parts_of
from tests.support.reference_readers.gemini import expected_parts, read
from tests.support.request_validators.gemini import problems

CASES = cases("gemini")
ANSWERS = answers(CASES)

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


@every(ANSWERS)
def test_web_citations_annotate_their_passage(case: Case) -> None:
    marked = [
        (note["url"], part["text"][note["start_index"] : note["end_index"]])
        for part in parts_of(case)
        for note in part["annotations"]
    ]
    supports = read(case.data).supports
    if supports:
        assert marked == supports


@every(ANSWERS)
def test_server_side_tools_are_kept_for_the_trace(case: Case) -> None:
    recorded, deltas = read(case.data), deltas_of(case)
    kept = [delta.kind for delta in deltas if isinstance(delta, Extra)]
    for kind in ("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData"):
        assert kept.count(kind) == len(recorded.of(kind))
    assert any(isinstance(delta, Failure) for delta in deltas) == (
        recorded.blocked is not None or (recorded.finish == "OTHER" and not recorded.parts)
    )


@every(case for case in CASES if case.meta["http_status"] >= 400)
def test_an_error_in_an_array_is_the_same_error(case: Case) -> None:
    status, headers = case.meta["http_status"], case.meta.get("response_headers") or {}
    alone, listed = (
        GeminiDialect().classify(status, headers, body)
        for body in (case.data, b"[" + case.data + b"]")
    )
    assert (listed.type, listed.scope) == (alone.type, alone.scope)
    assert not listed.retryable


@every(case for case in ANSWERS if read(case.data).finish == "STOP")
def test_an_answer_is_replayed_part_by_part(case: Case) -> None:
    plan = Plan(provider="p", model="m", history=history_of(case))
    body = encode(plan, stream=True, quirks=GeminiQuirks(sentinel=False)).body
    sent = json.loads(body)["contents"][1]
    native = expected_parts(read(case.data).parts)
    assert sent == {"role": "model", "parts": [_plain(part) for part in native]}
    if "REDACTED" not in json.dumps(native):  # a signature is base64
        assert problems(body) == []


def _plain(part: Document) -> Document:
    """A call with its arguments, empty if it has none."""
    if "functionCall" not in part:
        return part
    return {**part, "functionCall": {"args": {}, **part["functionCall"]}}


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    assert {case.meta["wire"] for case in CASES} == {"sse", "json", "json-array"}
    recorded = [read(case.data) for case in CASES]
    signed = [part for each in recorded for part in each.parts if "thoughtSignature" in part]
    assert any(part.get("text") == "" for part in signed)
    assert any(part.get("text") for part in signed)
    assert any("functionCall" in part for part in signed)
    assert any("toolCall" in part for part in signed)
    assert any(each.supports for each in recorded)
    assert any(each.blocked for each in recorded)
    assert any(each.error for each in recorded)
    assert any(each.finish == "OTHER" for each in recorded)
