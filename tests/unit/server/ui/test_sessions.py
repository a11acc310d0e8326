"""Sessions of the page's API: sums, turns in their order, and inputs without repeated turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from antiphon.server.ui.sessions import PAGE_TURNS, trim_input
from antiphon.store.trace.rows import TraceRow, TraceUsage
from tests.support.applications import error_of
from tests.support.pages.api import ask, ask_json, traced_application
from tests.support.tables import table
from tests.support.traces import NOW_MS, finish, request, stream


def turn(id: str, session: str, body: Any = None, **usage: Any) -> list[TraceRow]:
    rows: list[TraceRow] = [request(id, session=session, client="alice")]
    if body is not None:
        rows.append(stream(id, json.dumps(body).encode(), "request", offsets=[(0, NOW_MS)]))
    return [*rows, TraceUsage(request_id=id, **usage), finish(id)]


async def test_sessions_are_summed_up_the_latest_first(tmp_path: Path) -> None:
    rows = [
        *turn("q1", "one", input_tokens=10, cached_tokens=4, output_tokens=1, cost=0.5),
        *turn("q2", "two", input_tokens=7),
        *turn("q3", "one", input_tokens=20, cached_tokens=16, output_tokens=2, cost=0.25),
        request("q4"),
    ]
    async with traced_application(tmp_path, *rows) as opened:
        page = await ask_json(opened, "sessions")
    assert [row["session"] for row in page["rows"]] == ["one", "two"]
    first, second = page["rows"]
    assert (first["requests"], first["input_tokens"], first["cached_tokens"]) == (2, 30, 20)
    assert (first["output_tokens"], first["cost"], first["unpriced"]) == (3, 0.75, 0)
    assert (second["client"], second["unpriced"]) == ("alice", 1)
    assert page["next"] is None


async def test_the_turns_of_a_session_are_continued(tmp_path: Path) -> None:
    items = [{"role": "user", "content": str(number)} for number in range(PAGE_TURNS + 2)]
    rows = [
        row
        for number, item in enumerate(items)
        for row in turn(f"q{number}", "one", {"input": [{"role": "assistant"}, item]})
    ]
    async with traced_application(tmp_path, *rows) as opened:
        page = await ask_json(opened, "sessions/one")
        rest = await ask_json(opened, "sessions/one", f"after={page['next']}")
        missing = await ask(opened, "/ui/api/sessions/other")
    assert len(page["turns"]) == PAGE_TURNS
    assert [each["input"]["input"] for each in rest["turns"]] == [[each] for each in items[-2:]]
    assert page["turns"][0]["input"]["input"] == [{"role": "assistant"}, items[0]]
    assert page["turns"][0]["request_id"] == "q0"
    assert (missing.status, error_of(missing)["code"]) == (404, "not_found")


USER = {"role": "user", "content": "Hi"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "x"}


@table(
    ("document", "is_first", "kept"),
    [
        ({"input": "Hi", "instructions": "Be brief", "model": "m"}, False, {"input": "Hi"}),
        ({"input": [USER], "instructions": "B"}, True, {"input": [USER], "instructions": "B"}),
        (
            {"input": [USER, {"type": "reasoning"}, {"type": "function_call"}, RESULT]},
            False,
            {"input": [RESULT]},
        ),
        (
            {"system": "S", "messages": [USER, {"role": "assistant"}, USER]},
            False,
            {"messages": [USER]},
        ),
        ({"messages": ["junk", USER]}, False, {"messages": ["junk", USER]}),
        ({"model": "m"}, False, {}),
    ],
)
def test_an_input_loses_the_turns_that_it_repeats(
    document: dict[str, Any], is_first: bool, kept: dict[str, Any]
) -> None:
    assert trim_input(document, is_first=is_first) == kept
