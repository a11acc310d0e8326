"""Golden transcripts: what a provider sent, and the events a client sees, in full.

`<dialect>/<case>/` holds `upstream.sse`, `.json`, `.ndjson` or `.eventstream`, `request.json` if
the native request matters, and `events.jsonl`. All of it is invented; the shapes are those of real
providers. `make golden` rewrites the events.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon import replay
from antiphon.dialects.dialect import DIALECTS
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.stream_validator import check
from tests.support.tables import table

HERE = Path(__file__).parent
UPSTREAMS = sorted(HERE.glob("*/*/upstream.*"))
ANSWERS = {f"upstream.{kind}" for kind in ("sse", "json", "ndjson", "eventstream")}
NAMES = ANSWERS | {"request.json", "events.jsonl"}

# What every dialect must show, by the case that shows it; `chat` also shows every way to end.
SHOWN_BY_ALL = {"text", "parallel_calls"}
SHOWN_BY_RESPONSES = """
    code_interpreter web_search file_search image_generation mcp_call shell_call
""".split()
SHOWN_BY_CHAT = """
    text reasoning call parallel_calls parallel_calls_interleaved refusal length filter
    error_mid_stream truncated_text truncated_call usage_after_finish empty_deltas whole_text
    whole_calls whole_refusal whole_length whole_filter whole_error whole_empty
""".split()

every_case = table("upstream", UPSTREAMS, ids=["/".join(path.parts[-3:-1]) for path in UPSTREAMS])


def replayed(upstream: Path, **options: Any) -> list[dict[str, Any]]:
    request = upstream.with_name("request.json")
    known = json.loads(request.read_bytes()) if request.exists() else None
    dialect = upstream.parts[-3]
    return replay(upstream.read_bytes(), dialect=dialect, request=known, **options)


@every_case
def test_a_recorded_answer_gives_the_same_events(
    upstream: Path, pytestconfig: pytest.Config
) -> None:
    golden = upstream.with_name("events.jsonl")
    lines = [json.dumps(event, ensure_ascii=False) for event in replayed(upstream)]
    text = "".join(f"{line}\n" for line in lines)
    if pytestconfig.getoption("update_golden"):
        golden.write_bytes(text.encode())
    assert text == golden.read_bytes().decode()


@every_case
def test_a_golden_transcript_keeps_every_rule(upstream: Path) -> None:
    text = upstream.with_name("events.jsonl").read_bytes().decode()
    events = [json.loads(line) for line in text.split("\n") if line]
    check(events)
    check_with_sdk(events)
    assert events[-1]["response"]["status"] != "in_progress"


@every_case
def test_a_recorded_answer_cut_at_every_byte_gives_the_same_events(upstream: Path) -> None:
    assert replayed(upstream, cuts=range(upstream.stat().st_size)) == replayed(upstream)


@table("dialect", sorted(DIALECTS))
def test_every_dialect_has_its_golden_cases(dialect: str) -> None:
    shown = {path.parent.name for path in UPSTREAMS if path.parts[-3] == dialect}
    more = {"chat": SHOWN_BY_CHAT, "responses": SHOWN_BY_RESPONSES}.get(dialect, [])
    assert SHOWN_BY_ALL.union(more) <= shown


def test_every_golden_file_belongs_to_a_case() -> None:
    cases = [path for path in HERE.glob("*/*") if path.is_dir()]
    for case in cases:
        names = {path.name for path in case.iterdir()}
        assert names <= NAMES, f"{case}: nobody reads {names - NAMES}"
        assert len(names & ANSWERS) == 1, f"{case}: one upstream"
        assert "events.jsonl" in names, f"{case}: no events"
    assert len(cases) == len(UPSTREAMS)
