"""Bedrock recordings: damaged frames, citations, server-side tools."""

from __future__ import annotations

import random

import pytest

from antiphon import replay
from antiphon.core.deltas import Extra
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import answers, deltas_of, every, final, parts_of, streams
from tests.support.reference_readers.bedrock import read
from tests.support.stream_validator import check

CASES = cases("bedrock")
STREAMS = streams(CASES)

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


@every(STREAMS)
def test_a_recording_that_breaks_off_or_is_damaged_still_ends_well_formed(case: Case) -> None:
    generator = random.Random(case.id)
    for _ in range(20):
        offset = generator.randrange(1, len(case.data))
        damaged = bytearray(case.data)
        damaged[offset] ^= 0xFF
        for data in (case.data[:offset], bytes(damaged)):
            events = replay(data, dialect="bedrock")
            check(events)
            assert final(events)["status"] in ("failed", "incomplete", "completed")
            recorded_text = "".join(b.text for b in read(case.data).output if b.kind == "text")
            sent_text = "".join(
                e["delta"] for e in events if e["type"] == "response.output_text.delta"
            )
            assert recorded_text.startswith(sent_text)


@every(answers(CASES))
def test_citations_are_annotations(case: Case) -> None:
    parts = parts_of(case)
    notes = [note for part in parts for note in part["annotations"]]
    assert [note["url"] for note in notes if "url" in note] == read(case.data).cited()
    ends = [note.get("end_index", note.get("index")) for note in notes]
    assert all(end <= len(part["text"]) for part in parts for end in ends)
    cited = sum(len(block.get("citations", ())) for block in read(case.data).blocks)
    assert len(notes) == cited


@every(case for case in STREAMS if "citations" in case.meta["features"])
def test_server_side_tools_are_kept_for_the_trace(case: Case) -> None:
    kept = {delta.kind for delta in deltas_of(case) if isinstance(delta, Extra)}
    blocks = read(case.data).blocks
    assert ("block_toolUse" in kept) == any("type" in b.get("toolUse", {}) for b in blocks)
    assert ("block_toolResult" in kept) == any("toolResult" in block for block in blocks)


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    operations = {case.meta["operation"] for case in CASES}
    assert {"converse", "converse-stream", "invoke", "invoke-with-response-stream"} <= operations
    recorded = [read(case.data) for case in CASES]
    assert any(each.cited() for each in recorded)
    assert any(each.cached_tokens for each in recorded)
    assert any(each.stop == "guardrail_intervened" for each in recorded)
