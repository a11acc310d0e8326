"""The stream validator accepts valid streams and reports a violation of every rule."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.stream_validator import check
from tests.support.tables import table
from tests.support.valid_streams import (
    LOGPROB,
    Document,
    call,
    code_run,
    cut_call,
    error,
    hosted,
    keepalive,
    message,
    numbered,
    reasoning,
    refusal,
    response,
    search,
    stream,
)

CITATION = {
    "type": "url_citation",
    "url": "https://example.org",
    "title": "Example",
    "start_index": 0,
    "end_index": 1,
}
RICH = stream(
    reasoning(raw=("why", "so"), summary=("short", "shorter")),
    keepalive,
    message("a", "b", cited=(CITATION, CITATION)),
    call('{"a"', ":1}"),
    call("patch", kind="custom_tool_call"),
    search("in_progress", "searching", "completed"),
    call("{}", kind="mcp_call"),
    refusal("no", "!"),
)
CUT = stream(message("a"), call("{}"), message("b", status="incomplete"), end="incomplete")
FAILED = stream(message("a"), cut_call('{"a'), cut_call('{"b'), message("c"), error, end="failed")

CODE = stream(code_run("1+", "1"))

GOOD = {
    "code that a server ran": CODE,
    "rich": RICH,
    "cut": CUT,
    "failed": FAILED,
    "queued": stream(message("a"), queued=True),
    "empty": stream(),
    "what a server ran itself": stream(hosted("shell_call"), hosted("shell_call_output")),
    "what a server failed to run": stream(hosted("web_search_call", status="failed")),
    "arguments that came whole": stream(hosted("mcp_approval_request", arguments="{}")),
    "calls cut together": stream(
        call('{"a', status="incomplete"), call('{"b', status="incomplete"), end="incomplete"
    ),
}


@table("events", GOOD.values(), ids=GOOD.keys())
def test_a_valid_stream_has_no_problems(events: list[Document]) -> None:
    before = copy.deepcopy(events)
    check(events)
    assert events == before, "the judge must not touch the evidence"


Break = Callable[[list[Document]], object]


def at(events: list[Document], kind: str, nth: int = 0) -> int:
    return [i for i, event in enumerate(events) if event["type"].endswith(kind)][nth]


def put(kind: str, nth: int = 0, **changes: Any) -> Break:
    """Change fields of the nth event of a kind."""
    return lambda events: events[at(events, kind, nth)].update(changes)


def put_in(kind: str, inner: str, nth: int = 0, **changes: Any) -> Break:
    return lambda events: events[at(events, kind, nth)][inner].update(changes)


def drop(kind: str, nth: int = 0) -> Break:
    return lambda events: events.pop(at(events, kind, nth))


def drop_in(kind: str, inner: str, name: str, nth: int = 0) -> Break:
    return lambda events: events[at(events, kind, nth)][inner].pop(name)


def repeat(kind: str, nth: int = 0) -> Break:
    def mutate(events: list[Document]) -> None:
        place = at(events, kind, nth)
        events.insert(place, copy.deepcopy(events[place]))

    return mutate


def swap(first: str, second: str) -> Break:
    def mutate(events: list[Document]) -> None:
        one, two = at(events, first), at(events, second)
        events[one], events[two] = events[two], events[one]

    return mutate


def insert(kind: str, **fields: Any) -> Break:
    return lambda events: events.insert(at(events, kind), fields)


def output(place: int, **changes: Any) -> Break:
    """Change an item of the terminal output only."""
    return lambda events: events[-1]["response"]["output"][place].update(changes)


def both(*breaks: Break) -> Break:
    def mutate(events: list[Document]) -> None:
        for one in breaks:
            one(events)

    return mutate


def item_everywhere(place: int, **changes: Any) -> Break:
    """Change the done item and its twin in the terminal output alike."""
    return both(put_in("item.done", "item", place, **changes), output(place, **changes))


def begin_with(**changes: Any) -> Break:
    return put_in("created", "response", **changes)


def code_in_search(events: list[Document]) -> None:
    kind = "response.code_interpreter_call_code.delta"
    events[at(events, "call.in_progress")].update(type=kind, delta="1")


BREAKS: dict[str, list[tuple[str, list[Document], Break]]] = {
    "1": [
        ("no events at all", RICH, lambda events: events.clear()),
        ("created is missing", RICH, drop("created")),
        ("created comes second", RICH, swap("created", "in_progress")),
        ("created twice", RICH, repeat("created")),
        ("begins completed", RICH, begin_with(**response("completed"))),
        ("in_progress twice", RICH, repeat("response.in_progress")),
        ("in_progress is missing", RICH, drop("response.in_progress")),
        ("in_progress is missing and nothing else is there", stream(), drop("in_progress")),
        ("in_progress with another status", RICH, put_in("progress", "response", status="queued")),
        (
            "queued without being so",
            RICH,
            insert("item.added", type="response.queued", response=response("queued")),
        ),
        ("queued too late", GOOD["queued"], swap("queued", "in_progress")),
    ],
    "2": [
        ("a gap", RICH, lambda events: events[5].update(sequence_number=6)),
        ("it begins at 1", RICH, lambda events: events[0].update(sequence_number=1)),
        ("a number is missing", RICH, lambda events: events[3].pop("sequence_number")),
        (
            "a keep-alive with a number of its own",
            RICH,
            lambda events: events[at(events, "keepalive")].update(sequence_number=99),
        ),
        ("a number is true", RICH, lambda events: events[1].update(sequence_number=True)),
    ],
    "3": [
        ("no end", RICH, drop("completed", -1)),
        ("two ends", RICH, repeat("response.completed")),
        ("something after the end", RICH, lambda events: events.append({"type": "keepalive"})),
        ("status and event differ", CUT, lambda e: e[-1].update(type="response.completed")),
    ],
    "4": [
        ("another id in progress", RICH, put_in("progress", "response", id="resp_2")),
        ("another id at the end", RICH, put_in("response.completed", "response", id="resp_2")),
        ("early output", RICH, begin_with(output=[{}])),
        ("another id when queued", GOOD["queued"], put_in("queued", "response", id="resp_2")),
    ],
    "5": [
        ("added is missing", stream(message("a")), drop("item.added")),
        ("done is missing", stream(message("a")), drop("item.done")),
        ("done twice", stream(message("a")), repeat("item.done")),
        ("an index is skipped", RICH, put("item.added", 1, output_index=2)),
        ("an id is used twice", RICH, put_in("item.added", "item", 6, id="msg_1")),
        ("a call id is used twice", RICH, put_in("item.added", "item", 3, call_id="call_2")),
        ("added as completed", RICH, put_in("item.added", "item", status="completed")),
        ("added with content", RICH, put_in("item.added", "item", 2, arguments="{")),
        ("done in progress", RICH, item_everywhere(0, status="in_progress")),
        ("another id in a delta", RICH, put("text.delta", 0, item_id="rs_9")),
        ("another id when done", RICH, item_everywhere(2, id="fc_9")),
        ("another type when done", RICH, item_everywhere(4, type="file_search_call")),
        ("another name when done", RICH, item_everywhere(2, name="other")),
        ("a delta for nobody", RICH, put("text.delta", 0, output_index=9)),
        ("the output differs from done", RICH, output(1, role="assistant", phase="x")),
        ("an item is not in the output", RICH, lambda e: e[-1]["response"]["output"].pop()),
        ("a cut call has another name", FAILED, output(1, name="other")),
    ],
    "6": [
        ("no part is added", stream(message("a")), drop("part.added")),
        ("two parts at once", stream(message("a")), repeat("part.added")),
        ("parts counted from 1", stream(message("a")), put("part.added", 0, content_index=1)),
        ("delta of another part", stream(message("a")), put("text.delta", 0, content_index=1)),
        ("a part begins with text", RICH, put_in("content_part.added", "part", text="x")),
        ("the done text differs", RICH, put("output_text.done", 0, text="ax")),
        ("the done refusal differs", RICH, put("refusal.done", 0, refusal="yes")),
        ("the done part differs", RICH, put_in("content_part.done", "part", 2, text="ax")),
        ("the item's text differs", RICH, item_everywhere(1, content=[])),
        ("no text.done", stream(message("a")), drop("text.done")),
        ("no part.done", stream(message("a")), drop("part.done")),
        ("a delta after the text is done", RICH, swap("output_text.delta", "output_text.done")),
        ("a part of the wrong kind", RICH, put_in("content_part.added", "part", type="refusal")),
        ("a part nobody knows", RICH, put_in("content_part.added", "part", type="sound")),
        ("a summary as content", RICH, put_in("content_part.added", "part", type="summary_text")),
    ],
    "7": [
        ("no arguments.done", stream(call("{}")), drop("arguments.done")),
        ("no input.done", stream(call("x", kind="custom_tool_call")), drop("input.done")),
        ("arguments.done twice", RICH, repeat("arguments.done")),
        ("arguments differ", RICH, put("arguments.done", 0, arguments="{}")),
        ("the item's arguments differ", RICH, item_everywhere(2, arguments="{}")),
        (
            "input for a function",
            stream(call("{}")),
            put("s.delta", type=f"response.{'custom_tool_call_input'}.delta"),
        ),
        ("a cut call holds more", FAILED, output(1, arguments='{"a":1}')),
    ],
    "8": [
        ("a summary without a part", RICH, drop("summary_part.added")),
        ("the summary differs", RICH, item_everywhere(0, summary=[])),
    ],
    "9": [
        ("annotations counted from 1", RICH, put("annotation.added", 0, annotation_index=1)),
        ("an annotation after the text", RICH, swap("annotation.added", "output_text.done")),
        ("an annotation is lost", RICH, drop("annotation.added", -1)),
        ("it begins annotated", RICH, put_in("t_part.added", "part", 2, annotations=[CITATION])),
    ],
    "10": [
        ("it does not begin", stream(search("searching", "completed")), lambda events: None),
        ("it does not end", stream(search("in_progress", "searching")), lambda events: None),
        ("it goes back", RICH, swap("call.searching", "web_search_call.completed")),
        (
            "another kind of call",
            RICH,
            put("call.searching", 0, type="response.file_search_call.searching"),
        ),
        ("other code than was streamed", CODE, put("code.done", code="1+2")),
        ("code in a search", stream(search("in_progress", "completed")), code_in_search),
    ],
    "11": [
        ("two open items", stream(call("{}"), call("[]")), drop("item.done")),
        ("a delta for a closed item", RICH, put("refusal.delta", 0, output_index=0)),
    ],
    "12": [
        ("whole but for an item", RICH, item_everywhere(6, status="incomplete")),
        ("cut in the middle", CUT, item_everywhere(0, status="incomplete")),
    ],
    "13": [
        ("an error in the middle", RICH, insert("output_text.done", **error(0)[0][0])),
        ("two words for one error", FAILED, put("error", message="Other.")),
    ],
    "14": [
        ("padding that is null", RICH, put("output_text.delta", 0, obfuscation=None)),
        ("padding of a done event", RICH, put("output_text.done", 0, obfuscation="xx")),
    ],
    "15": [
        ("no logprobs", RICH, put("output_text.delta", 0, logprobs=None)),
        ("a logprob without bytes", RICH, put("output_text.delta", 0, logprobs=[{"token": "a"}])),
        (
            "a logprob without others",
            RICH,
            put("text.delta", -2, logprobs=[LOGPROB | {"top_logprobs": 1}]),
        ),
        ("done with other logprobs", RICH, put("output_text.done", 0, logprobs=[])),
        ("a part with other logprobs", RICH, put_in("content_part.done", "part", 2, logprobs=[])),
    ],
    "fields": [
        ("no type", RICH, lambda events: events[4].pop("type")),
        ("a type nobody knows", RICH, put("keepalive", type="response.cancelled")),
        ("a field is missing", RICH, lambda e: e[at(e, "output_text.delta")].pop("delta")),
        ("a delta is an object", RICH, put("output_text.delta", 0, delta={})),
        ("an index is negative", RICH, put("output_text.delta", 0, content_index=-1)),
        ("an item without type", RICH, drop_in("item.added", "item", "type")),
        ("an item without id", RICH, drop_in("item.added", "item", "id")),
        ("an id with another prefix", RICH, put_in("item.added", "item", id="msg_1")),
        ("a message without role", RICH, drop_in("item.added", "item", "role", 1)),
        ("a call without call_id", RICH, put_in("item.added", "item", 2, call_id="")),
        ("a null that should be absent", RICH, put_in("item.added", "item", 1, phase=None)),
        ("a part without text", RICH, item_everywhere(1, content=[{"type": "output_text"}])),
        (
            "a part without annotations",
            RICH,
            item_everywhere(1, content=[{"type": "output_text", "text": "ab"}]),
        ),
    ],
    "response": [
        *(
            (f"{name} is missing", RICH, drop_in("created", "response", name))
            for name in response()
        ),
        ("an early usage", RICH, begin_with(usage={})),
        ("an early error", RICH, begin_with(error={"code": "x", "message": "No."})),
        ("no usage at the end", RICH, put_in("response.completed", "response", usage=None)),
        ("no completed_at", RICH, put_in("response.completed", "response", completed_at=None)),
        ("completed_at of a cut one", CUT, put_in("incomplete", "response", completed_at=8)),
        (
            "usage without details",
            RICH,
            put_in(
                "response.completed",
                "response",
                usage={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
            ),
        ),
        ("usage without a total", RICH, put_in("response.completed", "response", usage={})),
        ("no reason", CUT, put_in("response.incomplete", "response", incomplete_details=None)),
        (
            "a reason nobody knows",
            CUT,
            put_in("response.incomplete", "response", incomplete_details={"reason": "length"}),
        ),
        ("no error", FAILED, put_in("response.failed", "response", error=None)),
        (
            "an error without words",
            FAILED,
            put_in("response.failed", "response", error={"code": "x"}),
        ),
        ("other output_text", RICH, put_in("response.completed", "response", output_text="b")),
        ("no output_text", RICH, drop_in("response.completed", "response", "output_text")),
        ("output_text too early", RICH, begin_with(output_text="")),
        ("a fractional time", RICH, begin_with(created_at=7.5)),
        ("a null temperature", RICH, begin_with(temperature=None)),
        ("no model", RICH, begin_with(model="")),
    ],
}


@table(
    ("rule", "events", "mutate"),
    [(rule, events, mutate) for rule, rows in BREAKS.items() for _, events, mutate in rows],
    ids=[f"{rule}-{name}" for rule, rows in BREAKS.items() for name, _, _ in rows],
)
def test_every_broken_rule_is_reported(rule: str, events: list[Document], mutate: Break) -> None:
    events = copy.deepcopy(events)
    mutate(events)
    if rule != "2":
        events = numbered(events)
    with pytest.raises(AssertionError) as raised:
        check(events)
    assert re.match(rf"rule {rule}: event \d+: ", str(raised.value))
