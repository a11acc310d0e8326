"""Requests of the page's API: filters in the address, pages, details and payloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.server.endpoints.query import Query
from antiphon.server.http import HTTPResponse
from antiphon.server.ui.requests import MAX_SEARCH_WORDS, Search, parse_search, read_filter
from antiphon.store.trace.listing import RequestFilter
from antiphon.store.trace.rows import TraceAttempt, TraceRow, TraceSkip, TraceUsage
from tests.support.applications import document_of, error_of
from tests.support.pages.api import HOST, ask, ask_json, traced_application, with_token
from tests.support.tables import table
from tests.support.traces import NOW_MS, finish, request, stream

HOUR_MS = 3_600_000


async def test_pages_of_a_list_are_linked(tmp_path: Path) -> None:
    rows = [request(f"q{number}") for number in range(5)]
    async with traced_application(tmp_path, *rows) as opened:
        first = await ask_json(opened, "requests", "limit=2")
        assert [row["request_id"] for row in first["rows"]] == ["q4", "q3"]
        second = await ask_json(opened, "requests", f"limit=3&before={first['next']}")
        assert [row["request_id"] for row in second["rows"]] == ["q2", "q1", "q0"]
        assert second["next"] is None
        assert "status" not in second["rows"][0]  # running, which is the default


async def test_the_choices_of_the_filters_are_listed(tmp_path: Path) -> None:
    async with traced_application(tmp_path, request("q1", client="alice")) as opened:
        choices = await ask_json(opened, "choices")
    assert (choices["client"], choices["model"]) == (["alice"], ["m"])


def test_the_filter_is_read_from_the_query() -> None:
    text = "client=a&model=b%2Fc&provider=d&status=failed,rejected&code=e&since=2h&until=&x=y"
    assert read_filter(Query(text), NOW_MS) == RequestFilter(
        client="a",
        model="b/c",
        provider="d",
        status=("failed", "rejected"),
        code="e",
        since_ms=NOW_MS - 2 * HOUR_MS,
    )


@table(
    ("text", "expected"),
    [
        ("90m", NOW_MS - 90 * 60_000),
        ("7d", NOW_MS - 7 * 24 * HOUR_MS),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T12:00:00Z", 1_699_963_200_000),
        ("2023-11-14T12:00:00%2B02:00", 1_699_956_000_000),
    ],
)
def test_times_may_be_relative_or_absolute(text: str, expected: int) -> None:
    assert read_filter(Query(f"since={text}"), NOW_MS).since_ms == expected


@pytest.mark.parametrize("text", ["yesterday", "5", "1w", "2023-99-99"])
async def test_a_time_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, text: str
) -> None:
    async with traced_application(tmp_path) as opened:
        response = await ask(opened, "/ui/api/requests", query=f"until={text}")
    assert (response.status, error_of(response)["param"]) == (400, "until")


async def test_a_request_has_its_rows_with_times_after_its_arrival(tmp_path: Path) -> None:
    rows: list[TraceRow] = [
        request("q1", response_id="resp_1", client="alice", received_at_ms=NOW_MS - 400),
        TraceAttempt(request_id="q1", number=1, provider="p", model="m", latency_ms=300),
        TraceSkip(request_id="q1", provider="p", model="n", reason="it is resting"),
        TraceUsage(request_id="q1", input_tokens=2),
        stream("q1"),
        finish("q1"),
    ]
    async with traced_application(tmp_path, *rows) as opened:
        found = await ask_json(opened, "requests/resp_1")
    assert (found["request_id"], found["received_at_ms"]) == ("q1", NOW_MS - 400)
    [attempt] = found["attempts"]
    assert (attempt["began_ms"], attempt["at_ms"], attempt["number"]) == (100, 400, 1)
    assert found["skips"][0]["reason"] == "it is resting"
    assert found["usage"]["input_tokens"] == 2
    assert found["finish"]["status"] == "completed"
    assert found["streams"] == [{"kind": "raw", "size": 9, "chunks": 0}]
    assert (found["payloads"], found["needs_client_key"]) == (True, False)


async def test_an_unknown_request_is_404_and_says_why(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        response = await ask(opened, "/ui/api/requests/req_x")
    assert response.status == 404
    assert "'req_x' is in the trace: it was not traced, or" in error_of(response)["message"]


async def test_payloads_keep_characters_that_were_cut_in_two(tmp_path: Path) -> None:
    blob = "data: é\n\n".encode()
    cut = stream("q1", blob, offsets=[(0, NOW_MS), (7, NOW_MS + 9)])
    async with traced_application(tmp_path, request("q1"), cut) as opened:
        found = await ask_json(opened, "requests/q1/streams")
    assert found["streams"] == [
        {
            "kind": "raw",
            "size": len(blob),
            "truncated": False,
            "kept": True,
            "whole": False,
            "chunks": [[NOW_MS, "data: "], [NOW_MS + 9, "é\n\n"]],
        }
    ]


async def test_payloads_of_a_request_that_has_just_ended_are_waited_for(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        record = opened.application.process.setup.engine.services.tracer.record
        for row in (request("q1"), stream("q1", b"data", offsets=[(0, NOW_MS)]), finish("q1")):
            record(row)
        found = await ask_json(opened, "requests/q1/streams")
    assert [each["kind"] for each in found["streams"]] == ["raw"]


async def test_what_the_client_of_a_whole_response_got_is_the_whole_response(
    tmp_path: Path,
) -> None:
    async with traced_application(tmp_path) as opened:
        response = await opened.create()
        id = response.headers["x-request-id"]
        streams = (await ask_json(opened, f"requests/{id}/streams"))["streams"]
    [got] = [each for each in streams if each["kind"] == "transformed"]
    [[_, text]] = got["chunks"]
    assert got["whole"]
    assert text.encode() == response.body


async def test_no_list_and_no_detail_has_payloads(tmp_path: Path) -> None:
    secret = stream("q1", b"data: payload-canary\n\n", offsets=[(0, NOW_MS)])
    async with traced_application(tmp_path, request("q1"), secret) as opened:
        for path in ("requests", "requests/q1", "now", "choices"):
            response = await ask(opened, f"/ui/api/{path}")
            assert isinstance(response.body, bytes)
            assert b"payload-canary" not in response.body


async def test_the_result_has_the_output_and_the_verdict(tmp_path: Path) -> None:
    item = {"type": "function_call", "name": "run", "arguments": "{}"}
    tool = {"type": "function", "name": "run", "parameters": {"required": ["cmd"]}}
    response = {"status": "completed", "output": [item], "tools": [tool]}
    event = json.dumps({"type": "response.completed", "response": response})
    events = stream("q1", f"data: {event}\n\n".encode(), "transformed", offsets=[(0, NOW_MS)])
    async with traced_application(tmp_path, request("q1"), events, finish("q1")) as opened:
        found = await ask_json(opened, "requests/q1/result")
        assert await ask_json(opened, "requests/q2/result") == {}
    assert found["result"]["items"] == [item]
    assert found["result"]["calls"][0]["check"] == "invalid"
    assert found["verdict"]["cause"] == "model"


async def test_payloads_are_kept_for_some_minutes(tmp_path: Path) -> None:
    async with traced_application(tmp_path, payloads=False) as opened:
        headers = with_token(opened.application.process)

        async def switch(minutes: object) -> HTTPResponse:
            body = {"minutes": minutes}
            return await ask(opened, "/ui/api/payloads", method="POST", headers=headers, body=body)

        assert (await ask_json(opened, "requests"))["payloads"] is False
        on = document_of(await switch(15))
        services = opened.application.process.setup.engine.services
        now_ms = int(services.runtime.epoch_s() * 1000)
        assert 0 < on["payloads_until_ms"] - now_ms <= 15 * 60_000
        assert (await ask_json(opened, "requests"))["payloads"] is True
        assert document_of(await switch(0)) == {"payloads": False, "payloads_until_ms": None}
        for wrong in (-1, 1441, 1.5, "15", True, None):
            assert (await switch(wrong)).status == 400


async def test_without_the_token_payloads_are_not_switched_on(tmp_path: Path) -> None:
    async with traced_application(tmp_path, payloads=False) as opened:
        path = "/ui/api/payloads"
        refused = await ask(opened, path, method="POST", body={"minutes": 15})
        assert (refused.status, error_of(refused)["code"]) == (403, "page_token_required")
        assert (await ask_json(opened, "requests"))["payloads"] is False


async def test_another_page_cannot_switch_payloads_on(tmp_path: Path) -> None:
    async with traced_application(tmp_path, payloads=False) as opened:
        headers = {**HOST, "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        path = "/ui/api/payloads"
        refused = await ask(opened, path, method="POST", headers=headers, body={"minutes": 15})
        assert refused.status == 403
        assert (await ask_json(opened, "requests"))["payloads"] is False


@table(
    ("text", "found"),
    [
        ("", Search({}, ())),
        ("req_1A busy", Search({}, ("req_1a", "busy"))),
        ("model:a/b status:failed", Search({"model": "a/b", "status": "failed"}, ())),
        (
            'client:"two words" text:"Hello there"',
            Search({"client": "two words", "text": "Hello there"}, ()),
        ),
        (">2s <1.5m", Search({}, (), 2000, 90_000)),
        (">300ms", Search({}, (), 300)),
        (">2", Search({}, (), 2000)),
        ("http://x y:z", Search({}, ("http://x", "y:z"))),
        ('""', Search({}, ())),
        (">x", Search({}, (">x",))),
    ],
)
def test_a_search_is_read(text: str, found: Search) -> None:
    assert parse_search(text) == found


def test_the_number_of_words_is_bounded() -> None:
    assert len(parse_search("a " * 100).words) == MAX_SEARCH_WORDS
